"""Translate the committed offsets of whole groups to the other cluster: one verdict for each partition.

A  every commit of a group has exactly one verdict, and so has each uncommitted partition of a topic that the
   group consumes in part
B  a group is written whole or not at all: one refusal that blocks, and no partition of it is writable
C  a writable offset lies within the log's bounds, and moves no group back unless that was allowed
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from mmtool.plain_text import did_you_mean
from mmtool.plan.groups.facts import Commit, GroupFacts, GroupKind, shown_name
from mmtool.plan.words import joined
from mmtool.translation.answers import (
    BACK,
    FORWARD,
    Answer,
    Bounded,
    Exact,
    Knowledge,
    Reason,
    Refused,
    Sides,
    Skipping,
    SourceLog,
    TargetLog,
)
from mmtool.translation.lockstep import NO_PROOF, Placed, Proof
from mmtool.translation.sync_map import translate_back_by_syncs, translate_by_syncs
from mmtool.translation.translate import (
    clamp_ahead,
    clamp_skipping,
    translate,
    translate_back,
    translate_in_pair,
)
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.sync_map import SyncMap


AnyAnswer = TypeVar("AnyAnswer", bound=Answer | Skipping)


class Direction(StrEnum):
    """The direction of a translation: ``--reverse`` is from the flow's target back to its source."""

    FORWARD = "forward"
    REVERSE = "reverse"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator allows.

    Attributes:
        source_lost: Nothing more will come from the source: a group that was ahead of the mirror continues at the
            mirror's end.
        source_asked: The source answered, so that a log of it that is UNKNOWN does not exist.
        sides: The names of the two clusters in sentences.
    """

    direction: Direction = Direction.FORWARD
    allow_rewind: bool = False
    allow_skip: bool = False
    source_lost: bool = False
    source_asked: bool = True
    sides: Sides = FORWARD


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition of the flow, on both sides.

    Attributes:
        map: The stored offset map; None when the flow has stored nothing for it.
        source_log: UNKNOWN when the source has no such partition (any more).
        target_log: UNKNOWN when the target has no such partition (yet).
        back: The reverse flow's map into the source's partition, where producers write on both sides of it.
        has_others: A group may have read records that neither map has.
        synced: The map from MM2's topics, where the flow has not stored all itself.
        placed: Commits on the source that were translated by comparing the records of both logs (``--refine``).
        then: The same partition on the next hop of a chain, from this target on; None at its end.
        problem: Why one of the logs did not answer, where it is not simply absent.
        verified: Of an external mirror, the offsets around which an earlier verify found the same records on both
            clusters; None for a mirror that mmtool or MM2 keeps.
        compared: Of an external mirror, more such offsets: those around which records were compared just now.
        accepts_unverified: Whether the other offsets of an external mirror are used as well.
    """

    source: TopicPartition
    target: TopicPartition
    map: PartitionMap | None
    source_log: SourceLog | Unknown
    target_log: TargetLog | Unknown
    back: PartitionMap | None = None
    has_others: bool = False
    synced: SyncMap | None = None
    placed: Mapping[int, Placed] = field(default_factory=dict)
    then: PartitionFacts | None = None
    problem: str = ""
    verified: range | None = None
    compared: Collection[int] = ()
    accepts_unverified: bool = False

    def is_verified(self, offset: int) -> bool:
        """Whether the records around an offset of the mirror are the source's; always so, but for external ones.

        At the end of logs without a record there is nothing to compare.
        """
        logs = [log for log in (self.source_log, self.target_log) if log is not UNKNOWN]
        is_empty = bool(logs) and all(log.log_start == log.log_end == offset for log in logs)
        return self.verified is None or is_empty or offset in self.verified or offset in self.compared

    @property
    def same_offsets(self) -> bool:
        """Whether each mirrored record has its source's offset on the target, through all hops of a chain."""
        return all(hop.map is not None and hop.map.same_offsets for hop in self.hops)

    @property
    def hops(self) -> tuple[PartitionFacts, ...]:
        """The partition on each hop of a chain, from the source on; without a chain, only this one."""
        return (self,) if self.then is None else (self, *self.then.hops)

    @property
    def problems(self) -> str:
        """Why logs did not answer, on all hops of a chain; empty where all answered."""
        return joined(*(hop.problem for hop in self.hops))

    @property
    def end(self) -> TopicPartition:
        """The partition on the target; of a chain, on its last target."""
        return self.target if self.then is None else self.then.end

    def place(self, direction: Direction) -> TopicPartition:
        """The partition that commits are read from in a direction."""
        return self.source if direction is Direction.FORWARD else self.end

    def other(self, direction: Direction) -> TopicPartition:
        """The partition that commits are written to in a direction."""
        return self.end if direction is Direction.FORWARD else self.source


