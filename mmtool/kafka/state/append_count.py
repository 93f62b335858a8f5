"""Count the records that a flow appended after its stored state, as the partition's leader reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.admin.active_producers import active_producers
from mmtool.kafka.batches import SEQUENCES
from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.transactions import ProducerState
    from mmtool.translation.blocks import Block, WriterState
    from mmtool.translation.partition_map import PartitionMap


async def count_unbooked(target: WireCluster, known: Block | PartitionMap) -> int | Unknown:
    """Count the unrecorded records that a partition's leader has from the flow's producer; UNKNOWN where it cannot.

    To be called before the fence, whose marker makes the leader forget. UNKNOWN where the leader has forgotten the
    producer, or does not list it. A negative number counts recorded records that the leader's log lacks.
    """
    if known.tail.writer is UNKNOWN:
        return UNKNOWN
    producers = await active_producers(target, known.about.downstream, purpose="scan")
    return UNKNOWN if producers is UNKNOWN else unbooked_of(known.tail.writer, producers)


def unbooked_of(writer: WriterState, producers: Sequence[ProducerState]) -> int | Unknown:
    """Count a producer's unrecorded records as `count_unbooked` does, from a leader's list of producers."""
    states = [state for state in producers if state.producer_id == writer.producer_id]
    if not states or states[0].epoch > writer.epoch:
        return UNKNOWN
    if states[0].epoch < writer.epoch:
        return -writer.next_sequence
    ahead = (states[0].last_sequence + 1 - writer.next_sequence) % SEQUENCES
    return ahead if ahead < SEQUENCES // 2 else ahead - SEQUENCES  # numbers wrap
