"""A fence leaves no partition out in which the last owner could write on."""

import asyncio

from kit.mirror import TARGET_ID
from mmtool.kafka.state.claims import Claim, fence
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import PartitionLeader, TopicMetadata
from mmtool.kafka.wire.transactions import AddPartitionsToTxnRequest, EndTxnRequest, ProducerIdentity
from mmtool.translation.types import TopicPartition

OLD, YOUNG = TopicPartition("orders", 0), TopicPartition("bills", 0)


class Target:
    """A coordinator that hears of the topic ``bills`` only with so many questions; the other brokers may know it."""

    alias = "east"

    def __init__(self, *, heard_after, is_there):
        self.left, self.is_there = heard_after, is_there
        self.opened, self.fenced = set(), set()

    async def coordinator(self, _):
        return 1

    async def refresh(self, topics):
        code = Code.NONE if self.is_there else Code.UNKNOWN_TOPIC_OR_PARTITION
        led = [PartitionLeader(0, Code.NONE, 1, 0)] if self.is_there else []
        return {name: TopicMetadata(name, TARGET_ID, code, led) for name in topics}

    def check_denied(self, code, what):
        pass

    async def send(self, _, request, *, purpose):
        if isinstance(request, AddPartitionsToTxnRequest):
            return self._add(request.partitions)
        if isinstance(request, EndTxnRequest):
            self.fenced = self.opened
            return Code.NONE
        return ProducerIdentity(Code.NONE, 7, 2)

    def _add(self, partitions):
        self.left -= 1
        if YOUNG in partitions and self.left >= 0:
            told = {YOUNG: Code.UNKNOWN_TOPIC_OR_PARTITION}
            return dict.fromkeys(partitions, Code.OPERATION_NOT_ATTEMPTED) | told
        self.opened = set(partitions)
        return dict.fromkeys(partitions, Code.NONE)


def fenced(target):
    assert asyncio.run(fence(target, "mmtool.a.0", Claim(7, 1), [OLD, YOUNG])) == Claim(7, 2)
    return target.fenced


def test_a_partition_of_which_the_coordinator_has_not_heard_yet_is_fenced_all_the_same():
    """It was made a moment ago, and what its last owner has sent there may still arrive."""
    assert fenced(Target(heard_after=2, is_there=True)) == {OLD, YOUNG}


def test_a_partition_that_nobody_knows_any_more_is_left_out():
    assert fenced(Target(heard_after=99, is_there=False)) == {OLD}
