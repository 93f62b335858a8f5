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

import numpy as np

from mmtool.translation.answers import Answer, Bounded, Exact, Reason, Refused
from mmtool.translation.columns import Columns
from mmtool.translation.translate import translate, translate_many
from mmtool.translation.types import UNKNOWN, DownstreamOffset, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from mmtool.translation.answers import SourceLog, TargetLog
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.runs import Offsets


def translate_in_pair(
    there: PartitionMap | None,
    back: PartitionMap,
    commit: UpstreamOffset,
    *,
    target: TargetLog,
    source: SourceLog | Unknown,
) -> Answer:
    """Where a group continues on the other cluster, for a topic to which producers of both clusters write.

    Unlike `translate` it also finds the group's first unread record that was written on the other cluster.

    Args:
        there: The map of the flow from the commit's cluster to the other one.
        back: The map of the reverse flow.
        commit: Next offset to read on the commit's cluster.
        target: The bounds of the other cluster's log, read *after* the maps.
        source: The bounds of the log on the commit's cluster.

    Returns:
        `Exact` where nothing is read again, else `Bounded`; `Refused` as `translate` refuses,
        target_log_start_passed when the first unread record that was written on the other cluster is deleted there, and
        not_mirrored where the reverse flow's map began too late to include what the group has not read.
    """
    if there is not None and commit in equal_offsets(there, back, target, source):
        return Exact(commit)
    answer = translate(there, commit, target=target, source=source)
    if isinstance(answer, Refused) or there is None:
        return answer
    if began_too_late(back, there, DownstreamOffset(commit), target.log_start):
        return Refused(Reason.NOT_MIRRORED)
    ours, theirs = there.runs.find_forward(commit), back.runs.find_reverse(DownstreamOffset(commit))
    if theirs is not None and theirs < target.log_start:
        return Refused(Reason.TARGET_LOG_START_PASSED)
    # behind all recorded ones the next record of the one cluster, or one of the other that is not mirrored yet
    first = min(
        max(there.tail.target_verified_end, target.log_start) if ours is None else int(ours),
        max(back.upstream_frontier, target.log_start) if theirs is None else int(theirs),
    )
    if first > target.log_end:
        return Refused(Reason.BEYOND_MIRROR)
    again = read_again(there, back, commit, first)
    return Bounded(first, again) if again else Exact(first)


def translate_in_pair_many(
    there: PartitionMap,
    back: PartitionMap,
    commits: Offsets,
    *,
    target: TargetLog,
    source: SourceLog | Unknown,
) -> Columns:
    """`translate_in_pair` for each element of ``commits``, a column of offsets, by the same rules."""
    answers = translate_many(there, commits, target=target, source=source)
    ours, is_ours = there.runs.find_forward_many(commits)
    theirs, is_theirs = back.runs.find_reverse_many(commits)
    first = np.minimum(
        np.where(is_ours, ours, max(there.tail.target_verified_end, target.log_start)),
        np.where(is_theirs, theirs, max(back.upstream_frontier, target.log_start)),
    )
    late = began_too_late(back, there, DownstreamOffset(0), target.log_start)
    refusals = (
        *answers.refusals(),
        (Reason.NOT_MIRRORED, late & (commits < back.mirror_start.downstream)),
        (Reason.TARGET_LOG_START_PASSED, is_theirs & (theirs < target.log_start)),
        (Reason.BEYOND_MIRROR, first > target.log_end),
    )
    equal = equal_offsets(there, back, target, source)
    is_equal = (commits >= equal.start) & (commits < equal.stop)
    again = np.where(is_equal, 0, _read_again_many(there, back, commits, first, unrecorded=True))
    return Columns.of(
        np.where(is_equal, commits, first), [(reason, hit & ~is_equal) for reason, hit in refusals], again
    )


def equal_offsets(
    there: PartitionMap, back: PartitionMap, target: TargetLog, source: SourceLog | Unknown
) -> range:
    """The commits that are the same on both clusters, where both flows mirror with the source's offsets."""
    if not (there.same_offsets and back.same_offsets):
        return range(0)
    start = min(there.mirror_start.upstream, back.mirror_start.upstream)
    ends = [max(there.upstream_frontier, back.upstream_frontier), target.log_end]
    if source is not UNKNOWN:
        ends.append(source.log_end)
    return range(max(target.log_start, start), min(ends) + 1)


def read_again(
    there: PartitionMap, back: PartitionMap, commit: int, first: int, *, unrecorded: bool = True
) -> int:
    """How many records below ``commit`` are at or after ``first`` on the other cluster, at most.

    Args:
        there: The map of the flow from the commit's cluster to the other one.
        back: The map of the reverse flow.
        commit: An offset on the commit's cluster.
        first: An offset on the other one.
        unrecorded: Whether the reverse flow may have mirrored records that are not recorded yet.
    """
    columns = np.array([commit]), np.array([first])
    return int(_read_again_many(there, back, *columns, unrecorded=unrecorded)[0])


def _read_again_many(
    there: PartitionMap, back: PartitionMap, commits: Offsets, first: Offsets, *, unrecorded: bool
) -> Offsets:
    below = there.runs.records_below_many(commits)
    ours = below - there.runs.records_below_downstream_many(first)
    theirs = back.runs.records_below_downstream_many(commits) - back.runs.records_below_many(first)
    again: Offsets = np.maximum(ours, 0) + np.maximum(theirs, 0)
    if unrecorded:
        booked = UpstreamOffset(back.tail.target_verified_end)
        born_here = np.maximum(below - there.runs.records_below(booked), 0)
        again = again + np.maximum(commits - booked - born_here, 0)
    return again


def began_too_late(flow: PartitionMap, other: PartitionMap, commit: DownstreamOffset, log_start: int) -> bool:
    """Whether a flow may have mirrored records that its map does not include and a group at ``commit`` has not read.

    The flow then started again, after earlier copies; records that the other flow's map knows are none of these.

    Args:
        flow: The map; its downstream is the commit's cluster.
        other: The map of the reverse flow.
        commit: Next offset to read.
        log_start: The log start on the flow's source.
    """
    start = flow.mirror_start
    if commit >= start.downstream or log_start >= start.upstream:
        return False
    upto, since = DownstreamOffset(start.upstream), DownstreamOffset(log_start)
    brought = other.runs.records_below_downstream(upto) - other.runs.records_below_downstream(since)
    return start.upstream - log_start > brought
