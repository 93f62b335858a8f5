"""Remove offset runs that no commit can need any more: so retention bounds the stored state of a flow.

A block goes once both clusters have deleted all of its records. A commit that lies so far back is refused with or
without it, as ``target_log_start_passed`` (`mmtool.translation.translate`). The newest block of a partition stays.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from mmtool.kafka.state.state_log import SealedBlock, read_sealed_blocks
from mmtool.kafka.wire.metadata import EARLIEST
from mmtool.kafka.wire.scan import list_offsets
from mmtool.plan.records.identity import shard_of
from mmtool.replication.pump.state_writer import store_owned
from mmtool.runtime.threads import in_thread

if TYPE_CHECKING:
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.driver.context import FlowContext, OwnedState
    from mmtool.translation.blocks import BlockKey
    from mmtool.translation.types import TopicId, TopicPartition


async def remove_old_runs(flow: FlowContext, standing: OwnedState, count: int) -> int:
    """Write tombstones for blocks whose records both logs have deleted, oldest first; returns how many.

    To be called between rounds: no worker writes offset runs then. What a crash leaves of a chain is its end.

    Args:
        flow: The flow of the partitions.
        standing: The owner's state, whose claims fence the tombstones.
        count: How many shards the flow has.

    Raises:
        FencedError: another owner claimed a shard.
        UnreachableError, NotAuthorisedError: a cluster does not answer, or denies a request.
    """
    sealed = await in_thread(read_sealed_blocks, flow.settings.target, flow.identity)
    abouts = {place: standing.blocks[place].about for place in sealed if place in standing.blocks}
    source = await _starts(flow.source, {about.upstream: about.topic_id for about in abouts.values()})
    target = await _starts(
        flow.target, {about.downstream: about.target_topic_id for about in abouts.values()}
    )
    old: dict[int, list[BlockKey]] = defaultdict(list)
    for place, about in abouts.items():
        ends = source.get(about.upstream, 0), target.get(about.downstream, 0)
        old[shard_of(*place, count)] += [
            one.key for one in takewhile(partial(_is_below, *ends), sealed[place])
        ]
    for shard, keys in old.items():
        await store_owned(flow, standing, shard, struck_out=keys)
    return sum(map(len, old.values()))


def _is_below(source_start: int, target_start: int, block: SealedBlock) -> bool:
    return block.upstream_end <= source_start and block.downstream_end <= target_start


async def _starts(cluster: WireCluster, topics: dict[TopicPartition, TopicId]) -> dict[TopicPartition, int]:
    """The log start of each partition whose topic still is the mirrored one."""
    await cluster.refresh({tp.topic for tp in topics})
    same = [tp for tp, topic_id in topics.items() if cluster.topic_id(tp.topic) == topic_id]
    led = [tp for tp in same if cluster.leader(*tp) is not None]
    return await list_offsets(cluster, dict.fromkeys(led, EARLIEST), read_committed=False)
