"""``failover drill``: a planned failover of copies of the groups, beside production, with its cost measured.

A copy (shadow) has the commits that its group had when the drill read them. It is committed, read back, read from and
deleted on the target; the group itself may be running meanwhile, and nothing is written for it anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from mmtool.errors import CheckFailedError, GateError
from mmtool.failover.modes.cutover import Cutover, Ended, OperationContext
from mmtool.failover.modes.drain import compare_again, look_for_added, refuse_missing
from mmtool.failover.modes.emergency import rehearse as rehearse_emergency
from mmtool.failover.modes.planned_mode import PlannedSteps
from mmtool.failover.modes.rehearsal import (
    Rehearsal,
    names_of,
    new_operation_id,
    refuse,
    refuse_changed_names,
    select,
)
from mmtool.failover.operation import operation
from mmtool.failover.report.operation_row import OperationRow, ended_row
from mmtool.failover.report.rows import Row, reread_of
from mmtool.insight.applications import app_state
from mmtool.insight.flow_now import FlowNow
from mmtool.insight.flow_progress import short_of
from mmtool.insight.group_lookup import remedy_of
from mmtool.insight.partitions import standstill
from mmtool.insight.target_only import TargetSide
from mmtool.insight.translation import (
    metadata_warnings,
    plan_groups,
    read_groups,
    selection_warnings,
    topics_of,
)
from mmtool.kafka.ports import LogPart
from mmtool.output import warn
from mmtool.plan.failover.drill import Limits, failing, missed, plan_drill, shadow_of, shadowed, shown_by
from mmtool.plan.failover.emergency import Costs, costs_of
from mmtool.plan.failover.failover_plan import name_guards
from mmtool.plan.failover.steps import StepName
from mmtool.plan.groups.applications import state_warnings, with_lost_state
from mmtool.plan.groups.facts import ABSENT, OWN_GROUP_PREFIX, GroupFacts, GroupSelection, only_of_kind
from mmtool.plan.groups.offsets import Direction, Rules, unknown_groups
from mmtool.plan.words import counted, then
from mmtool.translation.types import UNKNOWN, or_none

_RULES = Rules(Direction.FORWARD)
_FIRST = 10
"""Records that are read from each committed offset on, on both clusters."""


@dataclass(frozen=True, slots=True)
class DrillRehearsal(Rehearsal):
    """A drill's rehearsal, with the flow's connections."""

    flow: FlowNow = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Drilled(Ended):
    """The additional measurements of a drill.

    Attributes:
        lag_before: Offsets by which the mirror was behind when the drill began: what an emergency would have lost then.
        records_read: How many records were read behind the committed offsets, and were the same on both sides.
    """

    lag_before: int = field(kw_only=True)
    records_read: int = field(kw_only=True)


class NoLock:
    """An operation lock that locks nothing: a drill changes no real group and excludes no operation."""

    def begin(self) -> None:
        """Do nothing: there is no lock to request."""

    def join(self) -> None:
        """Do nothing: there is no lock to request."""

    def hold(self) -> None:
        """Return at once: no other operation can interfere with a drill."""

    def is_taken(self) -> bool:
        """Always False."""
        return False

    def leave(self) -> None:
        """Do nothing: there is no lock to release."""


def rehearse(flow: FlowNow, selection: GroupSelection, *, without_state: bool = False) -> DrillRehearsal:
    """Plan a drill: a planned failover of copies (shadows) of the selected groups; change nothing.

    ``without_state`` as in a planned failover.

    Raises:
        RefusedError: No group is selected, mirrored topics would get other names, or stored state cannot be read.
        UnreachableError, NotAuthorisedError: A cluster does not answer, or denies a part.
    """
    selected = select(flow, selection, Direction.FORWARD, "drill")
    operation_id = new_operation_id()
    groups = read_groups(flow, selected.known, Direction.FORWARD)
    control = flow.clusters.state.control(flow.identity)
    refuse_changed_names(flow.clusters.settings, control, topics_of(groups))
    shadows = _shadows(groups, operation_id)
    plans = plan_groups(flow, shadows, _RULES)
    sides = flow.sides(Direction.FORWARD)
    plans += unknown_groups(selected.unknown, Direction.FORWARD, sides)
    settings, identity = flow.clusters.settings, flow.identity
    state, names = app_state(flow, selected.known, without=without_state), names_of(settings)
    plan = plan_drill(operation_id, names, plans, groups, state)
    warnings = (
        *selection_warnings(selected),
        *metadata_warnings(flow, groups, Direction.FORWARD),
        *state_warnings(state, names.target),
        *standstill(flow, plans),
    )
    ids = identity.source_id, identity.target_id
    return DrillRehearsal(settings, *ids, plan, warnings, state=state, flow=flow)


def _shadows(groups: list[GroupFacts], operation_id: str) -> list[GroupFacts]:
    """Copies of the groups under the drill's names, with the groups' commits on the source and none on the target."""
    return [
        replace(
            group,
            group=shadow_of(group.group, operation_id),
            before={},
            here=only_of_kind(group.here.kind),
            there=ABSENT,
            target_group=None,
        )
        for group in groups
    ]


def execute(rehearsal: DrillRehearsal, context: OperationContext) -> Drilled:
    """Execute a rehearsed drill, and measure it; the shadows are deleted whatever the result.

    Raises:
        MmtoolError: The start could not be recorded; nothing was done.
    """
    cutover = Cutover.of(context, rehearsal.plan)
    steps = DrillSteps(rehearsal, rehearsal.flow, cutover)
    ended = operation.run(operation.Operation(rehearsal.plan), steps.actions(), context.log)
    if ended.error is not None and ended.point_of_no_return_passed:
        try:  # whatever a write that was cut off has told
            steps.clean_up()
        except CheckFailedError as left:  # the drill has an error already
            warn(f"{left.message}; {left.remedy}")
    return Drilled(rehearsal, ended, cutover, lag_before=steps.lag_before, records_read=steps.records_read)


@dataclass(slots=True)
class DrillSteps(PlannedSteps):
    """The steps of a planned failover, with shadows as its groups, and a drill's own."""

    lag_before: int = 0
    records_read: int = 0

    def actions(self) -> dict[StepName, Callable[[], None]]:
        return {
            StepName.CHECK: self.check,
            StepName.DRAIN: self.drain,
            StepName.TRANSLATE: self.translate,
            StepName.PROVE: self.prove,
            StepName.VALIDATE: self.cutover.validate,
            StepName.WRITE: self.cutover.write,
            StepName.READ_BACK: self.cutover.read_back,
            StepName.READ: self.read,
            StepName.CLEAN_UP: self.clean_up,
            StepName.REPORT: lambda: None,
        }

    def check(self) -> None:
        """Read the groups' current commits for the shadows, and the drain's end offsets; groups may be running."""
        names = tuple(
            shadowed(plan.group)
            for plan in self.rehearsal.plan.groups
            if plan.group.startswith(OWN_GROUP_PREFIX)
        )
        groups = read_groups(self.flow, names, Direction.FORWARD)
        refuse(name_guards(groups, self.rehearsal.names.target))
        self.groups = _shadows(groups, self.rehearsal.plan.operation_id)
        self.flow, _ = look_for_added(self.flow, self.topics, self.cutover.context)
        self.lag_before = short_of(self.flow, self.goal(self.flow))

    def translate(self) -> None:
        missing = short_of(self.flow, self.until)
        refuse_missing(self.rehearsal.settings, missing, "when the drill began", "run the drill again")
        plans, state = self.translate_commits(), self.rehearsal.state
        self.cutover.plans = tuple(with_lost_state(plan, state, shadowed(plan.group)) for plan in plans)
        self.cutover.figures = replace(
            self.cutover.figures, rpo_records=missing, reread_records=reread_of(self.cutover.plans)
        )

    def read(self) -> None:
        """Compare the first records from each committed offset on: the target's must be those of the source.

        Raises:
            CheckFailedError: A record differs.
        """
        parts = list(self._first_records())
        committed = self.flow.clusters.settings.reads_committed
        here = self.flow.clusters.source.records([part for part, _ in parts], committed=committed)
        there = self.flow.clusters.target.records([part for _, part in parts], committed=committed)
        for source, target in parts:
            pairs = list(zip(here[source], there[target], strict=False))
            if any(one.digest != other.digest for one, other in pairs):
                settings, names = self.rehearsal.settings, self.rehearsal.names
                raise CheckFailedError(
                    f"the records of {target.place} on {names.target} from offset {target.offsets.start} differ from"
                    f" those of {source.place} on {names.source} from offset {source.offsets.start}",
                    remedy=compare_again(settings, source.place, target.place, "run the drill again"),
                )
            self.records_read += len(pairs)

    def _first_records(self) -> Iterator[tuple[LogPart, LogPart]]:
        """Pairs of log sections from each committed offset on, on the source and on the target."""
        for plan in self.cutover.plans:
            wanted = plan.to_write()
            for verdict in plan.verdicts:
                if verdict.source is None or verdict.commit is None or verdict.target not in wanted:
                    continue
                facts = self.partitions[verdict.source]
                if facts.map is None or facts.target_log is UNKNOWN:
                    continue
                if facts.back is not None:  # records of both sides are among each other
                    continue
                about, frontier = facts.map.about, facts.map.upstream_frontier
                here, there = verdict.commit.offset, wanted[verdict.target].offset
                behind = range(there, max(there, facts.target_log.log_end))
                source = self.flow.clusters.part_of(facts.map, range(here, max(here, frontier)), _FIRST)
                if source is not None:
                    yield source, LogPart(facts.target, about.target_topic_id, behind, _FIRST)

    def clean_up(self) -> None:
        """Delete the shadow groups, not only their commits: an empty group would stay listed for minutes."""
        groups = self.cutover.context.destination.groups
        if left := groups.delete([plan.group for plan in self.cutover.plans]):
            (name, problem), alias = next(iter(left.items())), self.rehearsal.names.target
            denied = f"grant mmtool's principal DELETE on these groups of {alias}"
            todo = remedy_of((one.name for one in left.values()), alias, denied)
            rollback = f"`mmtool failover rollback {self.rehearsal.plan.operation_id} -c FILE --execute`"
            raise CheckFailedError(
                f"the copies of {counted(len(left), 'group')} could not be deleted on {alias}, for example {name}:"
                f" {problem}",
                remedy=f"{then(todo, f'run {rollback}')}, which deletes them",
            )


