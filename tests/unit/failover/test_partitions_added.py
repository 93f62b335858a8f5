"""Partitions and topics that are added while an operation runs: drained and counted, or the operation ends there."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from kit.scene import Scene
from kit.there_and_back import AT_HOME, ORDERS, ThereAndBack
from mmtool.failover.modes import drill, failback, planned_mode
from mmtool.failover.operation.journal import Both
from mmtool.failover.report.report import ended_row
from mmtool.kafka.ports import Bounds
from mmtool.plan.failover.choices import FenceKind
from mmtool.plan.failover.steps import ORDER, Mode, StepName, order_of
from mmtool.plan.groups.facts import Commit, GroupSelection
from mmtool.translation.types import TopicPartition

APP = GroupSelection(("app",))
NEW = TopicPartition("orders", 1)
REFUSED = "1 partition (orders-1) was added on {} after the mirror had caught up; no offset was committed"


def until_drained(mode, fence=FenceKind.NONE):
    """The steps before which an added partition is still drained."""
    order = order_of(mode, fence)
    return order[: order.index(StepName.DRAIN_BACK if mode is Mode.FAILBACK else StepName.DRAIN) + 1]


@dataclass
class Before:
    """A `StepLog` that does something before a step, as a hook of the step before it may."""

    step: StepName
    do: object
    names: list = field(default_factory=list)

    def intended(self, operation, step):
        self.names.append(step.name)
        if step.name is self.step:
            self.do()

    def __getattr__(self, name):
        return lambda *_: None


@pytest.fixture
def scene(tmp_path):
    """``app`` has read 50 of 100 records of one partition; all are mirrored."""
    made = Scene(tmp_path)
    made.has("orders", 100)
    made.mirrored("orders", 0, [(0, 0, 100)], 100)
    made.commits("app", "orders", 50)
    made.may_write("alice", "orders")
    return made


def grow(scene, commit=None):
    """100 records on a new partition of the source, of which the group may have read some."""
    scene.source.logs[NEW] = Bounds(0, 100)
    scene.target.logs[TopicPartition("east.orders", 1)] = Bounds(0, 0)
    if commit is not None:
        scene.source.groups.committed["app"][NEW] = Commit(commit)


@pytest.fixture
def moved(scene):
    def run(before=None, do=lambda: None, *, drain=None, is_saved=False, kind=FenceKind.NONE):
        fence = None if kind is FenceKind.NONE else scene.fence(kind)
        rehearsal = planned_mode.rehearse(scene.look(), APP, fence=fence)
        context, journalist = scene.context(rehearsal)
        context = replace(context, attempt=replace(context.attempt, is_saved=is_saved))
        port = SimpleNamespace(drain=drain) if drain else scene
        return planned_mode.execute(rehearsal, port, context, Both(journalist, Before(before, do)))

    return run


def in_new_partition(row):
    return next(p for group in row["groups"] for p in group["partitions"] if p["partition"] == 1)


@pytest.mark.parametrize("step", until_drained(Mode.PLANNED))
def test_a_partition_that_is_added_before_the_drain_ends_is_drained_and_listed(scene, moved, step):
    row = ended_row(moved(step, lambda: grow(scene)))
    assert (row["state"], scene.drained[-1].get(NEW)) == ("completed", 100)
    assert (in_new_partition(row)["reason"], row["rpo_records"], row["diverged_records"]) == (
        "no_commit",
        0,
        0,
    )


@pytest.mark.parametrize("kind", [FenceKind.ACL, FenceKind.WATCH])
@pytest.mark.parametrize("step", until_drained(Mode.PLANNED, FenceKind.ACL))
def test_with_a_fence_it_is_watched_and_drained_as_well(scene, moved, step, kind):
    ended = moved(step, lambda: grow(scene), kind=kind)
    assert (ended_row(ended)["state"], scene.drained[-1].get(NEW)) == ("completed", 100), (
        ended.operation.error
    )


def test_commits_of_the_group_on_a_new_partition_move_with_the_others(scene, moved):
    ended = moved(StepName.CHECK, lambda: grow(scene, commit=30))
    assert scene.target.groups.committed["app"][TopicPartition("east.orders", 1)] == Commit(30)
    assert in_new_partition(ended_row(ended))["exactness"] == "exact"


def test_a_partition_that_is_added_during_a_slow_drain_is_drained_after_it(scene, moved):
    def slowly(*of):
        scene.drain(*of)
        if NEW not in scene.source.logs:
            grow(scene)

    row = ended_row(moved(drain=slowly))
    assert (row["state"], [NEW in until for until in scene.drained]) == ("completed", [False, True])


@pytest.mark.parametrize(
    "step", [name for name in ORDER[Mode.PLANNED] if name not in until_drained(Mode.PLANNED)][:4]
)
def test_a_partition_that_is_added_after_the_drain_ends_the_operation_before_the_write(scene, moved, step):
    ended = moved(step, lambda: grow(scene))
    row, error = ended_row(ended), ended.operation.error
    assert (error.exit_code, error.code, error.message) == (3, "partitions_added", REFUSED.format("east"))
    assert (row["state"], row["point_of_no_return_passed"]) == ("failed", False)
    assert scene.target.groups.committed == {}


def test_a_fence_is_lifted_where_a_partition_that_was_added_ends_the_operation(scene, moved):
    before = set(scene.fences.rules)
    ended = moved(StepName.WRITE, lambda: grow(scene), kind=FenceKind.ACL)
    assert (ended.operation.error.code, scene.fences.rules) == ("partitions_added", before)


@pytest.mark.parametrize("step", [StepName.CHECK, StepName.DRAIN, StepName.WRITE])
def test_a_saved_plan_is_stale_once_a_partition_is_added(scene, moved, step):
    ended = moved(step, lambda: grow(scene), is_saved=True)
    error = ended.operation.error
    assert (error.exit_code, scene.target.groups.committed) == (5, {})
    assert error.message.endswith("is stale: 1 partition (orders-1) was added on east")
    assert not ended.operation.point_of_no_return_passed


def test_records_of_a_partition_that_is_added_after_the_write_are_counted(scene, moved):
    assert ended_row(moved(StepName.REPORT, lambda: grow(scene)))["diverged_records"] == 100


def test_a_producer_that_writes_to_a_partition_added_behind_a_fence_is_found_out(scene, moved):
    ended = moved(StepName.REPORT, lambda: grow(scene), kind=FenceKind.WATCH)
    assert (ended.operation.error.code, "orders-1" in ended.operation.error.message) == (
        "past_the_fence",
        True,
    )


def test_a_topic_that_the_group_began_to_read_since_the_rehearsal_moves_too(scene, moved):
    def begin():
        scene.has("orders-new", 10)
        scene.commits("app", "orders-new", 4)

    ended = moved(StepName.CHECK, begin)
    moved_to = scene.target.groups.committed["app"][TopicPartition("east.orders-new", 0)]
    assert (ended_row(ended)["state"], moved_to) == ("completed", Commit(4))


def test_a_new_topic_that_the_group_does_not_read_is_neither_drained_nor_waited_for(scene, moved):
    ended = moved(StepName.DRAIN, lambda: scene.has("orders-new", 10))
    assert ended_row(ended)["state"] == "completed"
    assert not any(place.topic == "orders-new" for until in scene.drained for place in until)


def test_a_drill_drains_and_counts_it(scene):
    rehearsal = drill.rehearse(scene.look(), APP)
    grow(scene)
    drilled = drill.execute(rehearsal, scene, *scene.context(rehearsal))
    assert (drilled.operation.error, drilled.lag_before, scene.drained[-1][NEW]) == (None, 100, 100)


@pytest.fixture
def away(tmp_path):
    return ThereAndBack(tmp_path)


@pytest.fixture
def back(away, tmp_path):
    def run(before, do):
        rehearsal = failback.rehearse(away.both, GroupSelection(("app", "late")))
        context, journalist = away.context(rehearsal, home=True)
        log = Both(journalist, Before(before, do))
        return failback.execute(rehearsal, away, context, log, folder=tmp_path)

    return run


def grow_away(away):
    away.target.logs[NEW] = Bounds(0, 100)


@pytest.mark.parametrize("step", until_drained(Mode.FAILBACK))
def test_a_failback_brings_home_a_partition_that_is_added_before_its_drain_ends(away, back, step):
    ended = back(step, lambda: grow_away(away))
    assert (ended_row(ended)["state"], away.drained[-1].get(NEW)) == ("completed", 100), ended.operation.error
    assert away.source.groups.committed == AT_HOME


@pytest.mark.parametrize("step", [StepName.TRANSLATE, StepName.VALIDATE, StepName.WRITE])
def test_a_failback_ends_where_one_is_added_after_that(away, back, step):
    ended = back(step, lambda: grow_away(away))
    assert ended.operation.error.message == REFUSED.format("west")
    assert (away.marks.failed_over, away.marks.moved) == ({"orders"}, {"app", "late"})
    assert away.source.groups.committed == {"app": {ORDERS: Commit(8)}}


def test_a_failback_brings_home_the_first_topic_that_is_created_away(tmp_path):
    away = ThereAndBack(tmp_path)
    del away.target.groups.committed["app"][TopicPartition("orders", 0)]
    away.target.forget_topic("orders")
    rehearsal = failback.rehearse(away.both, APP)
    away.target.add_topic("orders", "id-born", 6)
    away.commits("app", "orders", 4, cluster=away.target)
    ended = failback.execute(rehearsal, away, *away.context(rehearsal, home=True), folder=tmp_path)
    assert ended.operation.error is None
    assert away.source.groups.committed["app"] == AT_HOME["app"]
