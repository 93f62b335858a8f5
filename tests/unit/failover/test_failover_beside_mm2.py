"""A planned move over a flow that MirrorMaker 2 runs: what has arrived is told by its syncs and by the records."""

import pytest

from kit.scene import Scene
from kit.tail_files import exported_records
from kit.there_and_back import HOME, ThereAndBack
from mmtool.failover.modes import failback
from mmtool.failover.modes.planned_mode import execute, rehearse
from mmtool.failover.report.operation_row import ended_row
from mmtool.insight.flow_progress import short_of
from mmtool.plan.groups.facts import Commit, GroupSelection
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.translation.types import TopicPartition

APP = GroupSelection(("app",))
ORDERS, REMOTE = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
END = 300


def copied(scene, until):
    """MM2 has copied ``orders`` up to an offset, and told of every hundredth record."""
    scene.has("orders", END)
    scene.holds(scene.source, "orders", [(n, str(n)) for n in range(END)])
    scene.mirrored_by_mm2("orders", 0, until, *((n, n) for n in range(0, until, 100)))
    scene.holds(scene.target, "east.orders", [(n, str(n)) for n in range(until)])


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path)
    made.commits("app", "orders", 150)
    return made


@pytest.fixture
def ran(scene):
    def run():
        rehearsal = rehearse(scene.look(), APP)
        return execute(rehearsal, scene.context(rehearsal))

    return run


def test_what_is_missing_is_told_by_the_records_behind_the_last_sync(scene):
    copied(scene, 260)
    assert short_of(scene.look(), {ORDERS: END}) == 40
    assert short_of(scene.look(), {ORDERS: 260}) == 0


def test_records_of_somebody_else_behind_the_last_sync_are_not_taken_for_arrived(scene):
    copied(scene, 260)
    strange = [(n, str(n) if n < 240 else f"not {n}") for n in range(260)]
    scene.holds(scene.target, "east.orders", strange)
    assert short_of(scene.look(), {ORDERS: 260}) >= 20


def test_a_partition_that_mm2_has_not_begun_is_missing_as_a_whole(scene):
    copied(scene, END)
    scene.has("orders-eu", 7)
    assert short_of(scene.look(), {ORDERS: END, TopicPartition("orders-eu", 0): 7}) == 7


def test_partitions_with_offset_runs_are_drained_by_whoever_writes_them(scene, ran):
    """MM2 has copied ``orders``, and mmtool ``orders-eu``."""
    copied(scene, END)
    scene.has("orders-eu", 7)
    scene.mirrored("orders-eu", 0, [(0, 0, 5)], 5)
    scene.commits("app", "orders-eu", 6)
    assert ended_row(ran())["state"] == "completed"
    assert scene.drained == [{TopicPartition("orders-eu", 0): 7}]


def test_commits_below_the_cut_of_a_take_over_are_placed_by_what_mm2_left(scene, ran):
    copied(scene, END)
    scene.mirrored("orders", 0, [(200, 200, 100)], END, start=(200, 200))
    assert ended_row(ran())["reread_records"] == 0
    assert scene.target.groups.committed["app"] == {REMOTE: Commit(150)}


@pytest.fixture
def back(tmp_path):
    """MM2 had copied ten of fifteen records of ``orders`` when east was lost, and told of the sixth."""
    made = ThereAndBack(tmp_path)
    made.state.stored.clear()
    made.mirrored_by_mm2("orders", 0, 10, (0, 0), (5, 5))
    made.holds(made.source, "orders", [(n, str(n)) for n in range(15)])
    made.holds(made.target, "east.orders", [(n, str(n)) for n in range(10)])
    return made


def home(scene, tmp_path):
    rehearsal = failback.rehearse(scene.both, GroupSelection(("app", "late")))
    return rehearsal, failback.execute(rehearsal, scene.context(rehearsal, home=True), folder=tmp_path)


def test_groups_go_home_over_a_flow_that_mm2_ran(back, tmp_path):
    """Who has read all that was away goes behind what diverged; who has not reads on before it, one record again."""
    _, ended = home(back, tmp_path)
    row = ended_row(ended)
    assert back.source.groups.committed == {
        "app": {ORDERS: Commit(15), HOME: Commit(4)},
        "late": {ORDERS: Commit(6)},
    }
    assert (row["state"], row["rpo_records"], row["reread_records"]) == ("completed", 0, 1)


def test_what_mm2_did_not_tell_of_is_exported_whether_it_was_copied_or_not(back, tmp_path):
    rehearsal, ended = home(back, tmp_path)
    file = tmp_path / f"mmtool-diverged-{rehearsal.plan.operation_id}.jsonl"
    assert [found.record.offset for found in exported_records(file)] == list(range(6, 15))
    assert any(
        warning.startswith("up to 9 records of east never reached west") for warning in rehearsal.warnings
    )
    assert ended_row(ended)["diverged_records"] == 9


def test_after_a_planned_move_beside_mm2_there_is_nothing_that_diverged(back, tmp_path):
    back.state.marked(FailedOverRecord("orders", False, "op-away", "ann@host-1", 0))
    back.copying = [
        lambda: (
            back.mirrored_by_mm2("orders", 0, 15, (0, 0), (14, 14)),
            back.holds(back.target, "east.orders", [(n, str(n)) for n in range(15)]),
        )
    ]
    back.commits("app", "east.orders", 15, cluster=back.target)
    rehearsal, ended = home(back, tmp_path)
    (first,) = [said for said in rehearsal.warnings if "on west yet" in said]
    assert first.endswith("(orders-0): the failback mirrors them first")
    assert not any("west yet" in said or "never reached" in said for said in ended.rehearsal.warnings)
    assert back.source.groups.committed["app"][ORDERS] == Commit(15)
    assert (ended_row(ended)["diverged_records"], list(tmp_path.glob("*.jsonl"))) == (0, [])
