"""Translate committed offsets across a mirror, exactly. Rules and edge cases: docs/concepts/translation.md.

M  monotone: a later commit never gets an earlier answer
N  never skips: each surviving record at or after the commit is at or after the answer
R  no re-read: no record below the commit is at or after an exact answer
X  exact inside a run: the record at the commit is the record at the answer
I  inverse: translating forward, then back, gives the first offset, for each surviving record
S  stable: later mirroring never changes an answer that names a record, and moves an answer at the
   end over markers only
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mmtool.translation.answers import Answer, Bounded, Exact, Refused, SourceLog, TargetLog
from mmtool.translation.columns import Columns
from mmtool.translation.known import UNKNOWN, Unknown
from mmtool.translation.refusals import Reason
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.translation.blocks import Gap
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.runs import Flags, Offsets
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
    refusal = _refusal(partition, commit, target, source)
    if refusal is not None:
        return refusal
    if _is_same(partition, commit, target.log_start):
        return _within(commit, target)
    record = partition.runs.find_forward(commit)
    if record is None:
        return _at_end(partition.tail.downstream_end.position, target)
    return _at_record(record, target)


def _refusal(
    partition: PartitionMap, commit: UpstreamOffset, target: TargetLog, source: SourceLog | Unknown
) -> Refused | None:
    if source is not UNKNOWN and commit > source.log_end:
        return Refused(Reason.BEYOND_SOURCE_END)
    if commit > partition.upstream_frontier:
        return Refused(Reason.BEYOND_MIRROR)
    gap = partition.gap_at(commit)
    if gap is not None and not deleted_below(gap.end, partition, source):
        return Refused(Reason.NOT_MIRRORED)
    if commit >= partition.known_from or _is_same(partition, commit, target.log_start):
        return None
    if not partition.complete:  # blocks are dropped only after the target's log start has passed them
        return Refused(Reason.TARGET_LOG_START_PASSED)
    return None if _nothing_before(partition, target, source) else Refused(Reason.NOT_MIRRORED)


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


def _at_record(record: DownstreamOffset, target: TargetLog) -> Answer:
    if record < target.log_start:
        return Refused(Reason.TARGET_LOG_START_PASSED)
    return _within(record, target)


def _at_end(end: DownstreamOffset, target: TargetLog) -> Answer:
    # All mirrored records are below: a log start further on has deleted nothing that the group needs.
    return _within(max(end, target.log_start), target)


def _within(offset: int, target: TargetLog) -> Answer:
    return Exact(offset) if offset <= target.log_end else Refused(Reason.BEYOND_MIRROR)


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
    if gap is not None and not deleted_below(gap.end, partition, source):
        return _back_at_gap(gap, source)
    return _back_at_record(record, source)


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


def _back_at_gap(gap: Gap, source: SourceLog | Unknown) -> Answer:
    """The start of the gap: which of its records the group has read is not known.

    All of them may be read again, and none is skipped.
    """
    answer = _back_at_record(gap.start, source)
    return Bounded(gap.start, gap.end - gap.start) if isinstance(answer, Exact) else answer


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
    return Columns.of(offsets, _hits(partition, commits, offsets, target, source))


def _hits(
    partition: PartitionMap,
    commits: Offsets,
    offsets: Offsets,
    target: TargetLog,
    source: SourceLog | Unknown,
) -> Iterator[tuple[Reason, Flags]]:
    """The elements that each reason refuses, in the order in which `translate` checks."""
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
