"""Find half-mirrored transactions of a flow, also from the target alone."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from mmtool.insight.target_only import TargetSide, look_at_target
from mmtool.kafka.batches.records import is_abort_marker
from mmtool.kafka.clients import blocking_wire
from mmtool.kafka.mirror_maker import Mm2Topics
from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import AtMost, list_offsets, read_range
from mmtool.plan.failover.half_transactions import (
    HalfTransaction,
    Share,
    half_transactions,
    told_by_target,
    transactions_on_target,
)
from mmtool.plan.groups.facts import GroupSelection
from mmtool.plan.words import Names

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping

    from mmtool.insight.flow_now import FlowClusters
    from mmtool.insight.verify.preparation import PreparedFlow
    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.translation.types import TopicId, TopicPartition


_NO_GROUP = GroupSelection(matching=lambda _: False)


def tell_from_target(flow: FlowClusters, topics: Collection[str] = ()) -> str:
    """One sentence about transactions of a flow whose source does not answer.

    Args:
        flow: The flow; no group of it is asked about.
        topics: ``--topic``: only these; empty for all.

    Raises:
        UnreachableError, NotAuthorisedError: The target does not answer either, or denies a part.
        RefusedError: Stored state that cannot be read.
    """
    settings = flow.settings
    side = TargetSide(settings, flow.target, flow.state, Mm2Topics(settings, target_only=True))
    facts = look_at_target(side, _NO_GROUP, int(time.time() * 1000)).facts
    known = transactions_on_target(facts, topics or None)
    return told_by_target(known, Names(settings.source.alias, settings.target.alias))


_LONGEST_MS = 900_000
"""``transaction.max.timeout.ms`` by default: no transaction is open for longer."""
_AT_ONCE = 8
_SECONDS = 600.0


def read_half_transactions(flow: PreparedFlow) -> list[HalfTransaction]:
    """Transactions over the flow's partitions of which the target holds only a part.

    Raises:
        UnreachableError: The source's logs cannot be read.
    """
    parts = flow.partitions
    frontiers = {place: part.frontier for place, part in parts.items() if part.frontier is not None}
    ids = {place: parts[place].source_id for place in frontiers}
    cluster = flow.clusters.settings.source
    wire = blocking_wire(cluster, "verify", "consumer", _SECONDS)

    async def read(there: WireCluster) -> list[Share]:
        await there.refresh({place.topic for place in ids})
        behind = await _shares(there, ids, frontiers)
        waiting = [share.first_ms for share in behind if share.committed is not False]
        if not waiting:
            return []
        since = dict.fromkeys(ids, max(min(waiting) - _LONGEST_MS, 0))
        return await _shares(there, ids, await list_offsets(there, since, read_committed=False))

    return half_transactions(wire.ask(read, "reading transactions"), frontiers)


async def _shares(
    cluster: WireCluster, ids: Mapping[TopicPartition, TopicId], starts: Mapping[TopicPartition, int]
) -> list[Share]:
    """Every transaction's records from an offset of each partition to its end."""
    ends = await list_offsets(cluster, dict.fromkeys(starts, LATEST), read_committed=False)
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(place: TopicPartition) -> list[Share]:
        async with turns:
            views = read_range(
                cluster, place.topic, ids[place], place.partition,
                starts[place], AtMost(ends.get(place, starts[place])), read_committed=False,
            )  # fmt: skip
            return await _shares_of(place, views)

    return [share for found in await asyncio.gather(*map(one, starts)) for share in found]


async def _shares_of(place: TopicPartition, views: AsyncIterator[BatchView]) -> list[Share]:
    """The transactions of one partition, from its batches in order; those without a marker are open."""
    begun: dict[int, Share] = {}
    ended: list[Share] = []
    async for view in views:
        header = view.header
        if not header.is_transactional:
            continue
        if not header.is_control:
            first = Share(
                place,
                header.producer_id,
                header.producer_epoch,
                header.base_offset,
                header.last_offset,
                header.base_timestamp,
                header.max_timestamp,
                None,
            )
            share = begun.setdefault(header.producer_id, first)
            begun[header.producer_id] = share._replace(last=header.last_offset, end_ms=header.max_timestamp)
        elif header.producer_id in begun:
            share = begun.pop(header.producer_id)
            end_ms = max(header.max_timestamp, share.end_ms)
            ended.append(share._replace(end_ms=end_ms, committed=not is_abort_marker(view)))
    return [*ended, *begun.values()]
