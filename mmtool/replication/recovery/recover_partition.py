"""Recover one partition: find where its mirror really ends in the target's log, checked against the source.

The stored offset runs are at most a second old. Behind them the target may hold records that were appended and
never recorded. They carry the flow's producer ids, so they can be counted; as many surviving source records are read
beside them and compared. When both agree, this comparison is the missing piece of the offset runs, and no record is
lost or sent twice. If compaction has changed one of the logs since, the remaining records are matched. When they do
not agree, the partition halts: mmtool never guesses.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.batches import SEQUENCES, BatchError, BatchView, Comparison, same_records
from mmtool.kafka.batches.header import OTHER_LEADER
from mmtool.kafka.batches.records import read_columns
from mmtool.kafka.errors import NO_LEADER
from mmtool.kafka.wire.cluster import (
    PATIENCE_SECONDS,
    ConnectionLostError,
    OutOfRangeError,
    UnreadableLogError,
    WireCluster,
)
from mmtool.kafka.wire.metadata import EARLIEST, LATEST
from mmtool.kafka.wire.scan import list_offsets, read_range
from mmtool.plan.flow.moves import rebuild
from mmtool.plan.topics.facts import BEGIN_AGAIN, HaltReason
from mmtool.plan.words import counted
from mmtool.replication.pump.log_changes import target_cut
from mmtool.replication.same_offsets.mirror import offsets_differ
from mmtool.replication.topics.presence import TopicWatch, source_gone
from mmtool.transforms.source import SourceTransforms, UnmadeError
from mmtool.translation.blocks import Block, MirroredPartition, MirroredTo, Tail, WriterState
from mmtool.translation.derive import Appended, FoundTail, Logged, Remains, match_remains
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.runs import Offsets, RunMap
from mmtool.translation.types import (
    UNKNOWN,
    DownstreamOffset,
    TopicId,
    TopicPartition,
    Unknown,
    UpstreamOffset,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Container, Sequence

    from mmtool.replication.topics.origins import Origins
    from mmtool.translation.answers import TargetLog


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


class SourceAwayError(ConnectionLostError):
    """A dead owner's unrecorded records cannot be compared now: the source partition has no leader."""


class Resumed(NamedTuple):
    """A recovered partition.

    Attributes:
        recorder: Its offset runs, extended to what the target holds.
        others: Offsets of foreign records behind the stored offset runs.
    """

    recorder: MapRecorder
    others: list[range]


