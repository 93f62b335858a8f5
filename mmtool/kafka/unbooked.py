"""How many records a flow has appended since its books were stored, as the partition's leader remembers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.request import UnsupportedByBrokerError
from mmtool.kafka.wire.transactions import DescribeProducersRequest
from mmtool.translation.known import UNKNOWN, Unknown
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.translation.blocks import Block
    from mmtool.translation.partition_map import PartitionMap


async def count_unbooked(target: WireCluster, known: Block | PartitionMap) -> int | Unknown:
    """How many records a partition's leader has taken from a flow's writer since its books were stored.

    Asked before the fence, whose marker makes the leader forget (DescribeProducers, KIP-664). UNKNOWN where the
    leader has forgotten the producer, or does not know the request.
    """
    writer, about = known.tail.writer, known.about
    if writer is UNKNOWN:
        return UNKNOWN
    try:
        request = DescribeProducersRequest([TopicPartition(about.target_topic, about.partition)])
        answers = await target.send_to_leader(about.target_topic, about.partition, request, purpose="scan")
    except (ConnectionLostError, UnsupportedByBrokerError):
        return UNKNOWN
    states = [
        s for answer in answers.values() for s in answer.producers if s.producer_id == writer.producer_id
    ]
    if not states or states[0].epoch > writer.epoch:
        return UNKNOWN
    if states[0].epoch < writer.epoch:
        return 0
    return (states[0].last_sequence + 1 - writer.next_sequence) % (1 << 31)
