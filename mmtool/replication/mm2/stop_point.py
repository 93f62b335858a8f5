"""Find where MirrorMaker 2 stopped in a partition: compare records on both sides from the last sync on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import UnreachableError
from mmtool.kafka.batches import BatchError, raw_records, same_records
from mmtool.kafka.remedies import BOTH_AWAY
from mmtool.kafka.wire.cluster import ConnectionLostError, UnreadableLogError, remedy_after
from mmtool.kafka.wire.scan import AtMost, read_range
from mmtool.replication.recovery.recover_partition import Upstream, surviving
from mmtool.translation.known import UNKNOWN, Unknown
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from mmtool.kafka.batches import BatchView, Comparison
    from mmtool.plan.flow.take_over import Traces
    from mmtool.replication.driver.context import FlowContext
    from mmtool.translation.blocks import MirroredPartition
    from mmtool.translation.mm2_records import OffsetSync

_LONGEST_TAIL = 200_000  # records that are held in memory to be compared


class ContradictionError(Exception):
    """The two records that a sync says are the same differ; the message names both."""


async def mm2_stop_point(
    flow: FlowContext, about: MirroredPartition, traces: Traces
) -> UpstreamOffset | Unknown:
    """The source offset after the target's last record; UNKNOWN where the records do not show it.

    Compares all records from the last sync on, the sync's own included; if that is inconclusive, whether the target's
    last record is the last one that MM2 says it replicated.

    Raises:
        ContradictionError: the sync belongs to other logs than the present ones.
        UnreachableError: a log cannot be read now.
    """
    sync, end = traces.sync, traces.target.log_end
    if sync is not UNKNOWN:
        compared = await _compared(flow, about, sync.upstream, sync.downstream, traces)
        for found in compared:
            if found.is_complete:
                return _behind(found)
        if compared and all(_differs_at(sync, found) for found in compared):
            raise ContradictionError(
                f"MirrorMaker 2 stored source offset {sync.upstream} with target offset {sync.downstream}, but the"
                " records at these offsets differ: one of the topics was recreated"
            )
    if traces.last is UNKNOWN:
        return UNKNOWN
    for found in await _compared(flow, about, traces.last, DownstreamOffset(end - 1), traces):
        if found.is_complete:
            return _behind(found)
    return UNKNOWN


def _differs_at(sync: OffsetSync, found: Comparison) -> bool:
    """Whether both records of the sync exist and differ from each other."""
    at = found.difference
    return at is not None and (at.upstream_offset, at.downstream_offset) == (sync.upstream, sync.downstream)


def _behind(found: Comparison) -> UpstreamOffset:
    last = found.matched[-1]
    return UpstreamOffset(last.upstream_start + last.count)


async def _compared(
    flow: FlowContext,
    about: MirroredPartition,
    upstream: UpstreamOffset,
    downstream: DownstreamOffset,
    traces: Traces,
) -> list[Comparison]:
    """Comparisons of both logs from a pair of offsets to the target's end; empty if nothing can be compared.

    MM2 reads uncommitted records unless it is configured otherwise: both readings of the source are tried.
    """
    try:
        tail = await _tail(flow, about, downstream, traces.target.log_end)
        count = sum(record.offset >= downstream for view in tail for record in raw_records(view))
        if count == 0:
            return []
        comparisons = []
        for committed in (False, True):
            source = Upstream(flow.source, committed)
            # a transaction that is open there ends what is committed before the log does
            stop = AtMost(traces.source.log_end)
            views = await surviving(source, about, upstream, count, stop)
            comparisons.append(same_records(views, upstream, tail, count, target_position=downstream))
    except (BatchError, UnreadableLogError):
        return []
    except ConnectionLostError as lost:
        raise UnreachableError(f"{about.upstream}: {lost}", remedy=remedy_after(lost, BOTH_AWAY)) from lost
    return comparisons


async def _tail(
    flow: FlowContext, about: MirroredPartition, start: DownstreamOffset, end: DownstreamOffset
) -> list[BatchView]:
    """The target's batches from ``start`` to ``end``; empty if there are too many offsets to hold in memory."""
    if end - start > _LONGEST_TAIL:
        return []
    topic, topic_id = about.target_topic, about.target_topic_id
    reading = read_range(flow.target, topic, topic_id, about.partition, start, end, read_committed=True)
    return [view async for view in reading]