class GoneError(DivergedError):
    """The mirror, or its source topic, was deleted or recreated: this partition is never mirrored again."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """The source, and which of its records the flow mirrors.

    Attributes:
        read_committed: Whether aborted records are skipped.
        origins: Which records are skipped for their origin; None where none are.
        watch: Remembers since when topics have been missing.
        until: How long to wait for a missing leader, on the loop's clock.
        same: Whether the flow's mirrors have the source's own offsets.
        transforms: The flow's; None where all is mirrored as it is.
    """

    cluster: WireCluster
    read_committed: bool
    origins: Origins | None = None
    watch: TopicWatch = field(default_factory=TopicWatch)
    until: float = math.inf
    same: bool = False
    transforms: SourceTransforms | None = None

    async def offset(self, place: TopicPartition, when: int, *, read_committed: bool = False) -> int | None:
        """The partition's offset at ``when`` (`list_offsets`); None if there is no such partition.

        Raises:
            ConnectionLostError: its leader does not answer.
            NotAuthorisedError: DESCRIBE on it is denied.
        """
        seconds = min(max(self.until - asyncio.get_running_loop().time(), 0.0), PATIENCE_SECONDS)
        asked = list_offsets(self.cluster, {place: when}, read_committed=read_committed, seconds=seconds)
        try:
            return (await asked).get(place)
        except NotAuthorisedError:
            raise
        except UnreachableError as error:
            raise ConnectionLostError(error.message) from error

    async def why_gone(self, about: MirroredPartition) -> HaltReason | None:
        """Why the partition's source topic is gone: deleted or recreated; None if it still exists or may return.

        Raises:
            ConnectionLostError: no broker answers.
            NotAuthorisedError: DESCRIBE on the topic is denied, so that this is unknown.
        """
        topic = about.source_topic
        found = (await self.cluster.refresh([topic])).get(topic)
        if found is not None:
            self.cluster.check_denied(found.error_code, f"DESCRIBE on topic {topic}")
        presence = self.watch.presence(topic, about.topic_id, found)
        kept_in = about.target_topic if self.same else ""
        return source_gone(topic, presence, kept_in) if presence.is_gone else None


async def resume(
    source: Upstream, mirror: MirrorLog, block: Block, *, unbooked: int | Unknown, same: bool = False
) -> Resumed:
    """Recover one partition: its offset runs, extended by all that the target's log holds.

    Call it after fencing: nothing may be appended under this flow's producer ids while it reads.

    Args:
        source: The cluster of the unrecorded records.
        mirror: The log to which they were appended.
        block: The last stored block.
        unbooked: Records after the stored ones by the target leader's producer state, read before fencing. Used only
            where the target has deleted the beginning of the tail.
        same: Whether the mirror has the source's own offsets: it halts where a record is not at its place.

    Raises:
        DivergedError: the two logs do not agree, or too much of one of them was deleted.
        SourceAwayError, ConnectionLostError: a log could not be read now; a retry may succeed.
    """
    recorder = MapRecorder.resume(block)
    about, stored_end, flow = block.about, block.tail.target_verified_end, mirror.flow_options
    log_start, log_end = mirror.bounds.log_start, mirror.bounds.log_end
    if log_end < stored_end:
        at = await mirror.cut_at(log_end)
        if same and about.source_topic != about.target_topic and recorder.cut(at, log_end):
            return Resumed(recorder, [])
        raise DivergedError(target_cut(about, at, stored_end, flow))
    tail, others = await mirror.behind(block.tail)
    if log_start > stored_end and not _is_whole(block, tail, unbooked):
        deleted = (
            f"the target deleted offsets {stored_end} to {log_start - 1} of {about.target_topic}-{about.partition}"
            " before mmtool stored which source offsets they belong to"
        )
        raise DivergedError(HaltReason(deleted, _mirror_again(about, mirror.target.alias, flow)))
    found = await _walk(source, mirror, block, tail)
    if same:
        _check_places(about, found, () if about.source_topic == about.target_topic else others, log_end, flow)
    for run in found.runs:
        writer = block.tail.writer
        if writer is UNKNOWN:
            raise AssertionError("a stored block names its writer before the first record is sent")
        recorder.appended(run.upstream_start, run.downstream_start, run.count, writer=writer)
    if found.frontier > recorder.tail.upstream_frontier:
        recorder.passed(found.frontier)
    recorder.checked(log_end)
    return Resumed(recorder, others)


def _check_places(
    about: MirroredPartition, found: FoundTail, others: Sequence[range], log_end: DownstreamOffset, flow: str
) -> None:
    """Check that what was found has its source's offsets, and that nobody else wrote behind it.

    Behind it are at most markers: a record of the source at an offset of theirs halts the mirror that continues.

    Raises:
        DivergedError: Another producer wrote there, or a record has another offset.
    """
    for run in found.runs:
        if int(run.upstream_start) != run.downstream_start:
            raise DivergedError(offsets_differ(about, run.upstream_start, run.downstream_start, flow))
    if others:
        raise DivergedError(offsets_differ(about, found.frontier, log_end, flow))


def _mirror_again(about: MirroredPartition, target: str, flow: str) -> str:
    """The steps that mirror a topic again; with one name on both clusters its mirror may hold other records too."""
    delete = f"delete topic {about.target_topic} on {target} and {BEGIN_AGAIN}"
    if about.source_topic != about.target_topic:
        return delete
    return (
        f"if applications also produce to {about.target_topic} on {target}, do not delete it: stop `mmtool replicate`,"
        f" run `mmtool flow forget {flow} --topic {about.source_topic} --execute`, and start `mmtool replicate` with"
        f" mmtool.start = earliest, which appends the source's records again; otherwise {delete}"
    )


def _is_whole(block: Block, tail: Sequence[BatchView], unbooked: int | Unknown) -> bool:
    """Whether none of the flow's own records was among those that the target has already deleted."""
    writer = block.tail.writer
    if not tail:
        return unbooked == 0
    first = tail[0].header
    return (
        writer is not UNKNOWN
        and (first.producer_id, first.producer_epoch) == (writer.producer_id, writer.epoch)
        and first.base_sequence == writer.next_sequence
    )


