"""A failover as data: frozen steps that are shown, confirmed, executed and reported, always the same.

Rehearsal and execution build this plan from the same facts by the same function; there is no other path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mmtool.plan.failover.acl_promotion import NO_PROMOTION, Promotion
from mmtool.plan.failover.choices import TO_FILE, Diverged, FenceKind, ToTopic
from mmtool.plan.failover.fence_plan import NO_FENCE, Fence
from mmtool.plan.failover.risks import Guard, Risk, StateLag
from mmtool.plan.failover.steps import (
    MOST_PROVEN,
    Mode,
    Step,
    acl_step,
    continued,
    order_of,
    text_of,
    topics_of,
)
from mmtool.plan.groups.applications import NO_STATE, AppState, with_lost_state
from mmtool.plan.groups.facts import GroupFacts, GroupStanding, make_room, occupied
from mmtool.plan.groups.offsets import GroupPlan, OffsetVerdict
from mmtool.plan.words import Names, counted, few
from mmtool.translation.answers import Reason, SourceLog
from mmtool.translation.types import TopicPartition, UpstreamOffset

KNOWN_AFTER_DRAIN = "known after drain"
"""The reason of a partition whose offset is unknown until the mirror has caught up."""

_SAID_OF_GROUPS = frozenset({Reason.ACTIVE_ON_TARGET, Reason.STATE_NOT_MIRRORED})
"""The reasons that a guard states once for a group, with its members or its topics."""

_CURED_BY_DRAIN = frozenset({Reason.NEVER_RAN, Reason.BEYOND_MIRROR, Reason.PARTITION_MISSING})


@dataclass(frozen=True, slots=True)
class FailoverPlan:
    """The steps and groups of one failover.

    Attributes:
        operation_id: The operation's id.
        names: The aliases of the flow's clusters.
        groups: Their offsets as far as they are known now.
        guards: What forbids it; an executable plan has none.
        released: Topics of the source that are mirrored again when a failback is done.
        marked: Those of them that other operations had marked as failed over, with their ids: a failback's rollback
            marks them again.
        risks: By group and partition of the source, the loss and the re-read records; empty where nothing is at risk.
        fence: How producers are kept off the source.
        diverged: Where a failback writes the diverged tail.
        state: Changelogs and repartition topics of Kafka Streams applications that move.
        lags: For an emergency, how far each of these topics is ahead of or behind its application's offsets.
        without_state: ``--without-state``: applications move although their state does not.
        held: For a failback, the source's topics that are not mirrored meanwhile.
        promotion: Producers' ACLs that are created on the target, or that a failback withdraws there.
        is_external: Another system keeps the mirrors.
        stops_mirror: A hook stops them.
        accepts_unverified: ``--accept-unverified``: offsets of mirrors that were not compared are used.
    """

    operation_id: str
    mode: Mode
    names: Names
    groups: tuple[GroupPlan, ...]
    steps: tuple[Step, ...] = ()
    guards: tuple[Guard, ...] = ()
    risks: Mapping[tuple[str, TopicPartition], Risk] = field(default_factory=dict)
    released: tuple[str, ...] = ()
    marked: Mapping[str, str] = field(default_factory=dict)
    fence: Fence = NO_FENCE
    diverged: Diverged = TO_FILE
    state: tuple[str, ...] = ()
    without_state: bool = False
    lags: tuple[StateLag, ...] = ()
    held: tuple[str, ...] = ()
    promotion: Promotion = NO_PROMOTION
    is_external: bool = False
    stops_mirror: bool = False
    accepts_unverified: bool = False

    @property
    def executable(self) -> bool:
        return not self.guards

    @property
    def flow(self) -> str:
        """The flow as an operator writes it: ``east->west``."""
        return self.names.flow

    @property
    def way(self) -> Names:
        """The cluster that groups leave as source, and the destination as target: a failback swaps the flow's."""
        names = self.names
        return Names(names.target, names.source) if self.mode is Mode.FAILBACK else names

    @property
    def topics(self) -> Sequence[str]:
        """The topics that the plan is about, by their names on the flow's source."""
        return self.held if self.mode is Mode.FAILBACK else sorted({*topics_of(self.groups), *self.state})

    @property
    def promotes(self) -> bool:
        """Whether producers go on with the mirrored topics on the target, because none reaches the source any more."""
        fenced = self.fence.kind is not FenceKind.NONE
        if self.is_external:
            return False
        return self.mode is Mode.EMERGENCY or (self.mode is Mode.PLANNED and fenced)

    @property
    def case(self) -> set[str]:
        """The words for what the plan is, which select variants of its steps' texts."""
        words = {
            str(self.mode): True,
            f"--fence {self.fence.kind}": True,
            "fenced": self.fence.asked_for,
            "no fenced topics": not self.fence.topics,
            "--diverged topic": isinstance(self.diverged, ToTopic),
            "no topics": not self.topics,
            "nothing released": not self.released,
            "state": self.state,
            "promoted": self.promotes and continued(self.groups),
        }
        return {word for word, holds in words.items() if holds}

    def with_steps(self) -> FailoverPlan:
        """The plan with its steps and their sentences, with the numbers that are known when it is planned."""
        acls, stops = self.promotion.is_asked_for, self.stops_mirror
        order = order_of(self.mode, self.fence.kind, changes_acls=acls, stops_mirror=stops)
        case, fields = self.case, self._fields
        steps = (
            Step(
                name,
                self.promotion.sentence(self.names)
                if name is acl_step(self.mode)
                else text_of(name, "does", case, fields),
            )
            for name in order
        )
        return replace(self, steps=tuple(steps))

    @property
    def _fields(self) -> dict[str, str]:
        """The values of the fields of the steps' sentences."""
        is_one, topics = len(self.groups) == 1, self.topics
        promoted = sorted({at.topic for at in continued(self.groups)}) if self.promotes else []
        offsets = sum(  # commits in partitions that have a counterpart on the other cluster
            None not in (verdict.commit, verdict.source, verdict.target)
            for plan in self.groups
            for verdict in plan.verdicts
        )
        return {
            "here": self.way.source,
            "there": self.way.target,
            "flow": self.flow,
            "groups": few([plan.group for plan in self.groups]) or "no group",
            "groups_them": "it" if is_one else "them",
            "are": "is" if is_one else "are",
            "have": "has" if is_one else "have",
            "read": "reads" if is_one else "read",
            "belong": "belongs" if is_one else "belong",
            "topics": few(topics),
            "topics_them": "it" if len(topics) == 1 else "them",
            "released": few(self.released),
            "state": few(self.state),
            "continued": few(promoted),
            "diverged_topic": self.diverged.topic if isinstance(self.diverged, ToTopic) else "",
            "committed": counted(offsets, "committed offset"),
            "known": counted(offsets, "offset"),
            "proven": "each exact offset"
            if offsets <= MOST_PROVEN
            else f"{MOST_PROVEN:,} of the exact offsets",
            "fenced": few(self.fence.topics),
            "rules": self.fence.rules.sentence,
            "seconds": f"{self.fence.watch_seconds:g} s",
        }

    @property
    def moves_producers(self) -> bool:
        """Whether producers move to the destination as well: in an emergency, or in a planned failover that says so."""
        named = self.fence.asked_for or self.promotion.is_asked_for
        return self.mode is Mode.EMERGENCY or (self.mode is Mode.PLANNED and named)


