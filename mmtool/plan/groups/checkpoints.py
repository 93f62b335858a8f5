"""MirrorMaker 2's checkpoints, and which of them are committed on the target (KIP-382, KIP-545).

A  a checkpoint never leads past a record that its group has not read: its downstream offset is exact, or the
   mirror's end for a group that has read more than was mirrored
B  a group's checkpoints on the target never move back unless its commit on the source did
C  a commit on the target is never moved back, and never written while the group has members there
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.plan.groups.offsets import answer_forward
from mmtool.translation.answers import Refused
from mmtool.translation.clamp import clamp_ahead
from mmtool.translation.known import UNKNOWN
from mmtool.translation.mm2_records import Checkpoint
from mmtool.translation.refusals import Reason
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.plan.groups.facts import Commit, GroupFacts
    from mmtool.plan.groups.offsets import PartitionFacts
    from mmtool.translation.answers import Answer, TargetLog
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.types import TopicPartition


def checkpoint_of(group: str, commit: Commit, facts: PartitionFacts) -> Checkpoint | Refused:
    """Where a group goes on on the target.

    Args:
        group: Its name.
        commit: Its position on the source.
        facts: The partition's, asked for after the commit.

    Returns:
        The checkpoint, or why there is none: a reason of `translate`, ``beyond_mirror`` only when not even the
        mirror's end is there.
    """
    if facts.target_log is UNKNOWN:
        return Refused(Reason.PARTITION_MISSING)
    upstream = UpstreamOffset(commit.offset)
    answer = answer_forward(facts, upstream, facts.target_log)
    if facts.map is not None and answer == Refused(Reason.BEYOND_MIRROR):
        answer = _ahead(facts, facts.map, upstream, facts.target_log)
    if isinstance(answer, Refused):
        return answer
    return Checkpoint(group, facts.target, upstream, DownstreamOffset(answer.offset), commit.metadata)


def _ahead(facts: PartitionFacts, known: PartitionMap, commit: UpstreamOffset, target: TargetLog) -> Answer:
    """A group that has read more than was mirrored: as if it had read up to there."""
    if facts.back is None:
        return clamp_ahead(known, commit, target=target)
    return answer_forward(facts, known.upstream_frontier, target)


def is_settled(checkpoint: Checkpoint, facts: PartitionFacts) -> bool:
    """Whether the same commit will lead to the same place later: the mirror has passed it.

    Where records are born on both sides it is never said: what comes from there may let the group go on further.
    """
    if facts.back is not None:
        return False
    return facts.map is not None and checkpoint.upstream <= facts.map.upstream_frontier


def is_news(checkpoint: Checkpoint, last: Checkpoint | None) -> bool:
    """Whether it is to be written: MM2's own rule (``MirrorCheckpointTask.checkpointIsMoreRecent``).

    Args:
        checkpoint: What holds now.
        last: The last one written for this group and partition; None before the first.
    """
    return last is None or checkpoint.upstream < last.upstream or checkpoint.downstream > last.downstream


def plan_group_sync(
    group: GroupFacts, wanted: Mapping[TopicPartition, Commit], *, renew: bool
) -> dict[TopicPartition, Commit]:
    """What is to be committed for a group on the target: KIP-545's rule, partition by partition.

    Args:
        group: Its commits and its standing on the target, in `before` and `there`.
        wanted: Where its checkpoints lead, by partition of the target.
        renew: Commit what stands there already once more, whatever metadata it has: Kafka forgets commits that nobody
            repeats.
    """
    if not group.there.idle:
        return {}
    return {
        place: commit for place, commit in wanted.items() if _is_due(commit, group.before.get(place), renew)
    }


def _is_due(commit: Commit, before: Commit | None, renew: bool) -> bool:
    return before is None or before.offset < commit.offset or (renew and before.offset == commit.offset)
