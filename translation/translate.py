"""Translate committed offsets by offset runs; and where a group continues if an answer is needed anyway.

Across a mirror that only the flow writes to, the answer is exact. Where two clusters share a topic's name and both have
producers, what a group has read on one cluster is no prefix of the other log: each log holds the other's records at
other offsets among its own. Here is the cluster of the commit, there the other one. The answer is then the first record
there that the group has not read here, from both flows' offset runs:

N  never skips: each record that is at or after the commit here, or is not here yet, is at or after the answer there
R  re-reads no more than it says: of the records below the commit here, at most ``reread_max`` are at or after the
   answer there; an exact answer re-reads none
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mmtool.translation.answers import Answer, Bounded, Exact, Reason, Refused, Skipping, SourceLog, TargetLog
from mmtool.translation.columns import Columns
from mmtool.translation.types import UNKNOWN, DownstreamOffset, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.runs import Offsets


def translate(
    partition: PartitionMap | None,
    commit: UpstreamOffset,
    *,
    target: TargetLog,
    source: SourceLog | Unknown = UNKNOWN,
) -> Answer:
    """Where a group that committed ``commit`` on the source continues on the target, by offset runs.

    Args:
        partition: The partition's map; None when the flow has stored nothing for it.
        commit: Next offset to read on the source.
        target: The target log's bounds, read *after* the map was read.
        source: The source log's bounds, when the source answers.

    Returns:
        `Exact`, a downstream offset, or `Refused`: never_ran, beyond_source_end, beyond_mirror, not_mirrored,
        target_log_start_passed.
    """
    if partition is None:
        return Refused(Reason.NEVER_RAN)
    record = partition.runs.find_forward(commit)
    # behind the last record a log start further on has deleted nothing that the group needs
    offset = max(partition.tail.downstream_end.position, target.log_start) if record is None else int(record)
    if _is_same(partition, commit, target.log_start):
        offset = commit
    refusals = _refusals(partition, commit, offset, target, source)
    reason = next((reason for reason, hit in refusals if hit), None)
    return Exact(offset) if reason is None else Refused(reason)


def _is_same(partition: PartitionMap, commit: int, log_start: int) -> bool:
    """Whether a commit that is not past the mirror is the same on the other cluster, whose log begins at ``log_start``.

    What lies below that start is deleted there: runs then tell whether the group had read it.
    """
    return partition.same_offsets and commit >= _same_from(partition, log_start)


def _same_from(partition: PartitionMap, log_start: int) -> int:
    return max(log_start, partition.mirror_start.upstream)


def _nothing_before(partition: PartitionMap, target: TargetLog, source: SourceLog | Unknown) -> bool:
    """Whether neither log holds a record below the mirror's start, so that starting there skips none.

    Records of the target below it may be copies by another process (MirrorMaker 2, before a takeover).
    """
    below_is_gone = target.log_start >= partition.mirror_start.downstream
    return below_is_gone and deleted_below(partition.mirror_start.upstream, partition, source)


def deleted_below(offset: int, partition: PartitionMap, source: SourceLog | Unknown) -> bool:
    """Whether the source's log starts at or after ``offset``, now or when it was last seen."""
    seen = partition.tail.source_log_start
    starts = [0 if seen is UNKNOWN else seen.offset, 0 if source is UNKNOWN else source.log_start]
    return max(starts) >= offset


