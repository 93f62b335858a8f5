"""Half replayed, an older mmtool's failback with ``--diverged replay`` gives way to no operation on its topics.

Groups ``app`` and ``late`` were to return from west to east; five records of ``orders`` had never reached west. More of
such failbacks is in ``tests/scenarios/failover/older_replay_*``.
"""

from pathlib import Path

import pytest

from kit.one_name import OneName
from kit.processes import error_of, row_of
from mmtool.failover.operation.records import recorded
from mmtool.plan.records.journal import JournalEntry
from mmtool.plan.records.marks import FailedOverRecord

JOURNAL = Path(__file__).parents[1] / "scenarios" / "failover" / "older_replays" / "half_way.jsonl"
EXECUTE = ("--execute", "--yes")


@pytest.fixture
def scene(tmp_path, wired):
    """``app`` is not on the target yet, which was told of a commit."""
    made = OneName(tmp_path)
    made.target.groups.committed.clear()
    made.told("app", "orders", (8, 8))
    return wired(made)


@pytest.fixture
def emergency(failover):
    return lambda: failover("emergency", "-g", "app", "--accept-data-loss", *EXECUTE)


def begin_older(scene):
    """The journal has the older operation from now on; its id."""
    entries = {JournalEntry.decode(line).key: line for line in JOURNAL.read_bytes().splitlines()}
    scene.journal.stored |= entries
    return JournalEntry.decode(next(iter(entries.values()))).operation_id


def check_refused(answer, scene, older, **others):
    """The older release is named, and what was under way stays."""
    error = error_of(answer)
    assert (answer.code, error["code"]) == (3, "open_operation")
    assert (
        f"with the release of mmtool that started the operation: `mmtool failover resume {older}"
        in error["remedy"]
    )
    states = {one.operation_id: str(one.state) for one in recorded(scene.journal.entries())}
    assert (states, scene.marks.failed_over) == ({older: "running", **others}, {"orders"})


def test_an_emergency_is_refused_as_its_groups_are_on_the_target_already(emergency, scene):
    older = begin_older(scene)
    check_refused(emergency(), scene, older)


def test_topics_stay_failed_over_when_another_operation_is_undone(emergency, failover, scene):
    away = row_of(emergency())["operation_id"]
    scene.state.marked(FailedOverRecord("orders", True, away, "ann@host-1", 0))
    older = begin_older(scene)
    check_refused(failover("rollback", away, *EXECUTE), scene, older, **{away: "completed"})
