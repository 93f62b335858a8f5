"""TAB in a shell: names at once, also while no cluster answers, and never a word about it."""

import json
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.scene import half_read
from mmtool.commands import _completion
from mmtool.errors import UnreachableError
from mmtool.plain_text import shell_word
from mmtool.runtime import known_names

ROOT = Path(__file__).parents[2]
HEAVY = {"aiokafka", "confluent_kafka", "numpy", "pandas", "py4j", "pyspark", "rich"}
PROPERTIES = """\
clusters = east, west
east.bootstrap.servers = 127.0.0.1:1
west.bootstrap.servers = 127.0.0.1:1
east->west.enabled = true
"""


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """Two clusters that do not answer, and what they said a moment ago."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = tmp_path / "mm2.properties"
    config.write_text(PROPERTIES)
    known_names.remember(config, aliases=["east", "west"], sources=["east"])
    known_names.remember(
        config, "east", groups=["billing", "app", "$(reboot)", "a b", "a:b"], topics=["orders"]
    )
    known_names.remember(config, "west", groups=["app", "reports"], topics=["east.orders"])
    known_names.remember(config, "west", operations=["20260101T000000Z-5eed01", "20260102T000000Z-5eed02"])
    assert known_names.is_due(config, 60)
    return config


def asked_by(shell, words):
    """The environment in which a shell's function asks for completions of ``words``, the last of them unfinished."""
    line = " ".join(words)
    return {
        "_MMTOOL_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }


def at_home(folder):
    """The environment of a user whose home this is, and who has mmtool on the path."""
    return {"HOME": str(folder), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def tab(*words, shell="bash"):
    ran = subprocess.run(
        [sys.executable, "-m", "mmtool"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | asked_by(shell, ["mmtool", *map(str, words)]),
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["status", "-s", ""], ["east", "west"]),
        (["status", "-t", "w"], ["west"]),
        (["translate-offsets", "-g", ""], ["app", "billing", "reports"]),
        (["translate-offsets", "-s", "east", "-g", "b"], ["billing"]),
        (["translate-offsets", "--topic", ""], ["orders"]),
        (["status", "-s", "west", "--topic", ""], ["east.orders"]),
    ],
    ids=" ".join,
)
def test_names_of_the_cache_are_offered(cached, words, offered):
    command, *rest = words
    assert tab(command, "-c", cached, *rest) == offered


def test_ids_of_operations_are_offered(cached):
    ids = ["20260101T000000Z-5eed01", "20260102T000000Z-5eed02"]
    assert sorted(tab("failover", "show", "-c", cached, "2026")) == ids


def test_the_newest_operations_are_those_that_are_kept_and_offered(cached, monkeypatch):
    ids = [f"2026010{day}T000000Z-5eed0{day}" for day in range(1, 6)]
    monkeypatch.setattr(known_names, "_MOST", 4)
    monkeypatch.setattr(_completion, "_MOST", 3)
    known_names.remember(cached, "west", operations=ids)
    context = SimpleNamespace(params={"config": cached})
    assert known_names.known_names(cached, "west")["operations"] == ids[:0:-1]
    assert _completion.operations(context, "2026") == ids[:1:-1]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_same_names(cached, shell):
    said = " ".join(tab("status", "-c", cached, "-s", "e", shell=shell))
    assert ("east" in said, "west" in said) == (True, False)


def test_the_file_of_the_environment_counts(cached, monkeypatch):
    monkeypatch.setenv("MMTOOL_CONFIG", str(cached))
    assert tab("status", "-s", "") == ["east", "west"]


@pytest.mark.parametrize("content", [b"not json", b'{"aliases": 7}'])
def test_a_damaged_cache_offers_nothing_and_says_nothing(cached, content):
    for path in (cached.parent / "cache").rglob("*.json"):
        path.write_bytes(content)
    assert tab("status", "-c", cached, "-s", "") == []


@pytest.mark.parametrize("file", ["missing.properties", "."], ids=["no file", "a folder"])
def test_a_file_that_cannot_be_read_offers_nothing_and_says_nothing(cached, file):
    assert tab("status", "-c", cached.parent / file, "-s", "") == []


def test_an_option_that_does_not_exist_says_nothing(cached):
    tab("status", "--bogus", "-c", cached, "-s", "")


@given(st.text(min_size=1))
def test_what_is_offered_is_one_word_of_a_shell_as_it_stands(name):
    if _completion._PLAIN.fullmatch(name):
        assert shell_word(name) == name
        assert not name.startswith("-")


def test_a_real_bash_completes_with_the_function_that_is_installed(cached):
    script = (
        f"source {ROOT / 'completions' / 'mmtool'}; "
        f"COMP_WORDS=(mmtool translate-offsets -c {cached} -g ''); COMP_CWORD=5; _mmtool_completion mmtool; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ran = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | at_home(cached.parent),
    )
    assert (ran.stdout.split(), ran.stderr) == (["app", "billing", "reports"], "")


def test_the_lines_of_the_page_install_what_a_bash_completes_with(cached, tmp_path):
    page = (ROOT / "docs" / "how-to" / "complete-with-tab.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"^```sh\n(.+?)^```", page, re.MULTILINE | re.DOTALL)
    typed = subprocess.run(
        ["bash", "--norc", "-ec", lines],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | at_home(tmp_path),
    )
    assert (typed.stdout, typed.stderr) == ("", "")
    for shell, file in (("bash", "mmtool"), ("zsh", "_mmtool"), ("fish", "mmtool.fish")):
        (path,) = re.findall(rf"source_{shell} .*> ~/(\S+)", lines)
        written = (tmp_path / path).read_bytes().removeprefix(b"\n")
        assert written == (ROOT / "completions" / file).read_bytes()


def test_the_cache_is_for_its_owner_alone(cached):
    files = [path for path in (cached.parent / "cache").rglob("*") if path.is_file()]
    assert len(files) == 4  # the properties file's, one for each cluster, and when they were asked
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700


def test_a_cache_that_cannot_be_written_is_no_error(cached, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    known_names.remember(cached, aliases=["east"])
    assert (known_names.is_due(cached, 60), known_names.known_names(cached)) == (False, {})
    assert tab("status", "-c", cached, "-s", "") == []


def test_clusters_are_asked_once_a_minute_and_not_at_each_tab(cached, monkeypatch):
    started = []
    monkeypatch.setattr(_completion, "_renew", started.append)
    context = SimpleNamespace(params={"config": cached})
    assert _completion.aliases(context, "") == ["east", "west"]
    (asked,) = (cached.parent / "cache").rglob("*.asked")
    assert started == []
    os.utime(asked, (time.time() - 61, time.time() - 61))
    assert [_completion.aliases(context, "e"), _completion.aliases(context, "e")] == [["east"], ["east"]]
    assert started == [cached]


def test_a_file_of_another_user_makes_tab_ask_no_cluster(cached, monkeypatch):
    started = []
    monkeypatch.setattr(_completion, "_renew", started.append)
    monkeypatch.setattr(known_names, "is_due", lambda *_: True)
    if os.getuid() == 0:
        os.chown(cached, 4711, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: cached.stat().st_uid + 1)
    assert _completion.aliases(SimpleNamespace(params={"config": cached}), "") == ["east", "west"]
    assert started == []


@pytest.fixture
def scene(tmp_path, monkeypatch, wired):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return wired(half_read(tmp_path))


def test_the_process_in_the_background_asks_both_clusters(scene):
    """And leaves out the groups by which mmtool holds its leases."""
    scene.commits("mmtool.canary", "orders", 1)
    _completion.refresh(scene.config)
    assert known_names.known_names(scene.config) == {"aliases": ["east", "west"], "sources": ["east"]}
    assert known_names.known_names(scene.config, "east") == {"groups": ["app"], "topics": ["orders"]}
    assert known_names.known_names(scene.config, "west")["groups"] == []


def test_only_topics_that_a_flow_from_their_cluster_mirrors_are_kept(scene):
    """A mirror would be a cycle on its way back; ``payments`` is not in the topics of the flow."""
    scene.source.add_topic("payments", "id-payments", 0)
    scene.target.add_topic("replies", "id-replies", 0)
    _completion.refresh(scene.config)
    assert known_names.known_names(scene.config, "east")["topics"] == ["orders"]
    assert known_names.known_names(scene.config, "west")["topics"] == ["replies"]


@pytest.mark.parametrize(
    "named",
    [
        pytest.param("missing.properties", id="no file"),
        pytest.param("mm2.properties", id="clusters away", marks=pytest.mark.long),
    ],
)
def test_the_process_in_the_background_ends_well_and_says_nothing(cached, named):
    ran = subprocess.run(
        [sys.executable, "-m", "mmtool.commands._completion", str(cached.with_name(named))],
        check=False,
        capture_output=True,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def test_operations_that_the_journal_has_are_known_after_that(scene, failover):
    (done,) = failover("planned", "-g", "app", "--execute", "--yes").rows
    _completion.refresh(scene.config)
    assert known_names.known_names(scene.config, "west")["operations"] == [done["operation_id"]]


def test_a_cluster_that_does_not_answer_keeps_its_names_of_before(scene):
    known_names.remember(scene.config, "east", groups=["app", "gone"])
    scene.target.add_topic("replies", "id-replies", 0)
    scene.source.go_away(UnreachableError("east does not answer"))
    _completion.refresh(scene.config)
    assert known_names.known_names(scene.config, "east") == {"groups": ["app", "gone"]}
    assert known_names.known_names(scene.config, "west")["topics"] == ["replies"]


def test_a_command_of_a_person_keeps_the_names_that_it_read(scene, mmtool, monkeypatch):
    mmtool("groups", "audit", "-c", scene.config)
    assert known_names.known_names(scene.config, "east") == {}
    monkeypatch.setattr("mmtool.commands._completion.stderr_is_tty", lambda: True)
    mmtool("groups", "audit", "-c", scene.config)
    assert known_names.known_names(scene.config, "east") == {"groups": ["app"], "topics": ["orders"]}


LOADED = """
import atexit, json, sys
atexit.register(lambda: print("\\n" + json.dumps(sorted(name for name in sys.modules if sys.modules[name]))))
from mmtool.commands.app import main
main(sys.argv[1:])
"""


@pytest.mark.long
def test_a_shell_waits_for_no_heavy_library(cached):
    for words in (["status", "-c", str(cached), "-s", ""], [""]):
        ran = subprocess.run(
            [sys.executable, "-c", LOADED],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | asked_by("bash", ["mmtool", *words]),
        )
        assert HEAVY & set(json.loads(ran.stdout.splitlines()[-1])) == set()
