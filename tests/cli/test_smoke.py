"""``mmtool smoke`` as a CI job sees it, on clusters in memory."""

import json
import signal
from xml.etree import ElementTree as ET

import pytest

from kit.smoke import SmokeScene
from mmtool.errors import ConfigError, StoppedError


@pytest.fixture
def scene(tmp_path, monkeypatch):
    made = SmokeScene(tmp_path)
    made.carries_canary()
    monkeypatch.setattr(
        "mmtool.commands._connections.smoke_flow",
        lambda flow, timeout, command: made.smoke_flow(timeout.total_seconds(), command),
    )
    return made


@pytest.fixture
def smoke(mmtool, scene):
    return lambda *arguments: mmtool("smoke", "-c", scene.config, *arguments)


def suite_of(path):
    return ET.fromstring(path.read_text()).find("testsuite")  # noqa: S314  our own


def test_rows_have_the_contracts_keys_and_a_flow_that_works_ends_with_0(smoke):
    ended = smoke("-o", "json")
    document = json.loads(ended.stdout)
    assert (ended.code, document["errors"]) == (0, [])
    assert {tuple(row) for row in document["data"]} == {("step", "result", "seconds", "message")}
    assert {row["result"] for row in document["data"]} == {"passed"}


@pytest.mark.parametrize(
    ("options", "lines"),
    [(["--read-only"], ""), ([], "emit.heartbeats.enabled = false\n")],
    ids=["option", "file"],
)
def test_with_a_read_only_source_no_canary_is_written(smoke, scene, options, lines):
    scene.config.write_text(scene.config.read_text() + lines)
    ended = smoke("-o", "csv", *options)
    assert ended.code == 4  # there is no record to follow
    assert "newest,failed" in ended.stdout
    assert scene.canary.here == []


def test_the_junit_report_is_written_when_a_step_fails_and_those_behind_it_are_skipped(
    smoke, scene, tmp_path
):
    scene.watch.present, path = (), tmp_path / "smoke.xml"
    assert smoke("--junit", path).code == 4
    suite = suite_of(path)
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "6")
    (failure,) = suite.iter("failure")
    assert failure.get("message").startswith("neither `mmtool replicate` nor MirrorMaker 2 runs east->west")
    assert [case.find("skipped").get("message") for case in suite if case.find("skipped") is not None] == [
        "not tried, because step owner failed"
    ] * 6


@pytest.mark.parametrize("name", ["no-folder/smoke.xml", "."], ids=["no folder", "a folder"])
def test_a_report_that_cannot_be_written_is_refused_before_anything_is_sent(smoke, scene, tmp_path, name):
    ended = smoke("--junit", tmp_path / name)
    assert (ended.code, len(ended.said), scene.canary.here) == (2, 2, [])
    assert ended.said[0].startswith("error: --junit ")


@pytest.mark.parametrize(
    "raised", [StoppedError(signal.SIGTERM), ConfigError("no such keystore")], ids=["signal", "error"]
)
def test_a_test_that_ends_before_its_report_leaves_no_empty_file_to_a_ci_job(
    smoke, tmp_path, monkeypatch, raised
):
    def ends(*_, **__):
        raise raised

    monkeypatch.setattr("mmtool.insight.smoke.smoke", ends)
    path = tmp_path / "smoke.xml"
    assert smoke("--junit", path).code == raised.exit_code
    assert not path.exists()


def test_a_report_that_cannot_be_written_any_more_ends_a_test_that_has_passed_with_7(smoke, scene, tmp_path):
    path = tmp_path / "smoke.xml"

    def mirrors(records):
        path.unlink()
        path.mkdir()
        return records

    scene.canary.mirrors = mirrors
    ended = smoke("--junit", path)
    assert ended.code == 7
    assert "the smoke test itself is not affected" in ended.stderr
