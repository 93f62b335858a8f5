"""Translate commits between two clusters that share a topic's name and both have producers.

What a group has read on one cluster is no prefix of the other log: each log holds the other's records at other offsets
among its own. Here is the cluster of the commit, there the other one. The answer is the first record there that the
group has not read here, from both flows' offset runs:

N  never skips: each record that is at or after the commit here, or is not here yet, is at or after the answer there
R  re-reads no more than it says: of the records below the commit here, at most ``reread_max`` are at or after the
   answer there; an exact answer re-reads none
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.translation.answers import Answer, Bounded, Exact, Refused
from mmtool.translation.refusals import Reason
from mmtool.translation.translate import translate
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from mmtool.translation.answers import SourceLog, TargetLog
    from mmtool.translation.known import Unknown
    from mmtool.translation.partition_map import PartitionMap


def translate_in_pair(
    there: PartitionMap | None,
    back: PartitionMap,
    commit: UpstreamOffset,
    *,
    target: TargetLog,
    source: SourceLog | Unknown,
) -> Answer:
    """Where a group that committed ``commit`` here goes on there.

    Args:
        there: The map of the flow that goes there from here.
        back: The map of the flow that comes from there; its upstream is there.
        commit: Next offset to read here.
        target: The bounds of the log there, asked for *after* the maps were read.
        source: The bounds of the log here.

    Returns:
        `Exact` where nothing is read again, else `Bounded`; `Refused` as `translate` refuses,
        target_log_start_passed when the first unread record that was born there is deleted, and not_mirrored where
        the map of the way from there began too late to tell of what the group has not read here.
    """
    answer = translate(there, commit, target=target, source=source)
    if isinstance(answer, Refused) or there is None:
        return answer
    if began_too_late(back, there, DownstreamOffset(commit), target.log_start):
        return Refused(Reason.NOT_MIRRORED)
    ours = _first_of_ours(there, commit, target)
    theirs = _first_of_theirs(back, DownstreamOffset(commit), target)
    if isinstance(theirs, Refused):
        return theirs
    first = min(ours, theirs)
    if first > target.log_end:
        return Refused(Reason.BEYOND_MIRROR)
    again = read_again(there, back, commit, first) + unbooked(there, back, commit)
    return Bounded(first, again) if again else Exact(first)


def began_too_late(flow: PartitionMap, other: PartitionMap, commit: DownstreamOffset, log_start: int) -> bool:
    """Whether a flow may have brought what its map does not tell of, and a group with that commit has not read it.

    It began anew, and has left earlier copies behind; what the other flow's map knows to be its own is none of them.

    Args:
        flow: The map; its downstream is where the commit is.
        other: The map of the other direction.
        commit: Next offset to read.
        log_start: Of the log that the flow comes from.
    """
    start = flow.mirror_start
    if commit >= start.downstream or log_start >= start.upstream:
        return False
    upto, since = DownstreamOffset(start.upstream), DownstreamOffset(log_start)
    brought = other.runs.records_below_downstream(upto) - other.runs.records_below_downstream(since)
    return start.upstream - log_start > brought


def _first_of_ours(there: PartitionMap, commit: UpstreamOffset, target: TargetLog) -> DownstreamOffset:
    """The first record of this side that is unread: behind what is booked where all of that is read."""
    record = there.runs.find_forward(commit)
    return max(there.tail.target_verified_end, target.log_start) if record is None else record


def _first_of_theirs(
    back: PartitionMap, commit: DownstreamOffset, target: TargetLog
) -> DownstreamOffset | Refused:
    """The first record of the other side that is unread here, or has not come here yet."""
    record = back.runs.find_reverse(commit)
    if record is None:
        return DownstreamOffset(max(back.upstream_frontier, target.log_start))
    if record < target.log_start:
        return Refused(Reason.TARGET_LOG_START_PASSED)
    return DownstreamOffset(record)


def read_again(
    there: PartitionMap, back: PartitionMap, commit: UpstreamOffset, first: DownstreamOffset
) -> int:
    """How many records below the commit here, of those that are in the maps, are at or after ``first`` there."""
    ours = there.runs.records_below(commit) - there.runs.records_below_downstream(first)
    here = DownstreamOffset(commit)
    theirs = back.runs.records_below_downstream(here) - back.runs.records_below(UpstreamOffset(first))
    return max(0, ours) + max(0, theirs)


def unbooked(there: PartitionMap, back: PartitionMap, commit: UpstreamOffset) -> int:
    """Records of the other side that may have come here below the commit since its map was stored."""
    booked = UpstreamOffset(back.tail.target_verified_end)
    born_here = there.runs.records_below(commit) - there.runs.records_below(booked)
    return max(0, commit - booked - max(0, born_here))