def plan_planned(
    operation_id: str,
    names: Names,
    groups: Iterable[GroupFacts],
    plans: Iterable[GroupPlan],
    fence: Fence = NO_FENCE,
    state: AppState = NO_STATE,
    promotion: Promotion = NO_PROMOTION,
) -> FailoverPlan:
    """Plan a planned failover of groups; ``plans`` are translated as far as the mirror reaches."""
    facts, found = tuple(groups), tuple(with_lost_state(plan, state) for plan in plans)
    guards = (
        *active_guards(facts, names),
        *state_guards(state, names.target),
        *blocking_guards(found, after_drain=False),
        *fence.rules.guards,
        *promotion.guards,
    )
    return FailoverPlan(
        operation_id,
        Mode.PLANNED,
        names,
        found,
        guards=guards,
        fence=fence,
        state=state.moved,
        without_state=state.without,
        promotion=promotion,
    ).with_steps()


def active_guards(groups: Iterable[GroupFacts], names: Names) -> tuple[Guard, ...]:
    """One guard for each group with members, on the source or on the target.

    On the source, its commits still change; on the target, its consumers would be moved. The groups are checked and not
    the verdicts, so that a lag of the mirror hides no group.
    """
    facts = tuple(groups)
    there = [group for group in facts if not group.can_be_written]
    return (
        *(
            _active("active_on_source", group.shown, names.source, group.here)
            for group in facts
            if not group.here.idle
        ),
        *(_active(Reason.ACTIVE_ON_TARGET, group.shown, names.target, group.there) for group in there),
    )


