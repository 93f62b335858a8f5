"""``failover planned``: stopped groups continue on the target exactly where they stopped on the source.

The operator has stopped the source's consumers. The flow is drained to the source's end offsets as they were after the
groups had stopped, so every record that a group could have read is on the target, and each commit has an exact answer.
Without a fence producers may go on writing; with one, the source's logs have ended permanently.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from mmtool.errors import GateError
from mmtool.failover.commits.group_configs import bring_configs_of
from mmtool.failover.fence.promotion import AclsAsked
from mmtool.failover.fence.steps import FenceAsked, FenceSteps, came_since, refuse_late_records
from mmtool.failover.modes.cutover import Cutover, Ended, OperationContext
from mmtool.failover.modes.drain import (
    drain_all,
    look_for_added,
    prove,
    refuse_added,
    refuse_missing,
    state_end_guards,
)
from mmtool.failover.modes.rehearsal import (
    Rehearsal,
    SavableRehearsal,
    names_of,
    new_operation_id,
    refuse,
    refuse_changed_names,
    select,
)
from mmtool.failover.modes.steps import run_steps
from mmtool.failover.operation.hooks import of_flow
from mmtool.failover.operation.operation import Operation
from mmtool.failover.operation.records import Recorded
from mmtool.failover.operation.states import OperationState
from mmtool.failover.report.plan_file import seen_of_flow
from mmtool.failover.report.rows import reread_of
from mmtool.insight.applications import app_state, as_groups
from mmtool.insight.flow_now import FlowNow
from mmtool.insight.flow_progress import log_ends, short_of
from mmtool.insight.group_lookup import readers_of
from mmtool.insight.partitions import partition_facts, standstill
from mmtool.insight.translation import (
    look_again,
    metadata_warnings,
    plan_groups,
    plans_by,
    read_groups,
    refined_plans,
    selection_warnings,
    topics_of,
)
from mmtool.plan.failover.acl_promotion import NO_PROMOTION
from mmtool.plan.failover.failover_plan import (
    active_guards,
    blocking_guards,
    drain_goal,
    moved_meanwhile,
    plan_planned,
)
from mmtool.plan.failover.fence_plan import NO_FENCE, topics_to_fence
from mmtool.plan.failover.risks import Guard
from mmtool.plan.failover.steps import Mode, StepName
from mmtool.plan.groups.applications import state_warnings, with_lost_state
from mmtool.plan.groups.facts import GroupFacts, GroupKind, GroupSelection, dependencies
from mmtool.plan.groups.offsets import Direction, GroupPlan, PartitionFacts, Rules, unknown_groups
from mmtool.plan.records.marks import MovedGroupRecord
from mmtool.plan.words import at_most, few
from mmtool.translation.types import UNKNOWN, TopicPartition, UpstreamOffset

_RULES = Rules(Direction.FORWARD)


@dataclass(frozen=True, slots=True)
class PlannedRehearsal(SavableRehearsal):
    """A planned failover's rehearsal, with the flow's connections, and those to a fence where one is requested.

    Attributes:
        already: Selected groups that an earlier planned failover has moved, with that operation: they are left out.
    """

    flow: FlowNow = field(kw_only=True)
    asked: FenceAsked | None = field(default=None, kw_only=True)
    already: Mapping[str, Recorded] = field(default_factory=dict, kw_only=True)


def rehearse(
    flow: FlowNow,
    selection: GroupSelection,
    *,
    operation_id: str | None = None,
    fence: FenceAsked | None = None,
    without_state: bool = False,
    acls: AclsAsked | None = None,
    recorded: Callable[[], Iterable[Recorded]] = tuple,
) -> PlannedRehearsal:
    """Plan a planned failover of the selected groups, from the current answers of both clusters; change nothing.

    Args:
        flow: The flow, as both clusters show it.
        selection: The selected groups.
        operation_id: The id of a resumed or saved operation; None for a new one.
        fence: The requested fence with its connections; None without one.
        without_state: Kafka Streams applications move although their state does not.
        acls: The requested promotion of producers' ACLs with its connections; None without one.
        recorded: Reads the flow's operations from the journal; none for an operation that is resumed.

    Raises:
        RefusedError: No group is selected, mirrored topics would get other names, or stored state cannot be read.
        UnreachableError, NotAuthorisedError: A cluster does not answer, or denies a part.
    """
    selected = select(flow, selection, Direction.FORWARD, "move")
    groups = read_groups(flow, selected.known, Direction.FORWARD)
    control, needs = flow.clusters.state.control(flow.identity), (fence is not None, acls is not None)
    already = dict(_moved_already(control.moved, groups, flow.topics, recorded, needs))
    groups = [group for group in groups if group.group not in already]
    refuse_changed_names(flow.clusters.settings, control, topics_of(groups))
    unknown = unknown_groups(selected.unknown, Direction.FORWARD, flow.sides(Direction.FORWARD))
    plans = [*plan_groups(flow, groups, _RULES), *unknown]
    settings, identity = flow.clusters.settings, flow.identity
    topics, names = topics_to_fence(groups, flow.topics), names_of(settings)
    fenced = NO_FENCE if fence is None else fence.plan(topics)
    promotion = NO_PROMOTION if acls is None else acls.plan(topics, names)
    known = [group.group for group in groups]
    state = app_state(flow, known, without=without_state)
    plan = plan_planned(operation_id or new_operation_id(), names, groups, plans, fenced, state, promotion)
    plan = of_flow(plan, settings)
    warnings = (
        *selection_warnings(selected),
        *metadata_warnings(flow, groups, Direction.FORWARD),
        *state_warnings(state, names.target),
        *_idle_warnings(flow, groups),
        *standstill(flow, plans),
        *(dependencies(selection.unit, readers_of(flow), known, names) if selection.unit is not None else ()),
        *(
            f"{name} is left out: operation {by.operation_id} has already moved it"
            for name, by in already.items()
        ),
        *(str(told) for told in fenced.rules.warnings),
        *promotion.warned,
    )
    ids, seen = (identity.source_id, identity.target_id), seen_of_flow(flow, groups, plans)
    rehearsal = PlannedRehearsal(settings, *ids, plan, warnings, state=state, flow=flow, seen=seen, acls=acls)
    return replace(rehearsal, asked=fence, already=already)


def _moved_already(
    moved: Mapping[str, MovedGroupRecord],
    groups: Iterable[GroupFacts],
    topics: Collection[str],
    recorded: Callable[[], Iterable[Recorded]],
    needs: tuple[bool, bool],
) -> Iterator[tuple[str, Recorded]]:
    """Groups that a planned failover has moved and that have not run on the source since, each with that operation.

    Args:
        moved: The marks of moved groups.
        groups: The groups.
        topics: The flow's topics.
        recorded: Reads the flow's operations from the journal.
        needs: The operation must have a fence, and a promotion of ACLs, where these are requested now.
    """
    marked = [group for group in groups if group.group in moved and group.here.idle]
    found = {one.operation_id: one for one in recorded()} if marked else {}
    for group in marked:
        one = found.get(moved[group.group].operation_id)
        if one is None or one.mode is not Mode.PLANNED or one.state is not OperationState.COMPLETED:
            continue
        if any(
            need and not has
            for need, has in zip(needs, (one.fence_stands, one.promotion_stands), strict=True)
        ):
            continue
        plans = [plan for plan in one.operation.plan.groups if plan.group == group.group]
        before = {
            verdict.source: verdict.commit.offset
            for plan in plans
            for verdict in plan.verdicts
            if verdict.source is not None and verdict.commit is not None
        }
        now = {place: commit.offset for place, commit in group.commits.items() if place.topic in topics}
        if now and now.items() <= before.items():
            yield group.group, one


def _idle_warnings(flow: FlowNow, groups: Iterable[GroupFacts]) -> list[str]:
    """A warning about selected groups without commits on the flow's topics; empty if there are none."""
    asked = [g for g in groups if not g.problem]
    idle = [g.group for g in asked if not {place.topic for place in g.commits} & flow.topics.keys()]
    name = flow.clusters.settings.name
    return [f"nothing to move for {few(idle)}: no committed offset on a topic of {name}"] if idle else []


