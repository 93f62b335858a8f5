"""A failback as data: where groups continue on the flow's source, which may have a diverged tail.

H  no group is moved back on the source: one that had committed further there before the failover stays there
D  records of the diverged tail that a group passes over are counted
K  the offset of a group that would pass over records which the failback mirrors first is known after that drain
W  records written on the target are mirrored to the source before a group continues behind them: until then its
   offset is unknown
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mmtool.plan.failover.acl_promotion import NO_PROMOTION, Promotion
from mmtool.plan.failover.choices import TO_FILE, Diverged
from mmtool.plan.failover.failover_plan import FailoverPlan, active_guards, blocking_guards, state_guards
from mmtool.plan.failover.risks import Guard
from mmtool.plan.failover.steps import Mode
from mmtool.plan.groups.applications import NO_STATE, AppState, StateLoss, StateTopic, with_lost_state
from mmtool.plan.groups.facts import Commit, GroupFacts
from mmtool.plan.groups.offsets import (
    Direction,
    GroupPlan,
    OffsetVerdict,
    PartitionFacts,
    Rules,
    answer_of,
    given_again,
    undescribed_group,
    unknown_groups,
)
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.plan.words import Names, counted
from mmtool.translation.answers import (
    Answer,
    Exact,
    Knowledge,
    Reason,
    Refused,
    Sides,
    Skipping,
)
from mmtool.translation.divergence import DivergedTail, go_home, go_home_by_syncs, go_home_in_pair
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition


@dataclass(frozen=True, slots=True)
class HomeFacts:
    """What both clusters answer when a flow's source is back.

    Attributes:
        groups: Their commits on both clusters; ``here`` is the flow's target, ``there`` its source.
        unknown: Names that no group on the target has, with the nearest name of one there.
        mirrored: Every partition that the flow mirrored, by its name on the target.
        born: Every partition that the reverse flow mirrors, by its name on the target; may be among ``mirrored``.
        tails: The diverged tails, by partition of the source.
        topics: The flow's topics on the source that the groups read.
        kept: Those of them that groups which stay on the target read too, with these groups: they stay failed over.
        held: The marks of topics on the source that have failed over: nothing more of them is mirrored.
        unread: Groups of ``kept`` whose commits cannot be read, with the reason: they may read any of the topics.
        one_name: Topics have the same name on both sides: a topic holds records of both clusters.
        state: The state topics of the Kafka Streams applications among the groups.
        same: Those of `topics` that the reverse flow mirrors with the offsets that records have on the target.
    """

    groups: tuple[GroupFacts, ...]
    unknown: Mapping[str, str | None]
    mirrored: Mapping[TopicPartition, PartitionFacts]
    born: Mapping[TopicPartition, PartitionFacts]
    tails: Mapping[TopicPartition, DivergedTail]
    one_name: bool
    topics: tuple[str, ...]
    held: Mapping[str, FailedOverRecord]
    kept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    state: AppState = NO_STATE
    same: Collection[str] = ()

    @property
    def released(self) -> tuple[str, ...]:
        """Those of `topics` that the flow mirrors again when the groups are back."""
        return tuple(topic for topic in self.topics if topic not in self.kept)


_FORWARD = Rules(Direction.FORWARD)


@dataclass(frozen=True, slots=True)
class Homecoming:
    """A plan, and the diverged records that its groups pass over or still read, by partition of the source.

    Attributes:
        passed: Diverged records below some group's offset, which no group on the target has seen.
        ahead: Diverged records that a group will read because it was behind on the target.
        state: The state topics of the Kafka Streams applications among the groups.
    """

    plan: FailoverPlan
    passed: Mapping[TopicPartition, int]
    ahead: Mapping[TopicPartition, int]
    state: AppState = NO_STATE

    @property
    def diverged_records(self) -> int:
        """The number of diverged records that groups pass over; one that several groups pass is counted once."""
        return sum(self.passed.values())


def plan_failback(
    operation_id: str,
    names: Names,
    facts: HomeFacts,
    diverged: Diverged = TO_FILE,
    withdrawal: Promotion = NO_PROMOTION,
) -> Homecoming:
    """Plan a failback: the offsets at which groups continue on the flow's source.

    Args:
        operation_id: The operation's id.
        names: The names of the flow's clusters.
        facts: The facts of both clusters.
        diverged: Where the diverged tail is written.
        withdrawal: Producers' ACLs on the target that earlier operations promoted.
    """
    homeward = _Homeward(facts)
    plans = [homeward.group(group) for group in facts.groups]
    plans += unknown_groups(facts.unknown, Direction.REVERSE)
    state = _with_diverged(facts.state, facts, names)
    plans = [with_lost_state(plan, state) for plan in plans]
    sides = Sides(names.target, names.source, is_reverse=True)
    found = tuple(replace(plan, sides=sides) for plan in sorted(plans, key=lambda plan: plan.group))
    turned = Names(names.target, names.source)  # commits are read away, and written at home
    guards: tuple[Guard, ...] = (
        *_offsets_that_differ(names, facts),
        *active_guards(facts.groups, turned),
        *state_guards(state, names.source),
        *blocking_guards(found, after_drain=False),
    )
    plan = FailoverPlan(
        operation_id,
        Mode.FAILBACK,
        names,
        found,
        guards=guards,
        released=facts.released,
        marked={
            topic: facts.held[topic].operation_id
            for topic in facts.released
            if topic in facts.held and facts.held[topic].operation_id != operation_id
        },
        diverged=diverged,
        state=state.moved,
        without_state=state.without,
        held=facts.topics,
        promotion=withdrawal,
    ).with_steps()
    return Homecoming(plan, homeward.passed, homeward.ahead, state)


def _offsets_that_differ(names: Names, facts: HomeFacts) -> Iterator[Guard]:
    """Yield a guard for each partition in which records of the target cannot have their own offsets on the source."""
    back = f"{names.target}->{names.source}"
    for known in facts.mirrored.values():
        place, tail = known.source, facts.tails.get(known.source)
        if tail is None or not tail.records or (known.map is None and known.synced is None):
            continue
        if place.topic in facts.same and place.topic in facts.held:
            yield Guard(
                "offsets_differ",
                f"{place} cannot go on with equal offsets: {counted(tail.records, 'record')} of it on"
                f" {names.source} (offsets {tail.start} to {tail.end - 1}) never reached {names.target}, where other"
                " records have these offsets",
                f"set {back}.mmtool.offsets = translated in the properties file, and run the same command again: groups"
                " then move with translated offsets",
            )


def _with_diverged(state: AppState, facts: HomeFacts, names: Names) -> AppState:
    """The state with topics marked as lost that have a diverged tail: the target's state cannot replace theirs."""

    def judged(topic: StateTopic) -> StateTopic:
        records = sum(tail.records for place, tail in facts.tails.items() if place.topic == topic.name)
        if topic.lost or not records or topic.name not in facts.held:
            return topic
        never = (
            f"{counted(records, 'record')} of it on {names.source} never reached {names.target} and would mix with the"
            f" state from {names.target}"
        )
        return replace(topic, lost=StateLoss(never, do=""))

    return replace(state, topics=tuple(map(judged, state.topics)))


