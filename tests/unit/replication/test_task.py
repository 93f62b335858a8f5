"""A task that takes its shards again in the middle of a round goes on with what was counted before."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kit.mirror import SHARD, assigned, mirror_of
from mmtool.errors import UnreachableError
from mmtool.kafka.state.control_view import ControlView
from mmtool.plan.flow.slots import SlotsRecord
from mmtool.plan.records.documents import OwnerRecord
from mmtool.plan.topics.facts import HaltReason
from mmtool.replication.control.control_follower import booked_position
from mmtool.replication.driver.context import OwnedState
from mmtool.replication.pump.batch_prep import InDoubtError
from mmtool.replication.pump.state_writer import tally_of
from mmtool.replication.spark import task
from mmtool.replication.spark.assignment import FENCED, FlowAssignment, Tally, TaskAssignment
from mmtool.replication.spark.task import Flows

OWNER = "owner-1"


class Target:
    """The control topic, and whatever a task needs to take its shards again."""

    def __init__(self, monkeypatch):
        self.standing = OwnedState({SHARD.shard: SHARD})
        self.control = ControlView(owner=OwnerRecord(OWNER, "host", 1, 0))
        monkeypatch.setattr(task, "read_control", lambda *_: self.control)
        monkeypatch.setattr(task, "connect", self.connected)
        monkeypatch.setattr(task, "claim_and_recover", self.established)

    def write(self, partition):
        """What a pump's position says of it."""
        position = booked_position(partition, OWNER)
        self.control.apply(position.key, position.encode(), 0)

    async def connected(self, _settings):
        return self

    async def close(self):
        pass

    async def established(self, *_):
        return self.standing


class Pump:
    """Counts on from what it was given, until it cannot tell what the target holds."""

    def __init__(self, flow, target, counted):
        self.partition, self.target, self.counted = flow.partitions[0], target, counted

    async def run(self, _end):
        if self.counted is None:
            return [tally_of(mirror_of(self.partition))]
        self.target.write(replace(self.partition, tally=self.counted))
        raise InDoubtError("west did not answer")


def flow_of(**partition):
    """One flow with one partition, to be mirrored by one task."""
    return FlowAssignment(
        identity=SimpleNamespace(flow="a->b"),
        settings=SimpleNamespace(target=None),
        shard_count=1,
        owner=OWNER,
        round=1,
        control_offset=0,
        runs_topic_id="runs",
        control_topic_id="control",
        shards=(SHARD,),
        partitions=(assigned(**partition),),
    )


def test_what_has_to_wait_for_its_source_is_left_to_the_driver(monkeypatch):
    """A task that put it off would tell that it is halted, and nobody would take it up again."""
    target = Target(monkeypatch)
    target.standing.put_off(("orders", 0), HaltReason("orders-0 of a has no leader"))
    flows = Flows(TaskAssignment(0, 60.0, 1 << 20, (flow_of(),)))
    with pytest.raises(UnreachableError, match=HaltReason("orders-0 of a has no leader")):
        asyncio.run(flows.run(in_doubt=True))


@pytest.mark.parametrize("earlier", [Tally(), Tally(4, 40, gaps=2, gaps_end=6)])
def test_what_was_passed_over_before_shards_were_taken_again_stays_counted(earlier, monkeypatch):
    target, counted = Target(monkeypatch), [Tally(9, 90, 1, gaps=5, gaps_end=12), None]
    flow = flow_of(tally=earlier)
    monkeypatch.setattr(Flows, "_pump", lambda _, flow: Pump(flow, target, counted.pop(0)))
    rows = asyncio.run(Flows(TaskAssignment(0, 60.0, 1 << 20, (flow,))).run(in_doubt=False))
    assert rows == [Tally(9, 90, 1, gaps=5, gaps_end=12)]


@pytest.mark.parametrize(("latest", "claims"), [(1, True), (2, False)])
def test_a_worker_that_comes_back_after_its_round_claims_nothing_of_the_rounds_that_followed(
    latest, claims, monkeypatch
):
    """It would fence the tasks that copy its partitions by now."""
    target, claimed = Target(monkeypatch), []
    word = SlotsRecord(OWNER, wanted=2, held=1, round=latest)
    target.control.apply(word.key, word.encode(), 0)

    async def established(*_):
        claimed.append(latest)
        return target.standing

    monkeypatch.setattr(task, "claim_and_recover", established)
    monkeypatch.setattr(Flows, "_pump", lambda _, flow: Pump(flow, target, None))
    rows = asyncio.run(Flows(TaskAssignment(0, 60.0, 1 << 20, (flow_of(),))).run(in_doubt=True))
    assert (bool(claimed), any(getattr(row, "told", "") == FENCED for row in rows)) == (claims, not claims)
