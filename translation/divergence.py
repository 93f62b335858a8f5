"""Failback translation: where a group continues on a source that holds a diverged tail.

The source's own records from the mirror's frontier on are the *diverged tail*: no group on the target has read them.
The flow has stopped permanently; the reverse flow mirrors records that were written on the target to the source. (Names
in this module say ``home`` for the source, and ``away`` for the target.)

N  never skips: each record that was mirrored from the source, or written on the target, and that the group has not read
   on the target, is at or after the answer, or is mirrored there later
R  re-reads no more than it says: of the records that the group has read on the target, at most ``reread_max`` are at or
   after the answer, or are mirrored there later; an exact answer re-reads none
T  the tail is accounted for: ``diverged_records`` of it lie below the answer, ``diverged_ahead`` at or after it
P  passes it at the end only: a group that has not read all that was mirrored from the source keeps the whole tail ahead
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mmtool.translation.answers import Answer, Bounded, Exact, Reason, Refused, SourceLog, TargetLog
from mmtool.translation.errors import InvariantError
from mmtool.translation.sync_map import translate_back_by_syncs
from mmtool.translation.translate import began_too_late, equal_offsets, read_again, translate, translate_back
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.sync_map import SyncMap


class TailPart(NamedTuple):
    """The source's own records from ``start`` up to ``stop``, without records of the reverse flow between them.

    Attributes:
        records: How many there are; markers and aborted records do not count.
    """

    start: UpstreamOffset
    stop: UpstreamOffset
    records: int


@dataclass(frozen=True, slots=True)
class DivergedTail:
    """The records behind the mirror's frontier in the source's log when it was read.

    A. ``start <= end``.
    B. Parts have records, ascend without overlap, and lie between ``start`` and ``end``.
    C. ``brought_to <= end``.

    Attributes:
        start: The flow's stored frontier.
        end: The offset up to which the source's log was read.
        parts: The source's own records; one part where the reverse flow wrote none in between.
        is_final: The flow has stopped, and its map holds all that it ever mirrored.
        brought_to: From this offset up to ``end`` there is no record of the reverse flow.
    """

    start: UpstreamOffset
    end: UpstreamOffset
    parts: tuple[TailPart, ...]
    is_final: bool
    brought_to: UpstreamOffset

    def __post_init__(self) -> None:
        if self.start > self.end:
            raise InvariantError("A", f"a tail from {self.start} to {self.end}")
        passed = self.start
        for part in self.parts:
            if not passed <= part.start < part.stop <= self.end or part.records <= 0:
                raise InvariantError("B", f"{part} in a tail from {self.start} to {self.end}")
            passed = part.stop
        if self.brought_to > self.end:
            raise InvariantError("C", f"brought to {self.brought_to}, past the end {self.end}")

    @property
    def records(self) -> int:
        """How many records diverged."""
        return sum(part.records for part in self.parts)

    def records_below(self, offset: int) -> int:
        """How many diverged records are in parts that end at or before ``offset``."""
        return sum(part.records for part in self.parts if part.stop <= offset)

    def before_part(self, offset: int) -> int:
        """``offset``, or the start of the part in which it lies, so that no part is passed in half."""
        return next((part.start for part in self.parts if part.start < offset < part.stop), offset)


@dataclass(frozen=True, slots=True)
class Homeward:
    """Where a group continues on the source, and the diverged records that it passes over or reads.

    Attributes:
        answer: An offset on the source.
        diverged_records: Records of the tail that the group passes over: neither skipped nor lost, for they are
            exported, but no group from the target reads them.
        diverged_ahead: Records of the tail that the group will read, at the most: the source may delete some before.
    """

    answer: Exact | Bounded
    diverged_records: int
    diverged_ahead: int


HomewardAnswer: TypeAlias = Homeward | Refused


def go_home(
    flow: PartitionMap | None,
    tail: DivergedTail,
    commit: DownstreamOffset,
    *,
    away: TargetLog,
    home: SourceLog,
) -> HomewardAnswer:
    """Where a group continues on the source, for a mirror with another name than its topic, by offset runs.

    Only this flow writes to such a mirror.

    Args:
        flow: The map of the flow from source to target.
        tail: The diverged tail on the source; the source's own records after its end are ahead of every group.
        commit: Next offset to read on the target.
        away: The target log's bounds.
        home: The source log's bounds, read last.

    Returns:
        `Homeward`, exact wherever the tail is final; `Refused` as `translate_back` refuses, and beyond_source_end when
        the source's log ends before the tail did.
    """
    if flow is None:
        return Refused(Reason.NEVER_RAN)
    answer = translate_back(flow, commit, target=away, source=home)
    passes = tail.is_final and flow.runs.find_reverse(commit) is None
    return _before_or_behind(answer, tail, home, passes=passes)


def go_home_by_syncs(
    known: SyncMap | None,
    tail: DivergedTail,
    commit: DownstreamOffset,
    *,
    away: TargetLog,
    home: SourceLog,
) -> HomewardAnswer:
    """Where a group continues on the source, as `go_home` for a flow that MirrorMaker 2 ran, by its offset syncs.

    It is known how far MM2 copied, except for what it copied after its last sync: the tail that begins there has at
    most that many records too many. A group that has read the whole target log passes them, and has read them in any
    case.

    Args:
        known: The partition's syncs.
        tail: The source's records after the last synced one.
        commit: Next offset to read on the target.
        away: The target log's bounds, read after the commit.
        home: The source log's bounds, read last.

    Returns:
        `Homeward`; `Refused` as `translate_back_by_syncs` refuses, and beyond_source_end when the source's log ends
        before the tail did.
    """
    answer = translate_back_by_syncs(known, commit, target=away, source=home)
    return _before_or_behind(answer, tail, home, passes=commit == away.log_end)


def _before_or_behind(answer: Answer, tail: DivergedTail, home: SourceLog, *, passes: bool) -> HomewardAnswer:
    """The answer before the tail, or, for a group that ``passes`` it, the end behind it."""
    if isinstance(answer, Refused):
        return answer
    if passes:
        end = max(tail.end, home.log_start)
        if end > home.log_end:
            return Refused(Reason.BEYOND_SOURCE_END)
        answer = Exact(end)
    return _accounted(answer, tail)


def go_home_in_pair(
    flow: PartitionMap | None,
    back: PartitionMap | None,
    tail: DivergedTail,
    commit: DownstreamOffset,
    *,
    away: TargetLog,
    home: SourceLog,
) -> HomewardAnswer:
    """Where a group continues on the source, as `go_home` for a topic that has one name on both clusters.

    Records of both clusters are interleaved there. The answer is the first record on the source, outside of the tail,
    that the group has not read on the target. The source's own records after the tail's end may be before it: translate
    again when the source was written to since.

    Args:
        flow: The map of the flow from source to target; None where it never had the partition.
        back: The map of the reverse flow, read after it had mirrored as far as ``commit``.
        tail: The diverged tail on the source.
        commit: Next offset to read on the target.
        away: The target log's bounds.
        home: The source log's bounds, read after the maps.

    Returns:
        `Homeward`; `Refused` as `translate` refuses for the reverse flow (beyond_mirror: it has not yet mirrored what
        the group has read), never_ran where the source has records and the flow never had any of them, not_mirrored
        where the flow's map began too late to include what is unread, and target_log_start_passed when the first unread
        record is deleted on the source.
    """
    if back is None:
        return Refused(Reason.NEVER_RAN)
    there = TargetLog(DownstreamOffset(home.log_start), DownstreamOffset(home.log_end))
    here = SourceLog(UpstreamOffset(away.log_start), UpstreamOffset(away.log_end))
    answer = translate(back, UpstreamOffset(commit), target=there, source=here)
    if isinstance(answer, Refused):
        return answer
    if flow is None:
        return Refused(Reason.NEVER_RAN) if tail.records else _accounted(answer, tail)
    if not tail.records and commit in equal_offsets(back, flow, there, here):
        return _accounted(Exact(commit), tail)
    return _among_both(flow, back, tail, commit, home)


def _among_both(
    flow: PartitionMap, back: PartitionMap, tail: DivergedTail, commit: DownstreamOffset, home: SourceLog
) -> HomewardAnswer:
    here = UpstreamOffset(commit)
    came_from_home = _first_from_home(flow, back, tail, commit, home)
    if isinstance(came_from_home, Refused):
        return came_from_home
    first = min(_first_born_away(back, tail, here, home), came_from_home)
    first = max(tail.before_part(first), home.log_start)
    if first > home.log_end:
        return Refused(Reason.BEYOND_MIRROR)
    again = read_again(back, flow, here, first, unrecorded=not tail.is_final)
    return _accounted(Bounded(first, again) if again else Exact(first), tail)


def _first_born_away(back: PartitionMap, tail: DivergedTail, commit: UpstreamOffset, home: SourceLog) -> int:
    """The source offset of the first unread record that was written on the target.

    If all are read, the lowest offset at which the next one can be mirrored.
    """
    record = back.runs.find_forward(commit)
    if record is not None:
        return record
    target_verified_end = back.tail.target_verified_end
    behind_all = tail.end if target_verified_end >= tail.brought_to else 0
    return max(target_verified_end, behind_all, home.log_start)


def _first_from_home(
    flow: PartitionMap, back: PartitionMap, tail: DivergedTail, commit: DownstreamOffset, home: SourceLog
) -> int | Refused:
    """The source offset of the first unread record that the flow mirrored.

    If all are read, the end of the source's log where the tail is final, else the flow's frontier. Refused where the
    record is deleted, or the flow's map began too late.
    """
    if began_too_late(flow, back, commit, home.log_start):
        return Refused(Reason.NOT_MIRRORED)
    record = flow.runs.find_reverse(commit)
    if record is not None:
        return record if record >= home.log_start else Refused(Reason.TARGET_LOG_START_PASSED)
    return home.log_end if tail.is_final else max(flow.upstream_frontier, home.log_start)


def _accounted(answer: Exact | Bounded, tail: DivergedTail) -> Homeward:
    passed = tail.records_below(answer.offset)
    return Homeward(answer, passed, tail.records - passed)
