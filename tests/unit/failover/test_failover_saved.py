"""Saved plans on clusters in memory: what makes them stale, and what never does."""

import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.scene import Scene
from mmtool.errors import StalePlanError
from mmtool.failover.modes import emergency, planned_mode
from mmtool.failover.report.plan_file import check_fresh, saved_of
from mmtool.plan.groups.facts import Commit, GroupSelection, Member
from mmtool.plan.runbook.plan_file import read_plan, write_plan
from mmtool.translation.types import ClusterId, TopicId, TopicPartition

APP = GroupSelection(("app",))


def scene_in(directory):
    made = Scene(Path(directory))
    made.has("orders", 100, 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60, source_end=100)
    made.mirrored("orders", 1, [(0, 0, 100)], 100, source_end=100)
    made.commits("app", "orders", 50, 100)
    made.told("app", "orders", (50, 50), (100, 100), at_ms=int(time.time() * 1000))
    return made


@pytest.fixture
def scene(tmp_path):
    return scene_in(tmp_path)


MODES = {
    "planned": lambda scene, **more: planned_mode.rehearse(scene.look(), APP, **more),
    "emergency": lambda scene, **more: emergency.rehearse(scene.side, APP, **more),
}
BOTH = pytest.mark.parametrize("mode", MODES)


def saved_by(scene, mode):
    return saved_of(MODES[mode](scene), {})


def check(scene, mode, saved):
    check_fresh(saved, MODES[mode](scene, operation_id=saved.plan.operation_id))


@BOTH
def test_a_plan_is_executed_as_it_was_saved_because_the_same_facts_give_the_same_plan(scene, mode):
    saved = saved_by(scene, mode)
    again = MODES[mode](scene, operation_id=saved.plan.operation_id)
    assert [group.verdicts for group in again.plan.groups] == [group.verdicts for group in saved.plan.groups]
    assert again.plan.steps == saved.plan.steps
    check_fresh(read_plan(write_plan(saved)), again)


@BOTH
@given(more=st.integers(0, 200), mirrored=st.integers(60, 100), lost=st.integers(0, 50))
@settings(max_examples=30)
def test_lag_and_log_ends_never_make_a_plan_stale(mode, more, mirrored, lost):
    with TemporaryDirectory() as directory:
        scene = scene_in(directory)
        saved = saved_by(scene, mode)
        scene.source.add_topic("orders", "id-orders", 100 + more, 100)
        scene.mirrored("orders", 0, [(0, 0, mirrored)], mirrored, source_end=100 + more)
        scene.target.logs[TopicPartition("east.orders", 0)] = replace(
            scene.target.logs[TopicPartition("east.orders", 0)], log_start=lost
        )
        check(scene, mode, saved)


def committed_more(scene):
    scene.commits("app", "orders", 51, 100)
    scene.told("app", "orders", (51, 51), (100, 100))


CHANGES = {
    "another cluster": lambda scene: setattr(scene.target, "cluster_id", ClusterId("other")),
    "recreated there": lambda scene: scene.target.ids.update({"east.orders": TopicId("new")}),
    "grown": lambda scene: scene.target.add_topic("east.orders", "id-remote-orders", 60, 100, 0),
    "committed": committed_more,
    "committed there": lambda scene: scene.commits("app", "east.orders", 10, cluster=scene.target),
    "joined there": lambda scene: scene.target.groups.members.update({"app": (Member("app-1", "/h"),)}),
}


@BOTH
@pytest.mark.parametrize("change", CHANGES)
def test_each_fact_that_a_plan_rests_on_makes_it_stale(scene, mode, change):
    saved = saved_by(scene, mode)
    CHANGES[change](scene)
    with pytest.raises(StalePlanError) as refused:
        check(scene, mode, saved)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    "change",
    [
        lambda scene: scene.source.ids.update({"orders": TopicId("new")}),
        lambda scene: scene.source.add_topic("orders", "id-orders", 100, 100, 0),
        lambda scene: scene.source.groups.members.update({"app": (Member("app-1", "/h"),)}),
    ],
)
def test_of_a_planned_move_the_source_counts_as_well(scene, change):
    saved = saved_by(scene, "planned")
    change(scene)
    with pytest.raises(StalePlanError):
        check(scene, "planned", saved)


def test_in_an_emergency_the_source_is_not_asked(scene):
    saved = saved_by(scene, "emergency")
    scene.source.groups.committed["app"] = {TopicPartition("orders", 0): Commit(99)}
    check(scene, "emergency", saved)


def test_the_first_difference_is_told_in_full_and_the_others_are_counted(scene):
    saved = saved_by(scene, "planned")
    scene.commits("app", "orders", 51, 99)
    with pytest.raises(
        StalePlanError,
        match=r"orders-0 on east: the committed offset was 50 and is now 51; 1 more difference$",
    ):
        check(scene, "planned", saved)


def test_a_counterpart_that_mirroring_creates_meanwhile_keeps_the_plan_fresh(scene):
    scene.state.stored.clear()
    scene.target.ids.clear()
    scene.target.logs.clear()
    saved = saved_by(scene, "planned")
    scene.target.add_topic("east.orders", "id-remote-orders", 0, 0)
    check(scene, "planned", saved)