def execute(rehearsal: PlannedRehearsal, context: OperationContext) -> Ended:
    """Execute a rehearsed planned failover, whose plan can be executed.

    Raises:
        MmtoolError: The start could not be recorded; nothing was done.
    """
    plan, asked, cutover = rehearsal.plan, rehearsal.asked, Cutover.of(context, rehearsal.plan)
    committed = rehearsal.settings.reads_committed
    fence = None if asked is None else FenceSteps(plan, asked, context, committed)
    steps = PlannedSteps(rehearsal, rehearsal.flow, cutover, fence)
    preparations = () if fence is None else (fence,)
    ended = run_steps(Operation(plan, context.since), cutover, steps.actions(), rehearsal.acls, preparations)
    return Ended(rehearsal, ended, cutover)


@dataclass(slots=True)
class PlannedSteps:
    """What each step does, and what it leaves for the next; the flow is read again until its drain ends."""

    rehearsal: Rehearsal
    flow: FlowNow
    cutover: Cutover
    fence: FenceSteps | None = None
    groups: list[GroupFacts] = field(default_factory=list)
    until: Mapping[TopicPartition, UpstreamOffset] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, PartitionFacts] = field(default_factory=dict)

    def actions(self) -> dict[StepName, Callable[[], None]]:
        fencing: dict[StepName, Callable[[], None]] = {}
        if self.fence is not None:
            fencing = {StepName.TRANSACTIONS: self.fence.await_transactions, StepName.ENDS: self.fence.watch}
        return {
            StepName.CHECK: self.check,
            **fencing,
            StepName.DRAIN: self.drain,
            StepName.TRANSLATE: self.translate,
            StepName.PROVE: self.prove,
            StepName.VALIDATE: self.validate,
            StepName.STOP_MIRROR: lambda: None,  # the hook does it
            StepName.WRITE: self.write,
            StepName.READ_BACK: self.cutover.read_back,
            StepName.HAND_OVER: self.cutover.hand_over,
            StepName.REPORT: self.report,
        }

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the groups read, and their state topics, on the source."""
        return topics_of(self.groups) | set(self.rehearsal.plan.state)

    def check(self) -> None:
        """Check that the groups have no members and no other operation is open; then read the flow again."""
        self.cutover.context.lock.join()
        if self.cutover.context.journal.open_others(self.cutover.groups):
            self.cutover.alone()  # only then: it waits for the lock
        self.groups = self._read()
        refuse(active_guards(self.groups, self.rehearsal.names))
        self.flow, _ = look_for_added(self.flow, self.topics, self.cutover.context)
        if self.fence is not None:
            self.cutover.alone()
            left = set(topics_to_fence(self.groups, self.flow.topics)).difference(self.fence.fence.topics)
            by_now = "the fence does not cover {}: the groups have committed offsets in it since the fence was planned"
            again = (
                "run the same command again: it plans the fence for this topic as well; nothing was changed"
            )
            refuse(Guard("source_commits_moved", by_now.format(topic), again) for topic in sorted(left))
            self.fence.places = self._fenced(self.flow)

    def _fenced(self, flow: FlowNow) -> tuple[TopicPartition, ...]:
        return tuple(place for place in flow.partitions if place.topic in self.rehearsal.plan.fence.topics)

    def drain(self) -> None:
        self.flow, self.until = drain_all(self.flow, self.goal, self.topics, self.cutover.context)

    def goal(self, flow: FlowNow) -> Mapping[TopicPartition, UpstreamOffset]:
        """The source's log ends; with a fence those that stopped moving, also in partitions that were added since."""
        ends: Mapping[TopicPartition, int] = {}
        if self.fence is not None:
            if self.fence.places != (places := self._fenced(flow)):
                self.fence.places = places
                self.fence.watch()
            ends = self.fence.fence.ends
        logs = log_ends(flow, self.topics)
        stopped = {at: replace(logs[at], log_end=UpstreamOffset(end)) for at, end in ends.items()}
        return drain_goal(self.groups, logs | stopped)

    def translate(self) -> None:
        """Translate the commits once the mirror holds every record up to the end offsets; raise if it does not."""
        missing = short_of(self.flow, self.until)
        self.cutover.figures = replace(self.cutover.figures, rpo_records=missing)
        refuse_missing(self.rehearsal.settings, missing, "when the groups had stopped")
        plans = self.translate_commits()
        self.cutover.plans = tuple(with_lost_state(plan, self.rehearsal.state) for plan in plans)
        reread = reread_of(plans)
        self.cutover.figures = replace(self.cutover.figures, reread_records=reread)
        # what a share group has acknowledged behind its position is given to it again with any fence
        uncertain = reread_of(plan for plan in plans if plan.kind is not GroupKind.SHARE)
        if self.fence is not None and uncertain != 0:
            bound = UNKNOWN if uncertain is None else uncertain
            raise GateError(
                f"groups would read {at_most(bound, 'record')} again, and a failover with a fence allows none;"
                " no closer offset can be derived from the stored state or from a comparison of the records; no offset"
                " was committed",
                remedy="to accept these re-reads, run the command again with --fence none; without --execute, it shows"
                " reread_max for each partition",
            )

    def translate_commits(self) -> list[GroupPlan]:
        """Translate the groups' commits by the mirror as it is now."""
        partitions = partition_facts(self.flow, _RULES.direction, topics=self.topics, complete=True)
        self.partitions, plans = refined_plans(self.flow, self.groups, partitions, _RULES, [])
        return plans

    def prove(self) -> None:
        """Prove that each group's next record, and each state topic's last, is the same on both clusters."""
        readers = as_groups(self.until, self.rehearsal.plan.state)
        ends = plans_by(self.flow, readers, self.partitions, _RULES)
        refuse(state_end_guards(ends, self.partitions, self.flow.clusters.settings))
        prove(self.flow, [*self.cutover.plans, *ends], self.partitions)

    def validate(self) -> None:
        """Check that every offset can be written, and that the groups have no members and unchanged commits."""
        refuse(blocking_guards(self.cutover.plans, after_drain=True))
        now = self._read()
        refuse(active_guards(now, self.rehearsal.names))
        refuse(moved_meanwhile(self.groups, now, self.rehearsal.names.source))
        self.cutover.validate()

    def write(self) -> None:
        refuse_added(self.flow, self.topics, self.cutover.context)
        bring_configs_of(self.cutover.plans, self.flow.clusters.source, self.flow.clusters.target)
        self.cutover.write()

    def report(self) -> None:
        """Count what came to the source since; raise if a record came in spite of a fence."""
        if self.fence is not None:
            came = came_since(self.fence.fence, self.fence.source)
            self.cutover.figures = replace(self.cutover.figures, diverged_records=sum(came.values()))
            refuse_late_records(self.rehearsal.plan, self.rehearsal.names, came)
            return
        now = look_again(self.flow)
        ends = {place: log.log_end for place, log in log_ends(now, self.topics).items()}
        self.cutover.figures = replace(self.cutover.figures, diverged_records=short_of(now, ends))

    def _read(self) -> list[GroupFacts]:
        names = [plan.group for plan in self.rehearsal.plan.groups]
        return read_groups(self.flow, names, Direction.FORWARD, stable=True)