@dataclass(frozen=True, slots=True)
class OffsetVerdict:
    """The result for one committed partition.

    Attributes:
        source, target: The partition on both sides; None where it has no name there (a topic outside the
            flow, a group without commits).
        commit: What was read; None where the group has no commit.
        answer: Its translation; None when that is refused.
        refusal: Why it is not written; an answer may be there all the same (``would_rewind``).
        blocks: Whether the refusal keeps the whole group from being written.
        before: The current commit on the cluster that it would be written to.
        knowledge: What the answer, or its refusal, is based on; None where nothing was asked.
        proof: The records around the answer, where it is based on them.
        detail: Why it is refused, where that is more than the reason's own sentence.
        is_unasked: A cluster did not answer: nothing that happens on the target can change this verdict.
        nearest: Of an unknown group: the most similar name that exists.
        same_offsets: Each mirrored record has its source's offset on the target.
    """

    group: str
    source: TopicPartition | None
    target: TopicPartition | None
    commit: Commit | None = None
    answer: Answer | Skipping | None = None
    refusal: Reason | None = None
    blocks: bool = False
    before: Commit | None = None
    knowledge: Knowledge | None = None
    proof: Proof = NO_PROOF
    detail: str = ""
    is_unasked: bool = False
    nearest: str | None = None
    same_offsets: bool = False

    @property
    def is_continued(self) -> bool:
        """Whether producers that move to the target go on with the source's log there, under its name and offsets."""
        one_name = self.source is not None and self.target is not None and self.source == self.target
        return self.same_offsets and one_name


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One group's verdicts, in the order of the topics, and its kind; ``sides`` names the clusters in sentences.

    ``renamed`` is its name on the flow's target, where that is another.
    """

    group: str
    direction: Direction
    verdicts: tuple[OffsetVerdict, ...]
    sides: Sides | None = field(default=None, compare=False)
    kind: GroupKind = GroupKind.CONSUMER
    renamed: str | None = None

    @property
    def target_group(self) -> str:
        """The group's name on the flow's target."""
        return self.group if self.renamed is None else self.renamed

    @property
    def shown(self) -> str:
        """The group's name in sentences, as `shown_name`."""
        return shown_name(self.group, self.renamed)

    @property
    def written_group(self) -> str:
        """The group's name on the cluster that its offsets are written to."""
        return self.target_group if self.direction is Direction.FORWARD else self.group

    def why(self, verdict: OffsetVerdict) -> str:
        """The reason of a refused verdict, as a sentence; empty without a refusal."""
        if verdict.refusal is None:
            return ""
        anonymous = FORWARD if self.direction is Direction.FORWARD else BACK
        is_alone = self.written_to(verdict) is None
        sentence = verdict.detail or verdict.refusal.said_of(
            self.sides or anonymous, is_alone=is_alone, tool=self.kind.writer, starts_by=self.kind.starts_by
        )
        return sentence + did_you_mean([verdict.nearest])

    @property
    def blocked(self) -> bool:
        return any(verdict.blocks for verdict in self.verdicts)

    @property
    def blocking(self) -> tuple[OffsetVerdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.blocks)

    def to_write(self) -> dict[TopicPartition, Commit]:
        """The commits to write on the other cluster, by partition; empty when the group is blocked."""
        found: dict[TopicPartition, Commit] = {}
        for verdict in () if self.blocked else self.verdicts:
            place = self.written_to(verdict)
            if verdict.refusal is None and verdict.answer is not None and place is not None:
                assert not isinstance(verdict.answer, Refused)
                metadata = verdict.commit.metadata if verdict.commit else ""
                found[place] = Commit(verdict.answer.offset, metadata)
        return found

    def before(self) -> dict[TopicPartition, Commit]:
        """The current commits of the partitions in `to_write`, without those that have none."""
        places = self.to_write().keys()
        return {
            place: verdict.before
            for verdict in self.verdicts
            if verdict.before is not None and (place := self.written_to(verdict)) in places
        }

    def read_from(self, verdict: OffsetVerdict) -> TopicPartition | None:
        """The partition that a verdict's commit was read from; None where it has no name there."""
        return verdict.source if self.direction is Direction.FORWARD else verdict.target

    def written_to(self, verdict: OffsetVerdict) -> TopicPartition | None:
        """The partition that a verdict's commit is written to; None where it has no name there."""
        return verdict.target if self.direction is Direction.FORWARD else verdict.source


