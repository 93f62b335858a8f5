"""A task that takes its shards again in the middle of a round goes on with what was counted before."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mmtool.kafka.state_log import ControlView
from mmtool.plan.documents import OwnerRecord
from mmtool.replication import task
from mmtool.replication.assignment import FlowAssignment, Tally, TaskAssignment
from mmtool.replication.establish import Standing
from mmtool.replication.pump.errors import InDoubtError
from mmtool.replication.pump.report import tally_of
from mmtool.replication.task import Flows
from mmtool.replication.watching import booked_position
from mmtool.testing.mirror import SHARD, assigned, mirror_of

OWNER = "owner-1"


class Target:
    """The control topic, and whatever a task needs to take its shards again."""

    def __init__(self, monkeypatch):
        self.control = ControlView(owner=OwnerRecord(OWNER, "host", 1, 0))
        monkeypatch.setattr(task, "read_control", lambda *_: self.control)
        monkeypatch.setattr(task, "connect", self.connected)
        monkeypatch.setattr(task, "establish", self.established)

    def write(self, partition):
        """What a pump's position says of it."""
        position = booked_position(partition, OWNER)
        self.control.apply(position.key, position.encode(), 0)

    async def connected(self, _settings):
        return self

    async def close(self):
        pass

    async def established(self, *_):
        return Standing({SHARD.shard: SHARD})


class Pump:
    """Counts on from what it was given, until it cannot tell what the target holds."""

    def __init__(self, flow, target, counted):
        self.partition, self.target, self.counted = flow.partitions[0], target, counted

    async def run(self, _end):
        if self.counted is None:
            return [tally_of(mirror_of(self.partition))]
        self.target.write(replace(self.partition, tally=self.counted))
        raise InDoubtError("west did not answer")


@pytest.mark.parametrize("earlier", [Tally(), Tally(4, 40, gaps=2, gaps_end=6)])
def test_what_was_passed_over_before_shards_were_taken_again_stays_counted(earlier, monkeypatch):
    target, counted = Target(monkeypatch), [Tally(9, 90, 1, gaps=5, gaps_end=12), None]
    flow = FlowAssignment(
        identity=SimpleNamespace(flow="a->b"),
        settings=SimpleNamespace(target=None),
        shard_count=1,
        owner=OWNER,
        round=1,
        control_offset=0,
        runs_topic_id="runs",
        control_topic_id="control",
        shards=(SHARD,),
        partitions=(assigned(tally=earlier),),
    )
    monkeypatch.setattr(Flows, "_pump", lambda _, flow: Pump(flow, target, counted.pop(0)))
    rows = asyncio.run(Flows(TaskAssignment(0, 60.0, 1 << 20, (flow,))).run(in_doubt=False))
    assert rows == [Tally(9, 90, 1, gaps=5, gaps_end=12)]