async def _walk(source: Upstream, mirror: MirrorLog, block: Block, tail: Sequence[BatchView]) -> FoundTail:
    """The records of the tail, matched one by one with the source's surviving records."""
    about, frontier, booked_to = block.about, block.tail.upstream_frontier, block.tail.target_verified_end
    has_more = len(tail) > 0 or (
        source.same and mirror.bounds.log_end > booked_to
    )  # markers are unrecorded, too
    count = sum(view.header.last_offset_delta + 1 for view in tail)
    try:
        if has_more and source.transforms is not None:
            source.transforms.check(about.source_topic, block.version)
        if not tail:
            return FoundTail(RunMap.from_runs(()), frontier)
        stop = await _end(source, about)
        begin, views = await _still_there(source, block, count, stop)
        # if the log now begins in the middle of a batch, that batch still contains the records below, which may have
        # been deleted before they were read: the first record of the tail may be at the frontier, or at the log start
        is_cut = frontier < begin and len(views) > 0 and views[0].header.base_offset < begin
        firsts = [frontier, begin] if is_cut else [frontier]
        compared = [same_records(views, first, tail, count, target_position=booked_to) for first in firsts]
        found = [
            FoundTail(RunMap.from_runs(comparison.matched), comparison.upstream_end)
            for comparison in _telling(compared, frontier, begin, views, tail)
        ]
        if not found:
            # batches that are gone altogether are not in that count: no more were appended than there are offsets
            most = mirror.bounds.log_end - booked_to
            views = await surviving(source, about, begin, most, stop, block.version)
            firsts = firsts[:1] if compared[0].is_complete else firsts
            known = [SourceRemains(source.cluster, begin, first, views) for first in firsts]
            matched = [await match_compacted(remains, mirror, block, tail) for remains in known]
            found = [one for one in matched if one is not None]
    except UnmadeError as error:
        raise DivergedError(_incomparable(about, error.reason)) from error
    except (BatchError, UnreadableLogError) as error:
        # damaged bytes stay so on their replica
        restart = "stop and start `mmtool replicate`"
        again = restart if isinstance(error, OutOfRangeError) else f"{OTHER_LEADER}, then {restart}"
        raise DivergedError(_incomparable(about, HaltReason(str(error), again))) from error
    except ConnectionLostError as error:
        # a broker that is away for a moment has nothing to say about what was mirrored
        if why := await source.why_gone(about):
            raise GoneError(_incomparable(about, why)) from error
        raise SourceAwayError(str(error), error.cause) from error
    if len({one.frontier for one in found}) == 1:
        return found[0]
    if found or compared[0].is_complete:
        here, there = source.cluster.alias, mirror.target.alias
        raise DivergedError(
            HaltReason(
                f"mmtool does not know the source offsets of the last {counted(count, 'record')} of"
                f" {about.target_topic}-{about.partition} on {there}: more than one place in {about.upstream} on"
                f" {here} fits, because {here} deleted its records below offset {begin}",
                rebuild(about.source_topic, mirror.flow_options),
            )
        )
    raise DivergedError(_difference(mirror.flow_options, block, compared[0]))