def translate_back(
    partition: PartitionMap | None,
    commit: DownstreamOffset,
    *,
    target: TargetLog,
    source: SourceLog | Unknown = UNKNOWN,
) -> Answer:
    """Where a group that committed ``commit`` on the target continues on the source, by offset runs.

    After the last mirrored record the answer is the frontier: exact as far as the target's log was read after fencing
    and held no record of this flow. Later offsets are not of this flow (records written on the target, markers), or
    were mirrored and not yet stored: bounded by their number.

    Returns:
        `Exact` or `Bounded`, an upstream offset, or `Refused`: never_ran; beyond_source_end when the commit
        is past the target's end or the answer past the source's; target_log_start_passed when the records at
        the position are deleted, on either side; not_mirrored below the mirror's start, where the target may hold
        copies, by another process, of records that the source holds.
    """
    if partition is None:
        return Refused(Reason.NEVER_RAN)
    is_same = commit <= partition.upstream_frontier and _is_same(partition, commit, 0)
    refusal = _refusal_back(partition, commit, target, source, is_same=is_same)
    if refusal is not None:
        return refusal
    record = UpstreamOffset(commit) if is_same else partition.runs.find_reverse(commit)
    if record is None:
        return _at_frontier(partition, commit, source)
    gap = partition.gap_at(record) if is_same else partition.gap_around(commit)
    if gap is None or deleted_below(gap.end, partition, source):
        return _back_at_record(record, source)
    # which of its records the group has read is not known: all may be read again, and none is skipped
    answer = _back_at_record(gap.start, source)
    return Bounded(gap.start, gap.end - gap.start) if isinstance(answer, Exact) else answer


def _refusal_back(
    partition: PartitionMap,
    commit: DownstreamOffset,
    target: TargetLog,
    source: SourceLog | Unknown,
    *,
    is_same: bool,
) -> Refused | None:
    if commit > target.log_end:
        return Refused(Reason.BEYOND_SOURCE_END)
    if is_same:
        return None
    if not partition.complete and commit < partition.runs.first.downstream_start:
        return Refused(Reason.TARGET_LOG_START_PASSED)
    start = partition.mirror_start
    if commit < start.downstream and not deleted_below(start.upstream, partition, source):
        return Refused(Reason.NOT_MIRRORED)
    return None


def _at_frontier(partition: PartitionMap, commit: DownstreamOffset, source: SourceLog | Unknown) -> Answer:
    frontier = partition.upstream_frontier
    beyond = commit - partition.tail.target_verified_end
    if source is not UNKNOWN:
        if frontier > source.log_end:
            return Refused(Reason.BEYOND_SOURCE_END)
        frontier = max(frontier, source.log_start)
    return Exact(frontier) if beyond <= 0 else Bounded(frontier, beyond)


def _back_at_record(record: UpstreamOffset, source: SourceLog | Unknown) -> Answer:
    if source is not UNKNOWN:
        if record < source.log_start:
            return Refused(Reason.TARGET_LOG_START_PASSED)
        if record > source.log_end:
            return Refused(Reason.BEYOND_SOURCE_END)
    return Exact(record)


def translate_many(
    partition: PartitionMap | None,
    commits: Offsets,
    *,
    target: TargetLog,
    source: SourceLog | Unknown = UNKNOWN,
) -> Columns:
    """`translate` for each element of ``commits``, a column of upstream offsets, by the same rules."""
    if partition is None:
        return Columns.refused(Reason.NEVER_RAN, len(commits))
    records, found = partition.runs.find_forward_many(commits)
    end = max(partition.tail.downstream_end.position, target.log_start)
    offsets = np.where(found, records, end)
    if partition.same_offsets:
        offsets = np.where(commits >= _same_from(partition, target.log_start), commits, offsets)
    return Columns.of(offsets, _refusals(partition, commits, offsets, target, source))


def _refusals(
    partition: PartitionMap,
    commits: Offsets | int,
    offsets: Offsets | int,
    target: TargetLog,
    source: SourceLog | Unknown,
) -> Iterator[tuple[Reason, Any]]:
    """Each reason to refuse answers, and whether it refuses the one, or each element of a column; the first counts."""
    if source is not UNKNOWN:
        yield Reason.BEYOND_SOURCE_END, commits > source.log_end
    yield Reason.BEYOND_MIRROR, commits > partition.upstream_frontier
    for gap in partition.gaps:
        if not deleted_below(gap.end, partition, source):
            yield Reason.NOT_MIRRORED, (commits >= gap.start) & (commits < gap.end)
    before = commits < partition.known_from
    if partition.same_offsets:
        before &= commits < _same_from(partition, target.log_start)
    if not partition.complete:
        yield Reason.TARGET_LOG_START_PASSED, before
    elif not _nothing_before(partition, target, source):
        yield Reason.NOT_MIRRORED, before
    yield Reason.TARGET_LOG_START_PASSED, offsets < target.log_start
    yield Reason.BEYOND_MIRROR, offsets > target.log_end


