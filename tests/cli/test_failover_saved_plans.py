"""``--out`` and ``--plan`` as a script sees them, on clusters in memory."""

import io
import time
from pathlib import Path

import pytest

from kit.processes import error_of, row_of
from kit.scene import Scene
from kit.there_and_back import AT_HOME, ThereAndBack
from mmtool.plan.groups.facts import Commit
from mmtool.plan.records.journal import JournalEntry
from mmtool.plan.runbook.plan_file import read_plan, write_plan
from mmtool.translation.types import TopicPartition

REMOTE = TopicPartition("east.orders", 0)
OLDER = Path(__file__).parent / "saved_plans"
"""Plans that an older mmtool saved of the clusters of these tests; ``full`` has something in each of its parts."""


@pytest.fixture
def scene(tmp_path, wired):
    """One partition of 100 records, mirrored to 60; app has read 50."""
    made = Scene(tmp_path)
    made.has("orders", 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60, source_end=60)
    made.commits("app", "orders", 50)
    made.told("app", "orders", (50, 50), at_ms=int(time.time() * 1000))
    return wired(made)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "plan.json"


@pytest.fixture(params=["planned", "emergency"])
def saved(request, failover, path):
    """A plan is in the file; which command it is for, and what it was shown as."""
    ended = failover(request.param, "-g", "app", "--out", path)
    assert ended.code == 0
    return request.param, row_of(ended)


EXECUTE = ("--execute", "--yes")


def test_a_damaged_file_is_two(failover, saved, path):
    path.write_bytes(path.read_bytes().replace(b"50", b"51", 1))
    ended = failover(saved[0], "--plan", path, *EXECUTE)
    assert (ended.code, error_of(ended)["code"]) == (2, "unreadable_plan")


def test_a_saved_plan_asks_once_as_well(failover, saved, path, scene, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ended = failover(saved[0], "--plan", path, "--execute")
    assert (ended.code, scene.target.groups.committed) == (3, {})


def test_of_two_that_execute_one_plan_at_once_the_second_writes_nothing(failover, saved, path, scene):
    mode, before = saved

    def hold():
        if not scene.journal.stored:  # the other one, while we waited for the lock
            entry = JournalEntry(before["operation_id"], 1, "began", 1, "bob@host-2", "running", False, BEGUN)
            scene.journal.append([entry])

    scene.lock.hold = hold
    ended = failover(mode, "--plan", path, *EXECUTE)
    assert (ended.code, len(scene.journal.stored), scene.target.groups.committed) == (10, 1, {})


BEGUN = {
    "mode": "planned",
    "source": "east",
    "target": "west",
    "source_id": "east-id",
    "target_id": "west-id",
    "groups": ["app"],
    "steps": [],
    "reason": "",
}


@pytest.mark.parametrize("name", ["planned", "emergency", "failback", "full"])
def test_a_plan_of_an_older_mmtool_is_read_and_written_byte_for_byte(name):
    content = (OLDER / f"{name}.json").read_bytes()
    assert write_plan(read_plan(content)) == content


@pytest.mark.parametrize("mode", ["planned", "emergency"])
def test_a_plan_of_an_older_mmtool_is_executed(failover, scene, mode):
    ended = failover(mode, "--plan", OLDER / f"{mode}.json", *EXECUTE)
    assert (ended.code, scene.target.groups.committed["app"]) == (0, {REMOTE: Commit(50)})


def test_a_failback_that_an_older_mmtool_planned_is_executed(mmtool, wired, tmp_path):
    home = wired(ThereAndBack(tmp_path))
    plan = OLDER / "failback.json"
    ended = mmtool(
        "failover", "failback", "-c", home.config, "--plan", plan, "--diverged-dir", tmp_path, *EXECUTE
    )
    assert (ended.code, home.source.groups.committed) == (0, AT_HOME)
