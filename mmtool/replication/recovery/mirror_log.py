"""What a target log holds after the stored offset runs, cut or compacted as it may be; read after fencing."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mmtool.kafka.batches import SEQUENCES, BatchView
from mmtool.kafka.batches.records import read_columns
from mmtool.kafka.wire.scan import read_range
from mmtool.replication.pump.log_changes import target_cut
from mmtool.translation.blocks import Block, MirroredPartition, MirroredTo, Tail, WriterState
from mmtool.translation.derive import Appended, FoundTail, Logged, Remains, match_remains
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicId, Unknown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Container, Sequence

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.plan.topics.facts import HaltReason
    from mmtool.translation.answers import TargetLog
    from mmtool.translation.runs import Offsets


_GROWN = 1000
"""How many offsets before its end a truncated log is read to find where it was truncated."""


_SPREAD = np.int64(0x9E3779B97F4A7C15 - (1 << 64))


@dataclass(slots=True)
class RecordPrints:
    """Surviving records by column: 24 bytes each.

    Attributes:
        keeps_time: Every batch has its producers' timestamps (CreateTime), none its broker's (LogAppendTime).
    """

    offsets: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))
    bodies: array[int] = field(default_factory=lambda: array("q"))
    keeps_time: bool = True

    def take(self, view: BatchView, position: int = 0) -> None:
        """Add a batch's records from offset ``position`` on.

        Raises:
            BatchError: The batch cannot be read.
        """
        records = read_columns(view)
        if view.header.base_offset < position:
            records = records.wanted(position, ())
        self.offsets.extend(records.offsets)
        self.times.extend(records.timestamps)
        self.bodies.extend(map(hash, map(bytes, records.bodies)))
        self.keeps_time &= not view.header.is_log_append_time

    def logged(self, *, timed: bool) -> Logged:
        """The records with fingerprints of 64 bits, which include the timestamps if ``timed``."""
        prints = np.array(self.bodies, dtype=np.int64)
        if timed:
            prints ^= np.array(self.times, dtype=np.int64) * _SPREAD
        return Logged(np.array(self.offsets, dtype=np.int64), prints)


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

    def read(self, start: int, stop: int) -> AsyncIterator[BatchView]:
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
        async for view in self.read(last, self.bounds.log_end):
            header = view.header
            is_new = header.next_offset > target_verified_end
            if is_new and header.producer_id not in self.ours:
                start = max(header.base_offset, target_verified_end)
                if behind.others and behind.others[-1].stop == start:
                    start = behind.others.pop().start
                behind.others.append(range(start, header.next_offset))
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
        views = [view async for view in self.read(end - _GROWN, end)]
        for view in reversed(views):
            if self._is_ours(view):
                break
            end = DownstreamOffset(view.header.base_offset)
        return end


class SourceRemains(NamedTuple):
    """The surviving source records behind the last stored block.

    Attributes:
        cluster: The source.
        begin: The block's frontier, or the log's start offset if that is higher by now.
        counts: The lowest offset at which a mirrored record may still be; all below it are gone.
        views: The batches that the flow mirrors from there on, as far as the unrecorded tail may reach.
    """

    cluster: WireCluster
    begin: int
    counts: int
    views: Sequence[BatchView]


async def match_compacted(
    source: SourceRemains, mirror: MirrorLog, block: Block, tail: Sequence[BatchView]
) -> FoundTail | None:
    """The tail matched with the source's surviving records (`match_remains`); None if they do not match.

    Args:
        source: The source's records that may have been mirrored.
        mirror: The target's log.
        block: The last stored block.
        tail: This flow's batches on the target after the block.

    Raises:
        BatchError: A batch cannot be read.
        ConnectionLostError: A log cannot be read.
    """
    about, start = block.about, block.tail.upstream_frontier
    stop = source.views[-1].header.next_offset if source.views else source.begin
    here, there = RecordPrints(), RecordPrints()
    begin, end = max(mirror.bounds.log_start, block.tail.target_verified_end), mirror.bounds.log_end
    for view in source.views:
        here.take(view, source.counts)
    for view in tail:
        there.take(view, begin)
    timed = there.keeps_time  # a topic with LogAppendTime has other times than its source
    place = about.source_topic, about.topic_id, about.partition
    on_source = await _present(read_range(source.cluster, *place, source.begin, stop, read_committed=False))
    on_source = on_source[np.searchsorted(on_source, source.counts) :]
    left = Remains(begin, end, there.logged(timed=timed), await _present(mirror.read(begin, end)))
    return match_remains(
        Remains(start, stop, here.logged(timed=timed), on_source),
        left,
        _appended(tail, block.tail.writer, left),
    )


async def _present(views: AsyncIterator[BatchView]) -> Offsets:
    """Offsets of all records in a range of a log: aborted records, markers and foreign records included."""
    found = array("q")
    async for view in views:
        header = view.header
        if header.record_count == header.last_offset_delta + 1:
            found.extend(range(header.base_offset, header.next_offset))
        elif header.record_count:
            found.extend(read_columns(view).offsets)
    return np.array(found, dtype=np.int64)


def _appended(tail: Sequence[BatchView], writer: WriterState | Unknown, there: Remains) -> Appended:
    """The places of all appended records: missing batches are counted by their sequence numbers.

    Where an owner started new sequences in a gap, its size is unknown, and it is noted as a doubt.
    """
    places: list[int | Unknown] = []
    doubts: list[int] = []
    end = there.start
    last = None if writer is UNKNOWN else (writer.producer_id, writer.epoch, writer.next_sequence)
    for view in tail:
        header = view.header
        begin = max(header.base_offset, there.start)
        if there.gone(end, begin):
            if last is None or last[:2] != (header.producer_id, header.producer_epoch):
                doubts.append(len(places))
            else:
                places += [UNKNOWN] * ((header.base_sequence - last[2]) % SEQUENCES)
        places += range(begin, header.next_offset)
        end = header.next_offset
        following = (header.base_sequence + header.last_offset_delta + 1) % SEQUENCES
        last = (header.producer_id, header.producer_epoch, following)
    if there.gone(end, there.end):
        doubts.append(len(places))
    return Appended(places, doubts)