@dataclass(frozen=True, slots=True)
class _Homeward:
    """Where groups continue on the source; ``passed`` and ``ahead`` as in `Homecoming`, filled on the way."""

    facts: HomeFacts
    passed: dict[TopicPartition, int] = field(default_factory=dict)
    ahead: dict[TopicPartition, int] = field(default_factory=dict)

    def group(self, group: GroupFacts) -> GroupPlan:
        if group.problem:
            return undescribed_group(group, Direction.REVERSE)
        verdicts = [self._verdict(group, place, commit) for place, commit in group.commits.items()]
        if not verdicts:
            verdicts = [OffsetVerdict(group.group, None, None, refusal=Reason.NO_COMMIT)]
        verdicts.sort(key=lambda verdict: (verdict.source or ("", 0), verdict.target or ("", 0)))
        return GroupPlan(
            *(group.group, Direction.REVERSE, tuple(verdicts)),
            kind=group.here.kind,
            renamed=group.target_group,
        )

    def _verdict(self, group: GroupFacts, place: TopicPartition, commit: Commit) -> OffsetVerdict:
        mirrored, born = self.facts.mirrored.get(place), self.facts.born.get(place)
        if mirrored is not None and (mirrored.map or mirrored.synced or self.facts.one_name):
            home = mirrored.source
            answer = self._behind_the_tail(mirrored, group, commit)
        elif born is not None:
            home = born.target
            found, _ = answer_of(born, commit, _FORWARD)  # created on the target: by the reverse flow alone
            assert not isinstance(found, Skipping)
            answer = found
        else:
            return OffsetVerdict(group.group, None, place, commit, refusal=Reason.NOT_MIRRORED)
        before = group.before.get(home)
        if not isinstance(answer, Refused) and before is not None and before.offset > answer.offset:
            answer = Exact(before.offset)
        led = given_again(answer, commit)
        assert not isinstance(led, Skipping)
        refusal = answer.reason if isinstance(answer, Refused) else None
        by_mm2 = mirrored is not None and mirrored.map is None and mirrored.synced is not None
        if refusal is None and not group.can_be_written:
            refusal = Reason.ACTIVE_ON_TARGET
        return OffsetVerdict(
            group.group,
            home,
            place,
            commit,
            answer=None if isinstance(led, Refused) else led,
            refusal=refusal,
            blocks=refusal is not None,
            before=before,
            knowledge=Knowledge.OFFSET_SYNCS if by_mm2 else Knowledge.OFFSET_RUNS,
            same_offsets=mirrored is not None and mirrored.same_offsets,
        )

    def _behind_the_tail(self, known: PartitionFacts, group: GroupFacts, commit: Commit) -> Answer:
        place, away, home = known.source, known.target_log, known.source_log
        tail, offset = self.facts.tails.get(place), DownstreamOffset(commit.offset)
        if away is UNKNOWN or home is UNKNOWN or tail is None:
            return Refused(Reason.PARTITION_MISSING)
        if self.facts.one_name:
            found = go_home_in_pair(known.map, known.back, tail, offset, away=away, home=home)
        elif known.map is None:
            found = go_home_by_syncs(known.synced, tail, offset, away=away, home=home)
        else:
            found = go_home(known.map, tail, offset, away=away, home=home)
        if isinstance(found, Refused):
            return found
        before = group.before.get(place)
        is_further = before is not None and before.offset >= found.answer.offset
        if place.topic not in self.facts.held and found.answer.offset > tail.start and not is_further:
            return Refused(Reason.BEYOND_MIRROR)
        self.passed[place] = max(self.passed.get(place, 0), found.diverged_records)
        self.ahead[place] = max(self.ahead.get(place, 0), found.diverged_ahead)
        return found.answer