def state_guards(state: AppState, cluster: str) -> tuple[Guard, ...]:
    """One guard for each application that would start on ``cluster`` without its state, unless that is allowed."""
    return tuple(
        Guard(
            Reason.STATE_NOT_MIRRORED,
            f"group {group} is a Kafka Streams application, and its state is not on {cluster}: {state.why_lost(group)}",
            state.remedy(group, cluster),
        )
        for group in (() if state.without else state.losing)
    )


def name_guards(groups: Iterable[GroupFacts], cluster: str) -> tuple[Guard, ...]:
    """One guard for each group whose name belongs to a group of another kind on ``cluster``, the destination."""
    return tuple(
        _active(Reason.ACTIVE_ON_TARGET, group.group, cluster, group.there)
        for group in groups
        if not group.there.fits(group.here.kind)
    )


def _active(code: str, group: str, cluster: str, standing: GroupStanding) -> Guard:
    return Guard(code, occupied(group, cluster, standing), make_room(group, cluster, standing))


def blocking_guards(plans: Iterable[GroupPlan], *, after_drain: bool) -> tuple[Guard, ...]:
    """One guard for each verdict that blocks its group; before the drain, only those that no drain cures."""
    return tuple(
        Guard(verdict.refusal, f"group {plan.group}{f', {place}' if place else ''}: {plan.why(verdict)}")
        for plan in plans
        for verdict in plan.blocking
        for place in [verdict.source or verdict.target]
        if verdict.refusal is not None
        and verdict.refusal not in _SAID_OF_GROUPS
        and (after_drain or not drain_cures(verdict))
    )


def drain_cures(verdict: OffsetVerdict) -> bool:
    """Whether an offset is refused only because of the mirror's lag, and not because a cluster did not answer."""
    return verdict.blocks and verdict.refusal in _CURED_BY_DRAIN and not verdict.is_unasked


def moved_meanwhile(
    before: Iterable[GroupFacts], now: Iterable[GroupFacts], cluster: str
) -> tuple[Guard, ...]:
    """One guard for each group without members that committed between two reads: a client uses ``assign()``."""
    earlier = {group.group: group.commits for group in before}
    return tuple(
        Guard(
            "source_commits_moved",
            f"group {group.group} has no members on {cluster}, and its committed offsets still change",
        )
        for group in now
        if group.commits != earlier[group.group]
    )


def drain_goal(
    groups: Iterable[GroupFacts], logs: Mapping[TopicPartition, SourceLog]
) -> dict[TopicPartition, UpstreamOffset]:
    """The source offset up to which each partition must be mirrored: past every commit, and to the log's end.

    Mirroring to the end makes the loss zero, and not only the number of records that are read again. An empty partition
    without commits needs no mirror.

    Args:
        groups: The groups, read when their commits no longer changed.
        logs: The logs of every partition of their topics, read later; the end is the last stable offset under
            read_committed.
    """
    commits: dict[TopicPartition, int] = {}
    for group in groups:
        for place, commit in group.commits.items():
            commits[place] = max(commits.get(place, 0), commit.offset)
    return {
        place: UpstreamOffset(max(log.log_end, commits.get(place, 0)))
        for place, log in logs.items()
        if place in commits or log.log_end > log.log_start
    }
