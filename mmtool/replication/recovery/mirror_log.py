"""What a partition's target log holds after the stored offset runs, or where it was cut; read after fencing.

`recover_partition` compares it with the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.scan import read_range
from mmtool.replication.pump.truncation import target_cut
from mmtool.translation.blocks import MirroredTo
from mmtool.translation.types import DownstreamOffset

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Container

    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.plan.topics.facts import HaltReason
    from mmtool.translation.answers import TargetLog
    from mmtool.translation.blocks import MirroredPartition, Tail
    from mmtool.translation.types import TopicId

_GROWN = 1000
"""How many offsets before its end a truncated log is read to find where it was truncated."""


class DivergedError(Exception):
    """Source and target disagree on the mirrored records; ``reason`` says where, and what can be done."""

    def __init__(self, reason: HaltReason) -> None:
        super().__init__(reason)
        self.reason = reason


class Behind(NamedTuple):
    """The target's records after the stored offset runs.

    Attributes:
        ours: Batches that were appended under this flow's producer ids, of any epoch.
        others: Offsets of foreign records, their transactions' markers included.
    """

    ours: list[BatchView]
    others: list[range]


@dataclass(frozen=True, slots=True)
class MirrorLog:
    """The target's log of a mirrored partition.

    Attributes:
        bounds: The log's offsets after fencing.
        ours: Every producer id that the partition was ever mirrored under.
        flow_options: The options that select the flow in a command, for remedies.
    """

    target: WireCluster
    about: MirroredPartition
    topic_id: TopicId
    bounds: TargetLog
    ours: Container[int]
    flow_options: str

    def _read(self, start: int, stop: int) -> AsyncIterator[BatchView]:
        """All batches from ``start`` to ``stop``, markers and foreign records included."""
        topic, partition = self.about.downstream
        begin = max(self.bounds.log_start, start)
        return read_range(self.target, topic, self.topic_id, partition, begin, stop, read_committed=False)

    def _is_ours(self, view: BatchView) -> bool:
        return view.header.producer_id in self.ours and not view.header.is_control

    async def behind(self, booked: Tail) -> Behind:
        """The target's records after the stored offset runs: this flow's, and foreign ones.

        The log may have been truncated and have grown again, if only by the markers of fences, so the batch with the
        last recorded offset must be this flow's. If compaction removed it, there is nothing to check.

        Raises:
            DivergedError: that batch is another producer's, or a marker.
        """
        end, target_verified_end = booked.downstream_end, booked.target_verified_end
        last = end.position - 1 if isinstance(end, MirroredTo) else target_verified_end
        behind = Behind([], [])
        async for view in self._read(last, self.bounds.log_end):
            header = view.header
            is_new = header.next_offset > target_verified_end
            if is_new and header.producer_id not in self.ours:
                _add(behind.others, max(header.base_offset, target_verified_end), header.next_offset)
            if self._is_ours(view):
                if is_new:
                    behind.ours.append(view)
            elif header.base_offset <= last < min(target_verified_end, header.next_offset):
                at = await self.cut_at(DownstreamOffset(header.next_offset))
                raise DivergedError(target_cut(self.about, at, target_verified_end, self.flow_options))
        return behind

    async def cut_at(self, end: DownstreamOffset) -> DownstreamOffset:
        """The offset at which a log was truncated before it grew to ``end`` by markers or foreign records.

        The result is at most `_GROWN` offsets below ``end``.
        """
        views = [view async for view in self._read(end - _GROWN, end)]
        for view in reversed(views):
            if self._is_ours(view):
                break
            end = DownstreamOffset(view.header.base_offset)
        return end


def _add(ranges: list[range], start: int, stop: int) -> None:
    """Add a range to the list, merged with the last one if they are adjacent."""
    if ranges and ranges[-1].stop == start:
        start = ranges.pop().start
    ranges.append(range(start, stop))
