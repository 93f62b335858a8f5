"""``failover emergency``: the source is lost, and groups continue on the target from what the target knows.

No request is sent to the source. Its topics are marked first, so that a mirror that is still running, or starts again
with the source, does not add records behind the groups' offsets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from mmtool.errors import RefusedError
from mmtool.failover.fence.promotion import AclsAsked
from mmtool.failover.modes.cutover import Cutover, Ended, OperationContext
from mmtool.failover.modes.rehearsal import (
    SavableRehearsal,
    names_of,
    new_operation_id,
    refuse,
    refuse_changed_names,
)
from mmtool.failover.modes.steps import run_steps
from mmtool.failover.operation.hooks import of_flow
from mmtool.failover.operation.marks import Marking
from mmtool.failover.operation.operation import Operation
from mmtool.failover.report.plan_file import seen_of_target
from mmtool.insight.applications import app_state_on_target
from mmtool.insight.group_names import refuse_names, refused_names
from mmtool.insight.target_only import (
    TargetNow,
    TargetSide,
    identity_on_target,
    look_at_target,
    removed_groups,
)
from mmtool.plan.failover.acl_promotion import NO_PROMOTION
from mmtool.plan.failover.choices import Unknowns
from mmtool.plan.failover.emergency import costs_of, loss_told, may_lose, plan_emergency, told_before
from mmtool.plan.failover.failover_plan import FailoverPlan, active_guards
from mmtool.plan.failover.fence_plan import topics_to_fence
from mmtool.plan.failover.half_transactions import told_by_target, transactions_on_target
from mmtool.plan.failover.risks import state_lags
from mmtool.plan.failover.steps import StepName, topics_of
from mmtool.plan.groups.applications import AppState, state_warnings
from mmtool.plan.groups.facts import GroupFacts, GroupSelection, dependencies, only_of_kind
from mmtool.plan.groups.outside_offsets import copied_metadata_warnings, sink_warnings
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.plan.words import Names, joined
from mmtool.replication.ownership.checks import changed_names, renamed_to
from mmtool.translation.answers import Reason
from mmtool.translation.types import or_none


@dataclass(frozen=True, slots=True)
class EmergencyRehearsal(SavableRehearsal):
    """An emergency's rehearsal, with the connection to read the target again.

    Attributes:
        unknowns: Start position in partitions where the group's offset is unknown.
        accepts_loss: Whether the operator has accepted that records or state may be lost.
    """

    side: TargetSide = field(kw_only=True)
    unknowns: Unknowns = field(kw_only=True)
    accepts_loss: bool = field(kw_only=True)

    @property
    def at_risk(self) -> bool:
        """Whether records or state may be lost, so that the operator has to accept that."""
        return self.moves and may_lose(self.plan)

    def loss_refused(self, told: str) -> RefusedError:
        """The error of a loss that nobody has accepted; ``told`` says what is lost, and what was not changed."""
        source = self.names.source
        return RefusedError(
            told,
            remedy=f"if {source} is lost, add --accept-data-loss; if {source} answers again, `mmtool failover planned"
            " -c FILE` with the same groups loses no record",
            code="data_loss",
        )


def rehearse(
    side: TargetSide,
    selection: GroupSelection,
    unknowns: Unknowns = Unknowns.LEAVE,
    *,
    operation_id: str | None = None,
    without_state: bool = False,
    acls: AclsAsked | None = None,
    accepts_loss: bool = True,
) -> EmergencyRehearsal:
    """Plan an emergency failover of the selected groups, from the target's answers alone; change nothing.

    Only a promotion of producers' ACLs asks the source: for its ACLs.

    Args:
        side: The connections to the flow's target.
        selection: The selected groups.
        unknowns: Start position in partitions where a group's offset is unknown.
        operation_id: The id of a resumed or saved operation; None for a new one.
        without_state: Kafka Streams applications move although their state does not.
        acls: The requested promotion of producers' ACLs with its connections; None without one.
        accepts_loss: Whether the operator has accepted that records or state may be lost.

    Raises:
        RefusedError: No group is selected, mirrored topics would get other names, or stored state cannot be read.
        UnreachableError, NotAuthorisedError: The target does not answer, or denies a part.
    """
    now = look_at_target(side, selection, int(time.time() * 1000))
    marks = now.control.failed_over
    own = {topic for topic, mark in marks.items() if mark.operation_id == operation_id}
    refuse_changed_names(side.settings, now.control, own)  # an emergency finds commits by the mirrors' names
    if not now.facts.groups and not now.facts.unknown and now.facts.partitions:
        raise _without_checkpoint(now)
    moving = [group.group for group in now.facts.groups]
    refuse_names(side.names, refused_names(side.names, side.target, moving, now.read_by))
    names = names_of(side.settings)
    state = app_state_on_target(now, without=without_state)
    lags = tuple(state_lags(state, now.facts))
    topics = topics_to_fence(now.facts.groups, {place.topic for place in now.facts.partitions})
    promotion = NO_PROMOTION if acls is None else acls.plan(topics, names)
    plan = plan_emergency(operation_id or new_operation_id(), names, now.facts, unknowns, state, promotion)
    plan = of_flow(replace(plan, lags=lags), side.settings)
    warnings = tuple(_warnings(now, plan, state, names))
    if selection.unit is not None:
        warnings = (*warnings, *dependencies(selection.unit, now.read_by, moving, names))
    return EmergencyRehearsal(
        side.settings,
        now.source_id,
        now.target_id,
        plan,
        warnings,
        side=side,
        unknowns=unknowns,
        accepts_loss=accepts_loss,
        state=state,
        seen=seen_of_target(now, plan.groups),
        acls=acls,
    )


def _without_checkpoint(now: TargetNow) -> RefusedError:
    alias = now.side.target.alias
    if now.left_behind:
        left = removed_groups(now.left_behind, now.side.settings.source.alias)
        return RefusedError("no group matches", remedy=joined(*left), code=Reason.UNKNOWN_GROUP)
    return RefusedError(
        f"no group matches: {alias} has no checkpoint of a selected group",
        remedy="check -g and --groups, and the keys groups and groups.exclude of the properties file; a group"
        f" without a checkpoint on {alias} cannot move in an emergency: its consumers start at its commit on"
        f" {alias}, or without one at auto.offset.reset",
    )


def _warnings(now: TargetNow, plan: FailoverPlan, state: AppState, names: Names) -> Iterator[str]:
    yield from now.warnings
    settings, positions = now.side.settings, now.control.positions.values()
    for topic, remote in changed_names(settings, positions).items():
        yield (
            f"{renamed_to(settings, topic, remote)}: an emergency failover finds no commits of {topic} by that name;"
            f" if a group that you move reads {topic}, first undo the change of names in the properties file"
        )
    yield from copied_metadata_warnings(now.facts.groups, names.source, names.target)
    yield from sink_warnings((group.group for group in now.facts.groups), names.source, names.target)
    yield from state_warnings(state, names.target)
    yield from (lag.sentence(names) for lag in plan.lags)
    yield from plan.promotion.warned
    yield from told_before(plan, now.facts)
    transactions = transactions_on_target(
        now.facts, {place.topic for group in now.facts.groups for place in group.commits}
    )
    if transactions.topics:  # those in the groups' topics may be incomplete on the target
        yield told_by_target(transactions, names)


def execute(rehearsal: EmergencyRehearsal, context: OperationContext) -> Ended:
    """Execute a rehearsed emergency failover.

    Raises:
        MmtoolError: The start could not be recorded; nothing was done.
    """
    plan, cutover = rehearsal.plan, Cutover.of(context, rehearsal.plan)
    steps = EmergencySteps(rehearsal, cutover)
    marking = Marking(cutover, steps.marks, sorted({*topics_of(plan.groups), *plan.state}))
    operation = Operation(plan, context.since)
    ended = run_steps(operation, cutover, steps.actions(), rehearsal.acls, (marking,))
    return Ended(rehearsal, ended, cutover)


@dataclass(slots=True)
class EmergencySteps:
    """The action of each step, and its results for the next ones."""

    rehearsal: EmergencyRehearsal
    cutover: Cutover

    def actions(self) -> dict[StepName, Callable[[], None]]:
        return {
            StepName.CHECK: self.check,
            StepName.TRANSLATE: self.translate,
            StepName.VALIDATE: self.cutover.validate,
            StepName.STOP_MIRROR: lambda: None,  # the hook does it
            StepName.WRITE: self.cutover.write,
            StepName.READ_BACK: self.cutover.read_back,
            StepName.HAND_OVER: self.cutover.hand_over,
            StepName.REPORT: lambda: None,  # every result is known, and the source cannot be asked
        }

    def check(self) -> None:
        """Check that the groups have no members on the target, and that no other operation is open on them."""
        context = self.cutover.context
        context.lock.join()
        kinds = {plan.group: plan.kind for plan in self.rehearsal.plan.groups}
        now = self.rehearsal.side.target.groups.describe_each(list(kinds))
        if not now:
            now.complete()
        renamed = self.rehearsal.side.names.renamed
        facts = (
            GroupFacts(name, {}, here=only_of_kind(kinds[name]), there=now[name], target_group=renamed(name))
            for name in now
        )
        refuse(active_guards(facts, self.rehearsal.names))
        self.cutover.giving_way()

    def marks(self) -> Mapping[str, FailedOverRecord]:
        """The marks in force, by topic."""
        _, control = identity_on_target(self.rehearsal.side)
        return control.failed_over

    def translate(self) -> None:
        """Translate once more after the topics are marked: a flow that still runs may have mirrored more until then.

        Raises:
            RefusedError: Records may be lost, which the rehearsal did not say, and nobody has accepted.
        """
        rehearsal, chosen = self.rehearsal, GroupSelection(self.cutover.groups)
        facts = look_at_target(rehearsal.side, chosen, self.cutover.context.clock.now_ms()).facts
        plan = plan_emergency(
            rehearsal.plan.operation_id, rehearsal.names, facts, rehearsal.unknowns, rehearsal.state
        )
        refuse(plan.guards)
        costs = costs_of(plan)
        if costs.lost.is_possible and not rehearsal.accepts_loss:
            lost = loss_told(plan, costs, facts)
            raise rehearsal.loss_refused(f"{lost}; no offset was committed")
        self.cutover.plans, self.cutover.risks = plan.groups, plan.risks
        self.cutover.figures = replace(
            self.cutover.figures, rpo_records=or_none(costs.lost.most), reread_records=or_none(costs.reread)
        )
