"""``mmtool lab`` where it cannot start, or where a part of it has died; no broker runs here."""

import os

import pytest

from mmtool.java import java_binary
from mmtool.lab.state import BrokerState, LabState, StateDirectory

ANSWERS = {"a": "running", "b": "stopped"}


@pytest.fixture
def half_dead(tmp_path, monkeypatch):
    """A lab of two brokers, of which one has died; options that name it."""
    brokers = tuple(
        BrokerState(name, 0, f"127.0.0.1:{n}", n, n, "id", "log") for n, name in enumerate("ab", 1)
    )
    state = LabState(os.getpid(), "4.3.1", 1, brokers)
    monkeypatch.setattr(StateDirectory, "is_running", lambda _: True)
    monkeypatch.setattr("mmtool.lab.session.answer_of", lambda broker: ANSWERS[broker.cluster])
    StateDirectory(tmp_path).write(state)
    StateDirectory(tmp_path).properties.write_text("clusters = a, b\n")
    return "--state-dir", tmp_path


@pytest.mark.parametrize(("more", "states"), [((), ["running", "stopped"]), (("--print-config",), [])])
def test_up_does_not_pass_a_dead_broker_over(mmtool, half_dead, more, states):
    ended = mmtool("lab", "up", *half_dead, *more)
    here = f" --state-dir {half_dead[1]}"
    assert (ended.code, [line.split()[2] for line in ended.stdout.splitlines()[1:]]) == (3, states)
    assert "the clusters were already running" not in ended.stderr
    assert ended.stderr.endswith(
        "error: broker 0 of cluster b has stopped; the lab does not restart a broker by itself\n"
        "remedy: start all brokers again with their data:"
        f" `mmtool lab down --keep-data{here}`, then `mmtool lab up{here}`\n"
    )


def test_status_looks_and_warns_of_a_dead_broker(mmtool, half_dead):
    ended = mmtool("lab", "status", *half_dead)
    assert (ended.code, "restart a broker by itself; start all brokers again" in ended.stderr) == (
        0,
        True,
    )


@pytest.mark.java
def test_a_directory_that_cannot_be_made_is_a_usage_error(mmtool, tmp_path):
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "lab"
    ended = mmtool("lab", "up", "--state-dir", path)
    assert (ended.code, ended.stderr.splitlines()[-2:]) == (
        2,
        [
            f"error: {path} cannot be written: Not a directory",
            "remedy: name a directory that can be read and written: --state-dir DIR",
        ],
    )


@pytest.mark.parametrize("verb", ["status", "down"])
def test_where_no_directory_can_be_no_lab_runs(mmtool, tmp_path, verb):
    (tmp_path / "file").write_text("")
    ended = mmtool("lab", verb, "--state-dir", tmp_path / "file" / "lab")
    assert (ended.code, "no lab runs in" in ended.stderr) == (0, True)


@pytest.mark.java
def test_a_cache_that_cannot_be_written_is_a_usage_error(mmtool, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    ended = mmtool("lab", "up", "--state-dir", tmp_path / "lab")
    assert (ended.code, ended.stderr.splitlines()[-2:]) == (
        2,
        [
            f"error: the cache folder {tmp_path}/file/mmtool/kafka cannot be written: Not a directory",
            "remedy: set XDG_CACHE_HOME to a folder that can be written",
        ],
    )


def test_without_java_a_lab_is_a_usage_error_as_replication_is(mmtool, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Exception, match="has no executable bin/java"):
        java_binary()
    ended = mmtool("lab", "up", "--state-dir", tmp_path / "lab")
    assert (ended.code, f"JAVA_HOME={tmp_path} has no executable bin/java" in ended.stderr) == (2, True)
