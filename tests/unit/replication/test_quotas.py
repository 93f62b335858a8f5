"""A flow that brokers hold back says whose quota it is, once, and that it is over."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from kit.maps import position_of
from mmtool.plan.flow.partition_rows import PartitionRow
from mmtool.plan.records.documents import State
from mmtool.replication.control.control_follower import ControlFollower
from mmtool.replication.pump import budget
from mmtool.replication.pump.budget import Quotas
from mmtool.translation.types import TopicPartition


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(budget.time, "monotonic", lambda: now.seconds)
    return now


def test_a_cluster_is_named_while_it_makes_its_client_wait_and_a_while_after(clock):
    held = Quotas()
    held.note("east", 20_000)
    assert held.of == "east"
    clock.seconds += 29.9
    assert held.of == "east"
    clock.seconds += 0.2
    assert held.of == ""


def test_who_waits_for_a_moment_only_is_not_held_back(clock):
    held = Quotas()
    held.note("east", 499)
    assert held.of == ""


def test_both_clusters_may_hold_a_flow_back(clock):
    held = Quotas()
    held.note("west", 900)
    held.note("east", 900)
    assert held.of == "east and west"


def slowed(partition, by):
    position = position_of(TopicPartition("orders", partition), "id-orders", 5, 9, State.RUNNING)
    return ("id-orders", partition), replace(position, reason="", slowed_by=by)


def test_it_is_said_of_the_flow_and_not_of_each_partition():
    watch = ControlFollower(None, "pump-1", {})
    for place, position in (slowed(0, "east"), slowed(1, "east"), slowed(0, ""), slowed(0, "east")):
        watch._note(place, position)
    said = "throttled by a quota of east; raise the quota of mmtool's principal if the lag grows"
    assert watch.news == [said]
    for place, position in (slowed(0, ""), slowed(1, "")):
        watch._note(place, position)
    assert watch.news[1:] == ["no longer throttled by a quota"]


def test_status_says_it_of_each_partition_that_waits_while_its_pump_runs():
    _, position = slowed(0, "east")
    row = PartitionRow.of("east", "west", position, 5)
    assert row.reason == "throttled by a quota of east"
    assert position.notes == ""
