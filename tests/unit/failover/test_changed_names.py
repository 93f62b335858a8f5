"""No operation begins while the file gives mirrored topics other names than the target has."""

import time

import pytest

from kit.maps import position_of
from kit.scene import Scene
from kit.there_and_back import ThereAndBack
from mmtool.errors import RefusedError
from mmtool.failover.modes import emergency, failback
from mmtool.plan.groups.facts import GroupSelection
from mmtool.plan.records.documents import State
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.translation.types import TopicPartition

APP = GroupSelection(("app",))


def on_record(state, topic, topic_id, **changes):
    state.marked(position_of(TopicPartition(topic, 0), topic_id, 60, 60, State.RUNNING, **changes))


def refused(away):
    with pytest.raises(RefusedError) as caught:
        failback.rehearse(away.both, APP)
    assert (caught.value.exit_code, caught.value.code) == (3, "names_changed")
    return caught.value


@pytest.fixture
def away(tmp_path):
    made = ThereAndBack(tmp_path)
    on_record(made.state, "orders", "id-orders")
    return made


def test_a_failback_is_refused_for_the_topics_that_have_failed_over(away):
    assert not failback.rehearse(away.both, APP).plan.guards
    away.configure("east->west.source.cluster.alias = site")
    error = refused(away)
    assert "orders is mirrored to east.orders and would now be called site.orders" in error.message
    assert "set east->west.source.cluster.alias = east" in error.remedy


def test_a_failback_is_refused_for_the_way_back_as_well(away):
    on_record(away.back_state, "orders", "id-born", target_topic="west.orders")
    assert not failback.rehearse(away.both, APP).plan.guards
    away.configure("west->east.source.cluster.alias = site")
    assert "orders is mirrored to west.orders and would now be called site.orders" in refused(away).message


def test_a_way_back_that_is_not_enabled_counts_only_for_what_the_groups_read(away):
    away.target.add_topic("bills", "id-bills", 6)
    on_record(away.back_state, "bills", "id-bills", target_topic="west.bills")
    away.configure("west->east.source.cluster.alias = site")
    assert not failback.rehearse(away.both, APP).plan.guards


def test_what_failed_over_before_the_names_changed_blocks_no_emergency(tmp_path):
    lost = Scene(tmp_path)
    for topic in ("orders", "orders-old"):
        lost.has(topic, 60)
        lost.mirrored(topic, 0, [(0, 0, 60)], 60, source_end=60)
    lost.told("app", "orders", (50, 50), at_ms=int(time.time() * 1000))
    on_record(lost.state, "orders", "id-orders")
    on_record(lost.state, "orders-old", "id-orders-old", target_topic="plant.orders-old")
    lost.state.marked(FailedOverRecord("orders-old", True, "op-1", "ann@host-1", 0))
    rehearsal = emergency.rehearse(lost.side, APP)
    assert not rehearsal.plan.guards
    renamed = "orders-old is mirrored to plant.orders-old and would now be called east.orders-old"
    assert any(told.startswith(renamed) for told in rehearsal.warnings)
