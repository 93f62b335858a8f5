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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.batches import BatchError, BatchView, Comparison, same_records
from mmtool.kafka.batches.errors import OTHER_LEADER
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
from mmtool.replication.recovery.mirror_log import DivergedError, MirrorLog, SourceRemains, match_compacted
from mmtool.replication.same_offsets.mirror import offsets_differ
from mmtool.replication.topics.presence import TopicWatch, source_gone
from mmtool.translation.derive import FoundTail
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.runs import RunMap
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.replication.topics.origins import Origins
    from mmtool.translation.blocks import Block, MirroredPartition


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
    """

    cluster: WireCluster
    read_committed: bool
    origins: Origins | None = None
    watch: TopicWatch = field(default_factory=TopicWatch)
    until: float = math.inf
    same: bool = False

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
    if not tail:
        return FoundTail(RunMap.from_runs(()), frontier)
    count = sum(view.header.last_offset_delta + 1 for view in tail)
    try:
        stop = await _end(source, about)
        begin, views = await _still_there(source, about, frontier, count, stop)
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
            views = await surviving(source, about, begin, mirror.bounds.log_end - booked_to, stop)
            firsts = firsts[:1] if compared[0].is_complete else firsts
            known = [SourceRemains(source.cluster, begin, first, views) for first in firsts]
            matched = [await match_compacted(remains, mirror, block, tail) for remains in known]
            found = [one for one in matched if one is not None]
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
    source: Upstream, about: MirroredPartition, frontier: UpstreamOffset, count: int, stop: int
) -> tuple[UpstreamOffset, list[BatchView]]:
    """The `surviving` batches and the offset where they start: the frontier, or a log start that has passed it."""
    try:
        return frontier, await surviving(source, about, frontier, count, stop)
    except OutOfRangeError:
        begin = UpstreamOffset(max(frontier, await source.offset(about.upstream, EARLIEST) or 0))
        return begin, await surviving(source, about, begin, count, stop)


async def surviving(
    source: Upstream, about: MirroredPartition, start: UpstreamOffset, count: int, stop: int
) -> list[BatchView]:
    """Batches of the source to mirror that hold ``count`` records from ``start`` on, or all below ``stop``.

    Raises:
        ConnectionLostError: the range cannot be read.
    """
    views: list[BatchView] = []
    held = 0
    reading = read_range(
        source.cluster,
        about.source_topic,
        about.topic_id,
        about.partition,
        start,
        stop,
        read_committed=source.read_committed,
    )
    async for view in reading:
        if not source.read_committed and view.header.is_control:
            continue
        origins, producer_id = source.origins, view.header.producer_id
        if origins is not None and await origins.leaves_out(about.source_topic, producer_id):
            continue
        views.append(view)
        held += view.header.record_count - max(start - view.header.base_offset, 0)
        if held >= count + view.header.record_count:
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