def emergency_now(side: TargetSide, selection: GroupSelection) -> Costs:
    """The loss and re-reads of an emergency failover at this moment, from what the target knows.

    Raises:
        RefusedError, UnreachableError, NotAuthorisedError: As `mmtool.failover.modes.emergency.rehearse`.
    """
    return costs_of(rehearse_emergency(side, selection).plan)


def gate(row: Row, limits: Limits) -> GateError | None:
    """The error of a drill that exceeded its limits; None if it met them.

    Args:
        row: The operation's row; a limit on a figure that was not measured is missed.
        limits: ``--max-rto`` and ``--max-reread``.
    """
    message = missed(row, limits)
    if not message:
        return None
    if row["state"] == "planned":
        return GateError(
            "nothing was measured: a rehearsal cannot show that the drill meets its limits",
            remedy="add --execute; without a terminal also --yes",
        )
    return GateError(
        f"the drill {failing(row, limits)}: {message}",
        remedy=shown_by(row, limits),
    )


def drilled_row(drilled: Drilled, emergency: Costs) -> OperationRow:
    """The row of a drill: an operation's row with the drill's additional measurements.

    Args:
        drilled: The drill, which has ended.
        emergency: The cost of an emergency failover, from what the target knew when the drill started.
    """
    age = or_none(emergency.oldest_seconds)
    return {
        **ended_row(drilled),
        "records_read": drilled.records_read,
        "lag_records_before": drilled.lag_before,
        "emergency_rpo_records": or_none(emergency.lost.most),
        "emergency_knowledge_age_seconds": None if age is None else round(age, 1),
    }