def unknown_groups(
    nearest: Mapping[str, str | None], direction: Direction, sides: Sides | None = None
) -> list[GroupPlan]:
    """A blocked plan for each unknown group, of which ``nearest`` has the most similar name that exists."""
    unknown = OffsetVerdict("", None, None, refusal=Reason.UNKNOWN_GROUP, blocks=True)
    return [
        GroupPlan(group, direction, (replace(unknown, group=group, nearest=name),), sides)
        for group, name in nearest.items()
    ]


def undescribed_group(group: GroupFacts, direction: Direction, sides: Sides | None = None) -> GroupPlan:
    """A blocked plan for a group that a cluster does not describe."""
    (plan,) = unknown_groups({group.group: None}, direction, sides)
    why = replace(plan.verdicts[0], detail=group.problem, is_unasked=True)
    return replace(plan, verdicts=(why,), renamed=group.target_group)


def plan_group(
    group: GroupFacts, partitions: Mapping[TopicPartition, PartitionFacts], rules: Rules
) -> GroupPlan:
    """Translate every commit of a group to the other cluster: one verdict for each partition.

    Args:
        group: The group on both clusters.
        partitions: Every partition of the flow's (selected) topics, by the partition that commits are read from.
        rules: The direction, and what the operator allows.
    """
    if group.problem:
        return undescribed_group(group, rules.direction, rules.sides)
    topics = {place.topic for place in partitions}
    inside = {place: commit for place, commit in group.commits.items() if place.topic in topics}
    verdicts = [_inside(group, place, commit, partitions, rules) for place, commit in inside.items()]
    verdicts += [_outside(group, place, rules) for place in group.commits if place.topic not in topics]
    verdicts += _uncommitted(group, {place.topic for place in inside}, partitions)
    if not verdicts:
        verdicts = [OffsetVerdict(group.group, None, None, refusal=Reason.NO_COMMIT)]
    verdicts.sort(key=lambda verdict: verdict.source or verdict.target or TopicPartition("", 0))
    return GroupPlan(
        *(group.group, rules.direction, tuple(verdicts), rules.sides), group.here.kind, group.target_group
    )


def topic_names(plans: Iterable[GroupPlan]) -> list[tuple[str, str]]:
    """The topics of plans by their names on the cluster that groups leave and on the destination, sorted."""
    places = [(plan.read_from(one), plan.written_to(one)) for plan in plans for one in plan.verdicts]
    return sorted({(here.topic, there.topic) for here, there in places if here and there})


def _outside(group: GroupFacts, place: TopicPartition, rules: Rules) -> OffsetVerdict:
    forward = rules.direction is Direction.FORWARD
    source, target = (place, None) if forward else (None, place)
    return OffsetVerdict(group.group, source, target, group.commits[place], refusal=Reason.NOT_MIRRORED)


def _uncommitted(
    group: GroupFacts, topics: set[str], partitions: Mapping[TopicPartition, PartitionFacts]
) -> Iterator[OffsetVerdict]:
    """Yield a verdict for each uncommitted partition of ``topics``; there, consumers use ``auto.offset.reset``."""
    for place, facts in partitions.items():
        if place.topic in topics and place not in group.commits:
            refusal, same = Reason.NO_COMMIT, facts.same_offsets
            yield OffsetVerdict(group.group, facts.source, facts.end, refusal=refusal, same_offsets=same)


