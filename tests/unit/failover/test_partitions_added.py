"""Partitions and topics that are added while an operation runs: drained and counted, or the operation ends there."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from kit.operations import heard
from kit.scene import Scene
from kit.there_and_back import AT_HOME, ORDERS, ThereAndBack
from mmtool.failover.modes import failback, planned_mode
from mmtool.failover.operation.operation import StepState
from mmtool.failover.report.operation_row import ended_row
from mmtool.kafka.ports import Bounds
from mmtool.plan.failover.choices import FenceKind
from mmtool.plan.failover.steps import Mode, StepName, order_of
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

    def changed(self, operation, step, state):
        if state is StepState.RUNNING:
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


def grow(scene):
    """100 records on a new partition of the source."""
    scene.source.logs[NEW] = Bounds(0, 100)
    scene.target.logs[TopicPartition("east.orders", 1)] = Bounds(0, 0)


@pytest.fixture
def moved(scene):
    def run(before=None, do=lambda: None, *, drain=None, kind=FenceKind.NONE):
        fence = None if kind is FenceKind.NONE else scene.fence(kind)
        rehearsal = planned_mode.rehearse(scene.look(), APP, fence=fence)
        context = scene.context(rehearsal)
        port = SimpleNamespace(drain=drain) if drain else scene
        context = heard(replace(context, drain=port), Before(before, do))
        return planned_mode.execute(rehearsal, context)

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


def test_a_partition_that_is_added_during_a_slow_drain_is_drained_after_it(scene, moved):
    def slowly(*of):
        scene.drain(*of)
        if NEW not in scene.source.logs:
            grow(scene)

    row = ended_row(moved(drain=slowly))
    assert (row["state"], [NEW in until for until in scene.drained]) == ("completed", [False, True])


def test_a_new_topic_that_the_group_does_not_read_is_neither_drained_nor_waited_for(scene, moved):
    ended = moved(StepName.DRAIN, lambda: scene.has("orders-new", 10))
    assert ended_row(ended)["state"] == "completed"
    assert not any(place.topic == "orders-new" for until in scene.drained for place in until)


@pytest.fixture
def away(tmp_path):
    return ThereAndBack(tmp_path)


@pytest.fixture
def back(away, tmp_path):
    def run(before, do):
        rehearsal = failback.rehearse(away.both, GroupSelection(("app", "late")))
        context = away.context(rehearsal, home=True)
        return failback.execute(rehearsal, heard(context, Before(before, do)), folder=tmp_path)

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
    ended = failback.execute(rehearsal, away.context(rehearsal, home=True), folder=tmp_path)
    assert ended.operation.error is None
    assert away.source.groups.committed["app"] == AT_HOME["app"]
