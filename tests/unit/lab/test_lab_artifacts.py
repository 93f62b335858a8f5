"""Jars are downloaded once, by one process, and only whole sets are used. Real Ivy, a repository of files."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mmtool.errors import MmtoolError
from mmtool.lab.artifacts import cache_folder, classpath, is_cached

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.java

VERSION = "0.0.1"
_SETTINGS = """<ivysettings><settings defaultResolver="files"/><resolvers>
<filesystem name="files" m2compatible="true">
<ivy pattern="{0}/[organisation]/[module]/[revision]/[module]-[revision].pom"/>
<artifact pattern="{0}/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"/>
</filesystem></resolvers></ivysettings>"""
_POM = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>{}</groupId><artifactId>{}</artifactId>"
    "<version>{}</version></project>"
)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A Maven repository of two tiny jars, and an empty cache."""
    for group, name, version in (
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ):
        folder = tmp_path / "repository" / group.replace(".", "/") / name / version
        folder.mkdir(parents=True)
        (folder / f"{name}-{version}.pom").write_text(_POM.format(group, name, version))
        (folder / f"{name}-{version}.jar").write_bytes(name.encode() * 100)
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(_SETTINGS.format(tmp_path / "repository"))
    monkeypatch.setenv("MMTOOL_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "repository"


def names(jars: list[Path]) -> list[str]:
    return [jar.name for jar in jars]


def test_a_cold_cache_is_filled_and_a_warm_one_needs_no_java(repository, monkeypatch):
    cold = classpath("broker", VERSION)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    warm = classpath("broker", VERSION)
    assert (names(cold), warm) == ([f"kafka_2.13-{VERSION}.jar", "slf4j-simple-1.7.36.jar"], cold)


def test_a_set_with_a_truncated_jar_is_not_whole_and_is_resolved_again(repository):
    jar = classpath("broker", VERSION)[0]
    jar.write_bytes(b"half")
    assert not is_cached(VERSION)
    assert classpath("broker", VERSION)[0].stat().st_size == 1000


def test_a_set_with_a_missing_jar_is_not_whole(repository):
    classpath("broker", VERSION)[1].unlink()
    assert not is_cached(VERSION)


def test_what_a_killed_download_left_behind_is_never_used(repository):
    staging = cache_folder() / VERSION / ".broker.staging"
    staging.mkdir(parents=True)
    (staging / "leftover-1.0.jar").write_bytes(b"half")
    assert "leftover-1.0.jar" not in names(classpath("broker", VERSION))


def test_two_processes_that_resolve_at_once_get_the_same_whole_set(repository):
    code = (
        "import json; from mmtool.lab.artifacts import classpath;"
        f"print(json.dumps([[str(j), j.stat().st_size] for j in classpath('broker', '{VERSION}')]))"
    )
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    answers = [json.loads(process.communicate(timeout=120)[0]) for process in both]
    assert (
        answers[0]
        == answers[1]
        == [[str(jar), 1000 if i == 0 else 1200] for i, jar in enumerate(classpath("broker", VERSION))]
    )


def test_a_version_that_cannot_be_had_is_named_with_a_way_out(repository):
    with pytest.raises(MmtoolError, match=r"^Kafka 9\.9\.9 .* could not be downloaded") as failure:
        classpath("broker", "9.9.9")
    assert failure.value.remedy.startswith("choose a Kafka version that the Maven repository has")
    assert ("MMTOOL_IVY_SETTINGS" in failure.value.remedy, is_cached("9.9.9")) == (True, False)


def test_settings_that_do_not_exist_are_not_taken_for_a_missing_version(repository, monkeypatch):
    monkeypatch.setenv("MMTOOL_IVY_SETTINGS", str(repository / "nowhere.xml"))
    with pytest.raises(MmtoolError, match="could not be downloaded") as failure:
        classpath("broker", VERSION)
    assert failure.value.remedy.startswith("check the network")
    assert "MMTOOL_IVY_SETTINGS" in failure.value.remedy