def _inside(
    group: GroupFacts,
    place: TopicPartition,
    commit: Commit,
    partitions: Mapping[TopicPartition, PartitionFacts],
    rules: Rules,
) -> OffsetVerdict:
    facts = partitions.get(place)
    if facts is None:  # the topic is the flow's, the partition is not there: it was made anew, smaller
        forward = rules.direction is Direction.FORWARD
        gone = Reason.BEYOND_SOURCE_END if forward else Reason.PARTITION_MISSING
        return replace(_outside(group, place, rules), refusal=gone, blocks=True)
    before = group.before.get(facts.other(rules.direction))
    answer, knowledge = answer_of(facts, commit, rules)
    answer = given_again(answer, commit)
    if isinstance(answer, Refused):
        refusal: Reason | None = answer.reason
    else:
        refusal = guard(group, answer.offset, before, allow_rewind=rules.allow_rewind)
    return OffsetVerdict(
        group.group,
        facts.source,
        facts.end,
        commit,
        answer=None if isinstance(answer, Refused) else answer,
        refusal=refusal,
        blocks=refusal is not None,
        before=before,
        knowledge=knowledge,
        proof=facts.placed[commit.offset].proof if knowledge is Knowledge.RECORDS else NO_PROOF,
        detail=_detail(facts, commit, refusal, rules, group.here.kind.writer),
        is_unasked=bool(facts.problems),
        same_offsets=facts.same_offsets,
    )


def given_again(answer: Answer | Skipping, commit: Commit) -> Answer | Skipping:
    """The answer with the records behind a share group's position that it has acknowledged, and is given again."""
    more = commit.acknowledged
    if more == 0 or isinstance(answer, (Refused, Skipping)):
        return answer
    again = answer.reread_max if isinstance(answer, Bounded) else 0
    return Bounded(answer.offset, UNKNOWN if more is UNKNOWN or again is UNKNOWN else again + more)


def _detail(facts: PartitionFacts, commit: Commit, refusal: Reason | None, rules: Rules, tool: str) -> str:
    """The sentence of a refusal for which the reason's own sentence is not enough; else empty."""
    if refusal is Reason.PARTITION_MISSING:
        return facts.problems
    log, (read, written, is_reverse, _) = facts.target_log, rules.sides
    if refusal is not Reason.BEYOND_SOURCE_END or not is_reverse or log is UNKNOWN or facts.then is not None:
        return ""
    if commit.offset > log.log_end:
        return Reason.BEYOND_SOURCE_END.said_of(Sides(read, written), tool=tool)
    return (
        f"the group's commit on {read} translates to an offset past the end of {written}'s log, which was truncated or"
        f" recreated: set the group's offset on {written} yourself with `kafka-{tool} --reset-offsets"
        f" --to-offset OFFSET --execute`, or leave the group on {read}"
    )


def answer_of(
    facts: PartitionFacts, commit: Commit, rules: Rules
) -> tuple[Answer | Skipping, Knowledge | None]:
    """Translate a commit by the flow's offset runs, or by MM2's topics for offsets before them.

    A chain is translated hop by hop. A refusal is returned as the answer. The knowledge is None where the translation
    was refused without any.
    """
    return _over_hop(facts, commit, rules) if facts.then is None else _through(facts, commit, rules)


def _through(facts: PartitionFacts, commit: Commit, rules: Rules) -> tuple[Answer, Knowledge | None]:
    """Translate a commit over a chain hop by hop: exact where every hop is exact.

    The knowledge is that of the last hop without offset runs. Bounds add up: records that are read again on a cluster
    between are read again after it, as often as the next hop may have copied them.
    """
    forward = rules.direction is Direction.FORWARD
    hops, rules = facts.hops if forward else facts.hops[::-1], replace(rules, allow_skip=False)
    again: int | Unknown = 0
    offset, told = commit.offset, Knowledge.OFFSET_RUNS
    for hop in hops:
        answer, knowledge = _over_hop(hop, Commit(offset), rules)
        assert not isinstance(answer, Skipping)
        if isinstance(answer, Refused):
            return answer, knowledge
        if knowledge is not None and knowledge is not Knowledge.OFFSET_RUNS:
            told = knowledge
        copies = 1 if hop.synced is None or not forward else 1 + hop.synced.begun_from(answer.offset)
        more = answer.reread_max if isinstance(answer, Bounded) else 0
        again = UNKNOWN if again is UNKNOWN or more is UNKNOWN else again * copies + more
        offset = answer.offset
    return (Bounded(offset, again) if again else Exact(offset)), told


