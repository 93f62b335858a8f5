"""How many records a flow has appended since its books were stored, as the partition's leader remembers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.active_producers import active_producers
from mmtool.kafka.batches import SEQUENCES
from mmtool.translation.known import UNKNOWN, Unknown
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.translation.blocks import Block
    from mmtool.translation.partition_map import PartitionMap


async def count_unbooked(target: WireCluster, known: Block | PartitionMap) -> int | Unknown:
    """How many records a partition's leader has taken from a flow's writer since its books were stored.

    Asked before the fence, whose marker makes the leader forget. UNKNOWN where the leader has forgotten the producer,
    or does not tell.
    """
    writer, about = known.tail.writer, known.about
    if writer is UNKNOWN:
        return UNKNOWN
    place = TopicPartition(about.target_topic, about.partition)
    producers = await active_producers(target, place, purpose="scan")
    if producers is UNKNOWN:
        return UNKNOWN
    states = [state for state in producers if state.producer_id == writer.producer_id]
    if not states or states[0].epoch > writer.epoch:
        return UNKNOWN
    if states[0].epoch < writer.epoch:
        return 0
    return (states[0].last_sequence + 1 - writer.next_sequence) % SEQUENCES
