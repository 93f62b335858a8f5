"""Translate committed offsets across a mirror, exactly; and where a group continues if an answer is needed anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mmtool.translation.answers import Answer, Bounded, Exact, Reason, Refused, Skipping, SourceLog, TargetLog
from mmtool.translation.columns import Columns
from mmtool.translation.types import UNKNOWN, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.runs import Offsets
    from mmtool.translation.types import DownstreamOffset


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
