"""No operation begins while the file gives mirrored topics other names than the target has."""

import time
from dataclasses import replace

import pytest

from kit.maps import position_of
from kit.scene import Scene
from kit.there_and_back import ThereAndBack
from mmtool.config import load_settings
from mmtool.errors import RefusedError
from mmtool.failover.modes import drill, emergency, failback, planned_mode
from mmtool.plan.groups.facts import GroupSelection
from mmtool.plan.records.documents import State
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.translation.types import TopicPartition

APP, ALL = GroupSelection(("app",)), GroupSelection(everything=True)
SITE = "east->west.source.cluster.alias = site\n"
SENTENCE = (
    "east->west: topics on west would change their names: orders is mirrored to east.orders and would now be called"
    " site.orders; nothing was copied"
)
KEEP = "keep the names: set east->west.source.cluster.alias = east"


def on_record(state, topic, topic_id, **changes):
    told = position_of(TopicPartition(topic, 0), topic_id, 60, 60, State.RUNNING)
    state.marked(replace(told, **changes))


def failed_over(topic, operation_id="op-1"):
    return FailedOverRecord(topic, True, operation_id, "ann@host-1", 0)


def rename(scene, more=SITE):
    """The operator edits the file."""
    scene.config.write_text(scene.config.read_text() + more)
    scene.settings = load_settings(scene.config, {}).flows[0]


def refused(rehearse, *words, **options):
    with pytest.raises(RefusedError) as caught:
        rehearse(*words, **options)
    error = caught.value
    assert (error.exit_code, error.code) == (3, "names_changed")
    return error


@pytest.fixture
def scene(scene):
    on_record(scene.state, "orders", "id-orders")
    return scene


@pytest.fixture
def away(tmp_path):
    made = ThereAndBack(tmp_path)
    on_record(made.state, "orders", "id-orders")
    return made


@pytest.fixture
def lost(tmp_path):
    made = Scene(tmp_path)
    made.has("orders", 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60, source_end=60)
    made.told("app", "orders", (50, 50), at_ms=int(time.time() * 1000))
    on_record(made.state, "orders", "id-orders")
    return made


def rehearsals(scene):
    yield lambda: planned_mode.rehearse(scene.look(), APP)
    yield lambda: planned_mode.rehearse(scene.look(), APP, operation_id="op-2", fence=scene.fence())
    yield lambda: drill.rehearse(scene.look(), APP)


def test_a_planned_failover_and_a_drill_are_refused_with_both_names(scene):
    for rehearse in rehearsals(scene):
        assert not rehearse().plan.guards
    rename(scene)
    for rehearse in rehearsals(scene):
        error = refused(rehearse)
        assert (error.message, error.remedy) == (SENTENCE, KEEP)


def test_nothing_is_fenced_or_written_then(scene):
    rename(scene)
    for rehearse in rehearsals(scene):
        refused(rehearse)
    assert (scene.fences.rules, scene.journal.stored, scene.marks.failed_over) == (set(), {}, set())


def test_where_nothing_is_to_be_drained_it_is_refused_as_well(scene):
    scene.source.add_topic("orders", "id-orders", 60, 100)
    rename(scene)
    refused(planned_mode.rehearse, scene.look(), APP)


def test_a_topic_that_has_failed_over_counts_only_for_groups_that_read_it(scene):
    scene.has("orders-new", 10)
    scene.commits("other", "orders-new", 5)
    scene.state.marked(failed_over("orders"))
    rename(scene)
    assert not planned_mode.rehearse(scene.look(), GroupSelection(("other",))).plan.guards
    assert refused(planned_mode.rehearse, scene.look(), APP).message == SENTENCE


def test_a_failback_is_refused_for_the_topics_that_have_failed_over(away):
    assert not failback.rehearse(away.both, APP).plan.guards
    rename(away)
    error = refused(failback.rehearse, away.both, APP)
    assert (error.message, error.remedy) == (SENTENCE, KEEP)


def test_a_failback_is_refused_for_the_way_back_as_well(away):
    on_record(away.back_state, "orders", "id-born", target_topic="west.orders")
    assert not failback.rehearse(away.both, APP).plan.guards
    rename(away, "west->east.source.cluster.alias = site\n")
    away.back_settings = load_settings(away.config, {}).one("west", "east")
    error = refused(failback.rehearse, away.both, APP)
    assert "orders is mirrored to west.orders and would now be called site.orders" in error.message


def test_a_way_back_that_is_not_enabled_counts_only_for_what_the_groups_read(away):
    away.target.add_topic("bills", "id-bills", 6)
    on_record(away.back_state, "bills", "id-bills", target_topic="west.bills")
    rename(away, "west->east.source.cluster.alias = site\n")
    away.back_settings = load_settings(away.config, {}).one("west", "east")
    assert not failback.rehearse(away.both, APP).plan.guards


@pytest.mark.parametrize("selection", [APP, ALL], ids=["named", "all"])
def test_an_emergency_finds_no_group_under_other_names_and_says_why(lost, selection):
    assert not emergency.rehearse(lost.side, selection).plan.guards
    rename(lost)
    lost.mm2.held.clear()  # the checkpoints are in a topic of the former name
    error = refused(emergency.rehearse, lost.side, selection)
    assert (error.message, error.remedy) == (SENTENCE, KEEP)


def test_an_emergency_that_is_resumed_behind_its_own_marks_is_refused_as_well(lost):
    lost.state.marked(failed_over("orders", "op-9"))
    rename(lost)
    refused(emergency.rehearse, lost.side, APP, operation_id="op-9")


def test_what_failed_over_before_the_names_changed_blocks_no_emergency(lost):
    lost.has("orders-old", 10)
    on_record(lost.state, "orders", "id-orders")
    on_record(lost.state, "orders-old", "id-orders-old", target_topic="plant.orders-old")
    lost.state.marked(failed_over("orders-old"))
    rehearsal = emergency.rehearse(lost.side, APP)
    assert not rehearsal.plan.guards
    assert (
        "orders-old is mirrored to plant.orders-old and would now be called east.orders-old: an emergency failover"
        " finds no commits of orders-old by that name; if a group that you move reads orders-old, first undo the"
        " change of names in the properties file" in rehearsal.warnings
    )