def _over_hop(
    facts: PartitionFacts, commit: Commit, rules: Rules
) -> tuple[Answer | Skipping, Knowledge | None]:
    if facts.problem:
        return Refused(Reason.PARTITION_MISSING), None if facts.map is None else Knowledge.OFFSET_RUNS
    if facts.map is None and facts.synced is None:
        return Refused(Reason.NEVER_RAN), None
    if facts.target_log is UNKNOWN:
        return Refused(Reason.PARTITION_MISSING), None
    if facts.map is not None:
        by_runs = verified_only(facts, _by_runs(facts, facts.map, commit, rules, facts.target_log))
        forward, start = rules.direction is Direction.FORWARD, facts.map.mirror_start
        # before the first offset that the flow mirrored, only MM2's topics can translate it
        is_before = commit.offset < (start.upstream if forward else start.downstream)
        if facts.synced is None or by_runs != Refused(Reason.NOT_MIRRORED) or not is_before:
            return by_runs, Knowledge.OFFSET_RUNS
    assert facts.synced is not None
    if commit.offset in facts.placed and rules.direction is Direction.FORWARD:
        return facts.placed[commit.offset].answer, Knowledge.RECORDS
    synced, target, source = facts.synced, facts.target_log, facts.source_log
    if rules.direction is Direction.REVERSE:
        answer = translate_back_by_syncs(
            synced, DownstreamOffset(commit.offset), target=target, source=source
        )
    else:
        answer = translate_by_syncs(synced, UpstreamOffset(commit.offset), target=target, source=source)
    return answer, facts.synced.knowledge


def verified_only(facts: PartitionFacts, answer: AnyAnswer) -> AnyAnswer | Bounded | Refused:
    """The answer where the mirror's records around it are known to be the source's; else what is left of it.

    That is a refusal, or an unknown bound where the operator accepts the offset unverified.
    """
    if isinstance(answer, Refused) or facts.is_verified(answer.offset):
        return answer
    if not facts.accepts_unverified:
        return Refused(Reason.MIRROR_NOT_VERIFIED)
    return answer if isinstance(answer, Skipping) else Bounded(answer.offset, UNKNOWN)


def _by_runs(
    facts: PartitionFacts, known: PartitionMap, commit: Commit, rules: Rules, target: TargetLog
) -> Answer | Skipping:
    if rules.direction is Direction.REVERSE:
        return _answer_back(facts, commit, target, rules)
    upstream = UpstreamOffset(commit.offset)
    answer = answer_forward(facts, upstream, target)
    if not isinstance(answer, Refused):
        return answer
    if rules.source_lost and answer.reason is Reason.BEYOND_MIRROR:
        return clamp_ahead(known, upstream, target=target)
    if rules.allow_skip and answer.reason in _SKIPPABLE:
        return clamp_skipping(known, upstream, target=target)
    return answer


def answer_forward(facts: PartitionFacts, commit: UpstreamOffset, target: TargetLog) -> Answer:
    """Translate a commit on the source by offset runs alone, with producers on one cluster or on both."""
    if facts.back is None:
        return translate(facts.map, commit, target=target, source=facts.source_log)
    if facts.has_others:
        return Refused(Reason.AMBIGUOUS)
    return translate_in_pair(facts.map, facts.back, commit, target=target, source=facts.source_log)


_SKIPPABLE = frozenset({Reason.TARGET_LOG_START_PASSED, Reason.NOT_MIRRORED})
"""Reasons that ``--allow-skip`` overrides: the group would skip records that the target does not have."""


def _answer_back(facts: PartitionFacts, commit: Commit, target: TargetLog, rules: Rules) -> Answer:
    source = facts.source_log
    if source is UNKNOWN and rules.source_asked:
        return Refused(Reason.PARTITION_MISSING)
    if source is UNKNOWN or facts.back is None or facts.map is None:
        return translate_back(facts.map, DownstreamOffset(commit.offset), target=target, source=source)
    if facts.has_others:
        return Refused(Reason.AMBIGUOUS)
    return translate_in_pair(  # seen from the target, which is the way back's source
        facts.back,
        facts.map,
        UpstreamOffset(commit.offset),
        target=TargetLog(DownstreamOffset(source.log_start), DownstreamOffset(source.log_end)),
        source=SourceLog(UpstreamOffset(target.log_start), UpstreamOffset(target.log_end)),
    )


def guard(group: GroupFacts, offset: int, before: Commit | None, *, allow_rewind: bool) -> Reason | None:
    """Why a translated offset must not be written: the group is active there, or would move back; else None."""
    if not group.can_be_written:
        return Reason.ACTIVE_ON_TARGET
    if before is not None and before.offset > offset and not allow_rewind:
        return Reason.WOULD_REWIND
    return None


def ever_ran(partitions: Iterable[PartitionFacts]) -> bool:
    """Whether mmtool or MM2 has mirrored any of a flow's partitions."""
    return any(facts.map is not None or facts.synced is not None for facts in partitions)
