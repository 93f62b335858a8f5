"""Group offset sync as data: MirrorMaker 2's checkpoints, and the commit that each group should have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from mmtool.plan.groups.facts import Commit, GroupFacts
from mmtool.plan.groups.offsets import (
    Direction,
    PartitionFacts,
    Rules,
    answer_forward,
    answer_of,
    verified_only,
)
from mmtool.translation.answers import Reason, Refused, Skipping
from mmtool.translation.mm2_records import Checkpoint
from mmtool.translation.translate import clamp_ahead
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition, UpstreamOffset


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
        # past the mirror's frontier: as if the group had read up to the frontier
        if facts.back is None:
            answer = clamp_ahead(facts.map, upstream, target=facts.target_log)
        else:
            answer = answer_forward(facts, facts.map.upstream_frontier, facts.target_log)
    answer = verified_only(facts, answer)
    if isinstance(answer, Refused):
        return answer
    return Checkpoint(group, facts.target, upstream, DownstreamOffset(answer.offset), commit.metadata)


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
    if not group.can_be_written:
        return {}
    return {
        place: commit
        for place, commit in wanted.items()
        if (before := group.before.get(place)) is None
        or before.offset < commit.offset
        or (renew and before.offset == commit.offset)
    }


class SyncState(StrEnum):
    """A group's state on the target after a sync."""

    SYNCED = "synced"
    AHEAD = "ahead"
    """Its commit on the target is after the translated one; sync never moves it back."""
    BEHIND = "behind"
    """Some of its partitions could not be translated, or not be written."""
    ACTIVE_ON_TARGET = "active_on_target"
    """It has members on the target, or a failover has moved it there."""
    NO_COMMIT = "no_commit"
    """It has committed nothing in the flow's topics."""
    UNKNOWN_GROUP = "unknown_group"


class TranslatedCommits(NamedTuple):
    """A group's commits translated to the target: those to write, and why others are not.

    Attributes:
        problems: Messages about partitions for which a cluster did not answer.
    """

    wanted: dict[TopicPartition, Commit]
    refused: dict[TopicPartition, Reason]
    problems: list[str]


def lead(group: GroupFacts, partitions: Mapping[TopicPartition, PartitionFacts]) -> TranslatedCommits:
    """Translate each commit in the flow's topics by itself: a refused partition does not hold back the others.

    A commit past the mirror's frontier is translated to the mirror's end.
    """
    led = TranslatedCommits({}, {}, [])
    for place, commit in group.commits.items():
        facts = partitions.get(place)
        if facts is None:
            continue
        answer, _ = answer_of(facts, commit, Rules(Direction.FORWARD))
        assert not isinstance(answer, Skipping)
        beyond = answer == Refused(Reason.BEYOND_MIRROR) and facts.back is None
        if beyond and facts.map is not None and facts.target_log is not UNKNOWN:
            clamped = clamp_ahead(facts.map, UpstreamOffset(commit.offset), target=facts.target_log)
            answer = verified_only(facts, clamped)
        if isinstance(answer, Refused):
            led.refused[facts.target] = answer.reason
            if facts.problems:
                led.problems.append(facts.problems)
        else:
            led.wanted[facts.target] = Commit(answer.offset, commit.metadata)
    return led


@dataclass(frozen=True, slots=True)
class SyncRow:
    """One group after a sync.

    Attributes:
        group: Its name.
        target_group: Its name on the target.
        state: Its state on the target after the sync.
        partitions: In how many of the flow's partitions it has committed on the source.
        written: How many offsets were committed for it in this sync.
        refused: How many partitions could not be translated, or were not accepted.
        freshness_seconds: How long ago mmtool read the source's commit that is now on the target, for the partition
            where this is longest. None while a partition has no commit on the target.
        reason: Why it is not synced; empty where it is.
    """

    group: str
    state: SyncState
    partitions: int
    written: int
    refused: int
    freshness_seconds: float | None
    reason: str
    target_group: str | None = None


def percentile(counts: Mapping[float, int], share: float) -> float | None:
    """The smallest value that at least ``share`` of all values do not exceed; None without values.

    Args:
        counts: The number of occurrences of each value.
        share: From 0 to 1.
    """
    wanted = max(1, ceil(share * sum(counts.values())))
    for value, reached in zip(
        sorted(counts), accumulate(counts[value] for value in sorted(counts)), strict=True
    ):
        if reached >= wanted:
            return value
    return None