def _telling(
    compared: Sequence[Comparison],
    frontier: UpstreamOffset,
    begin: UpstreamOffset,
    views: Sequence[BatchView],
    tail: Sequence[BatchView],
) -> Sequence[Comparison]:
    """The comparisons, of those from each offset at which the tail may begin, that show which records were mirrored.

    A comparison that includes deleted records can match by chance, because later records may equal them. It counts if
    the other one differs, or if the first batch was mirrored whole, which shows that its records were there.
    """
    as_if_all_were_there, *as_if_cut = compared
    if not as_if_all_were_there.is_complete:
        return [comparison for comparison in as_if_cut if comparison.is_complete]
    if begin == frontier:
        return [as_if_all_were_there]
    is_whole = tail[0].header.last_offset_delta == views[0].header.last_offset_delta
    is_told = is_whole or all(comparison.difference for comparison in as_if_cut)
    return [as_if_all_were_there] if is_told and views[0].header.base_offset <= frontier else []


async def _end(source: Upstream, about: MirroredPartition) -> int:
    """The source's end offset, by the flow's isolation level; a deleted topic is refused without a wait."""
    place = about.upstream
    if source.cluster.leader(*place) is None and (why := await source.why_gone(about)):
        raise GoneError(_incomparable(about, why))
    end = await source.offset(place, LATEST, read_committed=source.read_committed)
    if end is None:
        raise ConnectionLostError(f"{source.cluster.alias} reports no log end of {place}", NO_LEADER)
    return end


async def _still_there(
    source: Upstream, block: Block, count: int, stop: int
) -> tuple[UpstreamOffset, list[BatchView]]:
    """The `surviving` batches and the offset where they start: the frontier, or a log start that has passed it."""
    about, frontier = block.about, block.tail.upstream_frontier
    try:
        return frontier, await surviving(source, about, frontier, count, stop, block.version)
    except OutOfRangeError:
        begin = UpstreamOffset(max(frontier, await source.offset(about.upstream, EARLIEST) or 0))
        return begin, await surviving(source, about, begin, count, stop, block.version)


async def surviving(
    source: Upstream,
    about: MirroredPartition,
    start: UpstreamOffset,
    count: int,
    stop: int,
    version: str = "",
) -> list[BatchView]:
    """Batches of the source to mirror that hold ``count`` records from ``start`` on, or all below ``stop``.

    Raises:
        ConnectionLostError: the range cannot be read.
        UnmadeError: as `SourceTransforms.made`; not for a record behind those, at which the mirror had halted.
    """
    views: list[BatchView] = []
    held = 0
    place, transforms = (about.source_topic, about.topic_id, about.partition), source.transforms
    reading = read_range(source.cluster, *place, start, stop, read_committed=source.read_committed)
    async for view in reading:
        if not source.read_committed and view.header.is_control:
            continue
        origins, producer_id = source.origins, view.header.producer_id
        if origins is not None and await origins.leaves_out(about.source_topic, producer_id):
            continue
        made, failed = [view], None
        if transforms is not None:
            made, failed, *_ = await transforms.tried(about.upstream, view, range(start, stop), version)
        views += made
        held += sum(one.header.record_count for one in made)
        held -= 0 if version else max(start - view.header.base_offset, 0)
        if failed is not None and held < count:
            raise UnmadeError(failed)
        if failed is not None or held >= count + view.header.record_count:
            break
    return views


def _incomparable(about: MirroredPartition, why: HaltReason) -> HaltReason:
    return why.after(
        f"the records that mmtool copied last from {about.upstream} cannot be compared with the source"
    )


def _difference(flow: str, block: Block, found: Comparison) -> HaltReason:
    about, first = block.about, found.difference
    why = " (the source has no record after these)"
    if first is not None:
        why = (
            f" (the {first.field} at source offset {first.upstream_offset} differs from that at target offset"
            f" {first.downstream_offset})"
        )
    these = f"{flow} --topic {about.source_topic}"
    equal = f"the first {found.compared} equal the source's" if found.compared else "none equals the source's"
    return HaltReason(
        f"diverged: of {counted(found.wanted, 'record')} that mmtool copied from source offset"
        f" {block.tail.upstream_frontier} on, {equal}{why}",
        f"find the differences with `mmtool verify {these}`; then {rebuild(about.source_topic, flow)}",
    )
