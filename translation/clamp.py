"""Where a group continues if `translate` refuses but an answer is needed: an emergency, or ``--allow-skip``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.translation.answers import Bounded, Refused, Skipping
from mmtool.translation.known import UNKNOWN
from mmtool.translation.refusals import Reason
from mmtool.translation.translate import deleted_below

if TYPE_CHECKING:
    from mmtool.translation.answers import TargetLog
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.types import DownstreamOffset, UpstreamOffset


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
        skipped += _passed_over(partition, commit) - _read(partition, commit, checkpoint, target.log_start)
    return Skipping(offset, skipped) if skipped else Bounded(offset, target.log_end - offset)


def _read(
    partition: PartitionMap, commit: UpstreamOffset, start: DownstreamOffset, end: DownstreamOffset
) -> int:
    """How many mirrored records between two offsets of the target are below the commit."""
    runs = partition.runs
    below = min(runs.records_below(commit), runs.records_below_downstream(end))
    return max(0, below - runs.records_below_downstream(start))


def _passed_over(partition: PartitionMap, commit: UpstreamOffset) -> int:
    """How many offsets from the commit on were skipped by choice, although the source held their records."""
    gap = partition.gap_at(commit)
    if gap is None or deleted_below(gap.end, partition, UNKNOWN):
        return 0
    return gap.end - commit