def clamp_ahead(partition: PartitionMap, commit: UpstreamOffset, *, target: TargetLog) -> Bounded | Refused:
    """The end of the mirror, for a commit that is ``beyond_mirror`` when the source is lost.

    The group has read records that never arrived, or that arrived in the last second and are not in the map
    yet; only the latter are read again, so there are at most as many as the target holds past the map's end,
    and at most as many as the group has read past the frontier.

    Returns:
        `Bounded`, a downstream offset, or `Refused` (beyond_mirror) when the target's log ends before it.
    """
    end = max(partition.tail.downstream_end.position, target.log_start)
    if end > target.log_end:
        return Refused(Reason.BEYOND_MIRROR)
    ahead = max(0, commit - partition.upstream_frontier)
    return Bounded(end, min(ahead, target.log_end - end))


def clamp_skipping(
    partition: PartitionMap, commit: UpstreamOffset, *, target: TargetLog
) -> Skipping | Refused:
    """The first available record at or after a commit that is refused, for ``--allow-skip``.

    For ``target_log_start_passed`` and ``not_mirrored``.

    Returns:
        `Skipping`, a downstream offset, with the number of records that are skipped (an upper bound where only their
        offsets are known); `Refused` (beyond_mirror) when the commit is past the frontier, or the target's log ends
        before the answer.
    """
    if commit > partition.upstream_frontier:
        return Refused(Reason.BEYOND_MIRROR)
    record = partition.runs.find_forward(commit)
    answer = partition.tail.downstream_end.position if record is None else record
    clamped = max(answer, target.log_start)
    if clamped > target.log_end:
        return Refused(Reason.BEYOND_MIRROR)
    deleted = partition.runs.records_below_downstream(target.log_start) - partition.runs.records_below(commit)
    gap = partition.gap_at(commit)
    never = 0 if gap is None else gap.end - commit
    return Skipping(clamped, max(0, deleted) + max(0, partition.known_from - commit) + never)


def clamp_checkpoint(
    partition: PartitionMap | None,
    commit: UpstreamOffset,
    checkpoint: DownstreamOffset,
    *,
    target: TargetLog,
) -> Bounded | Skipping:
    """Where a group continues on the target, if only its checkpoint gives an offset there.

    Records that the target has deleted after the checkpoint are skipped, except mirrored records below the commit: the
    group has read those. The others were mirrored and unread, or written on the target; the map does not say which of
    the latter the group has read on the source, so each of their offsets counts.

    Args:
        partition: The partition's map; None when the flow has stored nothing for it.
        commit: Next offset to read on the source, as the checkpoint has it.
        checkpoint: The checkpoint's offset on the target.
        target: The target log's bounds, read *after* the map was read.

    Returns:
        The checkpoint's offset, or that of the first available record: `Skipping` with an upper bound of the records
        that are skipped, or `Bounded` where there are none.
    """
    offset = min(max(checkpoint, target.log_start), target.log_end)
    skipped = max(0, target.log_start - checkpoint)
    if partition is not None:
        runs, gap = partition.runs, partition.gap_at(commit)
        below = min(runs.records_below(commit), runs.records_below_downstream(target.log_start))
        skipped -= max(0, below - runs.records_below_downstream(checkpoint))
        if gap is not None and not deleted_below(gap.end, partition, UNKNOWN):
            skipped += gap.end - commit  # never mirrored, by choice, although the source held their records
    return Skipping(offset, skipped) if skipped else Bounded(offset, target.log_end - offset)


# --- producers on both clusters ---------------------------------------------------------------------------


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
        *_refusals(there, commits, answers.offsets, target, source),
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
