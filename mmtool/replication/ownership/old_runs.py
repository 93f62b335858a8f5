"""Find offset runs that no commit can need any more; the owner strikes them out, so retention bounds what is stored.

A block goes once both clusters have deleted all of its records. A commit that lies so far back is refused with or
without it, as ``target_log_start_passed`` (`mmtool.translation.translate`). The newest block of a partition stays.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from mmtool.kafka.state.state_log import SealedBlock, read_sealed_blocks
from mmtool.kafka.wire.metadata import EARLIEST
from mmtool.kafka.wire.scan import list_offsets
from mmtool.plan.records.identity import shard_of
from mmtool.runtime.threads import in_thread

if TYPE_CHECKING:
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.driver.context import FlowContext, OwnedState
    from mmtool.translation.blocks import BlockKey
    from mmtool.translation.types import TopicId, TopicPartition

_PATIENCE_SECONDS = 10.0
"""For the log starts. Rounds wait meanwhile."""


async def old_runs(flow: FlowContext, standing: OwnedState, count: int) -> dict[int, list[BlockKey]]:
    """The blocks whose records both logs have deleted, by shard, oldest first.

    They can be struck out in this order: what a crash leaves of a chain is its end.

    Args:
        flow: The flow of the partitions.
        standing: The owner's state.
        count: How many shards the flow has.

    Raises:
        RefusedError: stored offset runs cannot be read.
        UnreachableError, NotAuthorisedError, ConnectionLostError, TimeoutError: a cluster does not answer, or denies a
            request.
    """
    sealed = await in_thread(read_sealed_blocks, flow.settings.target, flow.identity)
    abouts = {place: standing.blocks[place].about for place in sealed if place in standing.blocks}
    async with asyncio.timeout(_PATIENCE_SECONDS):
        source, target = await asyncio.gather(
            _starts(flow.source, {about.upstream: about.topic_id for about in abouts.values()}),
            _starts(flow.target, {about.downstream: about.target_topic_id for about in abouts.values()}),
        )
    old: dict[int, list[BlockKey]] = defaultdict(list)
    for place, about in abouts.items():
        ends = source.get(about.upstream, 0), target.get(about.downstream, 0)
        newest = standing.blocks[place].key
        for one in takewhile(partial(_is_below, *ends), sealed[place]):
            if one.key < newest:  # after a crash the newest one may be sealed
                old[shard_of(*place, count)].append(one.key)
    return old


def _is_below(source_start: int, target_start: int, block: SealedBlock) -> bool:
    return block.upstream_end <= source_start and block.downstream_end <= target_start


async def _starts(cluster: WireCluster, topics: dict[TopicPartition, TopicId]) -> dict[TopicPartition, int]:
    """The log start of each partition whose topic still is the mirrored one."""
    await cluster.refresh({tp.topic for tp in topics})
    same = [tp for tp, topic_id in topics.items() if cluster.topic_id(tp.topic) == topic_id]
    led = [tp for tp in same if cluster.leader(*tp) is not None]
    return await list_offsets(cluster, dict.fromkeys(led, EARLIEST), read_committed=False)
