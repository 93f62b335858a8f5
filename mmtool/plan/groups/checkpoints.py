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
    """Translate a group's commit in one partition to its checkpoint.

    Args:
        group: The group's name.
        commit: Its commit on the source.
        facts: The partition's facts, read after the commit.

    Returns:
        The checkpoint, or the reason of `translate` why there is none; ``beyond_mirror`` only where the mirror's end
        cannot be used instead.
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
    """Translate a commit past the mirror's frontier as if the group had read up to the frontier."""
    if facts.back is None:
        return clamp_ahead(known, commit, target=target)
    return answer_forward(facts, known.upstream_frontier, target)


def is_settled(checkpoint: Checkpoint, facts: PartitionFacts) -> bool:
    """Whether a checkpoint's commit will translate to the same offset later: the mirror has passed it.

    Always False with producers on both clusters: more records from the target may move the offset forward.
    """
    if facts.back is not None:
        return False
    return facts.map is not None and checkpoint.upstream <= facts.map.upstream_frontier


def is_news(checkpoint: Checkpoint, last: Checkpoint | None) -> bool:
    """Whether a checkpoint must be written, by MM2's rule (``MirrorCheckpointTask.checkpointIsMoreRecent``).

    Args:
        checkpoint: The current checkpoint.
        last: The last one written for this group and partition; None before the first.
    """
    if last is None or last.topic_partition != checkpoint.topic_partition:  # the mirror had another name
        return True
    return checkpoint.upstream < last.upstream or checkpoint.downstream > last.downstream


def plan_group_sync(
    group: GroupFacts, wanted: Mapping[TopicPartition, Commit], *, renew: bool
) -> dict[TopicPartition, Commit]:
    """The commits that offset sync must write for a group on the target: KIP-545's rule, partition by partition.

    Args:
        group: Its commits and its state on the target, in `before` and `there`.
        wanted: The commits of its checkpoints, by partition of the target.
        renew: Commit offsets that the target already has once more, whatever their metadata: Kafka expires commits that
            are not repeated.
    """
    if not group.there.idle:
        return {}
    return {
        place: commit for place, commit in wanted.items() if _is_due(commit, group.before.get(place), renew)
    }


def _is_due(commit: Commit, before: Commit | None, renew: bool) -> bool:
    return before is None or before.offset < commit.offset or (renew and before.offset == commit.offset)
