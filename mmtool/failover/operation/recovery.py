"""Interrupted operations: roll them forward, cancel them, or roll them back, from the journal.

The table of `mmtool.failover.operation.states` decides which of these is possible, and the journal alone gives an
operation's state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, OwnedElsewhereError, PartlyAppliedError, RefusedError, UnreachableError
from mmtool.failover.commits.undo import look_at
from mmtool.failover.fence.promotion import undo as undo_acls
from mmtool.failover.fence.steps import FenceSteps, came_since, refuse_late_records
from mmtool.failover.modes.cutover import Cutover, ways_on
from mmtool.failover.modes.steps import PromotionStep, run_steps
from mmtool.failover.operation.marks import holders, lifted, refuse_half_way, release
from mmtool.failover.operation.operation import StepState
from mmtool.failover.operation.records import recorded
from mmtool.failover.operation.states import OperationState, Trigger, can
from mmtool.failover.report.rows import reread_of
from mmtool.output import warn
from mmtool.plan.failover.choices import REPLAYED
from mmtool.plan.failover.emergency import costs_of
from mmtool.plan.failover.steps import Mode, StepName, topics_of
from mmtool.plan.groups.undo import Undo
from mmtool.plan.records.marks import FailedOverRecord, MovedGroupRecord
from mmtool.plan.words import few, joined, then
from mmtool.translation.types import or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mmtool.failover.commits.undo import Undoing
    from mmtool.failover.fence.steps import FenceAsked
    from mmtool.failover.modes.cutover import OperationContext
    from mmtool.failover.modes.steps import Preparation
    from mmtool.failover.operation.journal import JournalPort
    from mmtool.failover.operation.marks import Holders
    from mmtool.failover.operation.operation import Operation
    from mmtool.failover.operation.records import Figures, Recorded
    from mmtool.kafka.ports import ClusterPort, FencePort, FlowStatePort, GroupsPort
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.plan.records.documents import Document
    from mmtool.plan.records.identity import FlowIdentity

_TAKEN_BACK = {OperationState.CANCELLED, OperationState.ROLLED_BACK}
_OVER = "nothing has to be done: the operation is already undone; to move its groups, start a new operation"
_COPIES_LEFT = (
    "`mmtool failover rollback {} -c FILE --execute` deletes copies of groups that this drill may have left"
)
_PAST = {Trigger.RESUME: "resumed", Trigger.CANCEL: "cancelled", Trigger.ROLL_BACK: "rolled back"}


def find(journal: JournalPort, operation_id: str) -> Recorded | None:
    """The operation with this id; None if the journal has none."""
    return next((one for one in recorded(journal.entries()) if one.operation_id == operation_id), None)


def require(found: Recorded, event: Trigger) -> None:
    """Raise if the state table does not allow an event for the operation; the remedy names an allowed command.

    Raises:
        RefusedError: The event is not allowed in the operation's state.
    """
    if found.may(event):
        return
    if can(found.head.standing, event) and found.head.plan.diverged == REPLAYED:
        cancel = (
            f"run `mmtool failover cancel {found.operation_id} -c FILE --execute`, then start the failback again with"
            " --diverged file or --diverged topic NAME"
        )
        raise RefusedError(
            f"operation {found.operation_id} has --diverged replay: this release of mmtool replays no diverged records",
            remedy=ways_on(found) if found.half_replayed else cancel,
            code="wrong_state",
        )
    if event is Trigger.RESUME and found.mode is Mode.DRILL:
        left = _COPIES_LEFT if found.may(Trigger.ROLL_BACK) else ""
        raise RefusedError(
            f"operation {found.operation_id} is a drill, and drills are not resumed",
            remedy=joined("run the drill again", left.format(found.operation_id)),
            code="wrong_state",
        )
    raise RefusedError(
        f"operation {found.operation_id} is {found.state}: it cannot be {_PAST[event]}",
        remedy=_OVER if found.state in _TAKEN_BACK else ways_on(found),
        code="wrong_state",
    )


def as_it_stands(found: Recorded, groups: GroupsPort) -> Recorded:
    """The operation with unknown write results filled in from the groups' current commits.

    Raises:
        UnreachableError, NotAuthorisedError: The cluster does not answer, or does not show the commits.
    """
    plans = [plan for plan in found.operation.plan.groups if plan.group not in found.written]
    if not found.operation.may_have_written or not plans:
        return found
    now = groups.commits([plan.group for plan in plans])
    stands = {
        plan.group: frozenset(
            place
            for place, commit in plan.to_write().items()
            if place in now[plan.group] and now[plan.group][place].offset >= commit.offset
        )
        for plan in plans
    }
    return replace(found, written={**found.written, **stands})


def roll_forward(
    found: Recorded,
    context: OperationContext,
    fence: FenceAsked | None = None,
    acls: FencePort | None = None,
) -> tuple[Operation, Cutover]:
    """Execute the remaining steps of an operation that was interrupted after its point of no return.

    No offset is translated again: the recorded offsets are written where they are missing. The source is used only for
    a fence: to check that no record came after it, and to lower it if nothing could be written.

    Args:
        found: The operation.
        context: The ports of the operation.
        fence: The connections to the fence that is still up; None if there is none.
        acls: The flow's target, where a change of producers' ACLs may be in force; None if there is none.

    Raises:
        MmtoolError: The resumption could not be recorded; nothing was done.
    """
    plan = found.operation.plan
    cutover = Cutover.of(context, plan)
    cutover.plans, cutover.risks, cutover.figures, cutover.resumed = (
        plan.groups,
        plan.risks,
        _figures(found),
        True,
    )
    actions: dict[StepName, Callable[[], None]] = {
        StepName.WRITE: cutover.write,
        StepName.READ_BACK: cutover.read_back,
        StepName.HAND_OVER: cutover.hand_over,
        StepName.RELEASE: lambda: release(context, plan.released),
        StepName.REPORT: lambda: _prove_fence(found, fence, cutover),
    }
    preparations: list[Preparation] = []
    if fence is not None:
        preparations.append(FenceSteps(plan, fence, context))
    if acls is not None:
        preparations.append(PromotionStep(plan, acls, cutover, may_stand=True))
    return run_steps(found.operation, cutover, actions, preparations=preparations), cutover


def _prove_fence(found: Recorded, asked: FenceAsked | None, cutover: Cutover) -> None:
    """Check that no record came after the fence's log ends; only warn if the source does not answer.

    If the report step has failed before, the operator knows of such records: then they are counted, not refused.
    """
    fence = found.head.plan.fence
    if asked is None or not fence.ends:
        return
    try:
        came = came_since(fence, asked.source)
    except UnreachableError as error:
        warn(
            f"mmtool does not know whether a producer wrote on {found.names.source} in spite of the fence:"
            f" {error.message}; when {found.names.source} answers, `mmtool verify -c FILE -s {found.names.source}"
            f" -t {found.names.target}` finds records that are not mirrored"
        )
        return
    cutover.figures = replace(cutover.figures, diverged_records=sum(came.values()))
    if found.operation.steps.get(StepName.REPORT) is not StepState.FAILED:
        refuse_late_records(found.head.plan, found.names, came)


def _figures(found: Recorded) -> Figures:
    """The recorded results, with missing ones computed from the recorded plan, as after a kill.

    Only an emergency can lose records: the other modes pass their point of no return only once the mirror is complete.
    """
    plan, said = found.operation.plan, found.figures
    costs = costs_of(plan)
    lost = or_none(costs.lost.most)
    rpo, again = (lost, or_none(costs.reread)) if plan.mode is Mode.EMERGENCY else (0, reread_of(plan.groups))
    return replace(
        said,
        rpo_records=rpo if said.rpo_records is None else said.rpo_records,
        reread_records=again if said.reread_records is None else said.reread_records,
    )


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """What cancelling or rolling back an operation would do.

    Attributes:
        marks: The operation's marks in the flow's control topic, which are removed.
        undoing: The groups whose offsets are restored; empty for an operation that wrote none.
        since: The last operation that has moved some of these groups after it.
    """

    found: Recorded
    event: Trigger
    marks: tuple[Document, ...]
    undoing: Undoing
    since: Recorded | None = None

    @property
    def refusal(self) -> RefusedError | None:
        """The error that forbids the undo: groups have members, have committed since, or were moved again later."""
        last, ours = self.since, set(self.found.group_names)
        if last is None:
            return self.undoing.refusal
        return RefusedError(
            f"operation {last.operation_id} ({last.mode}) by {last.by} moved"
            f" {few(sorted(ours & set(last.group_names)))} later, and must be rolled back first; nothing was changed",
            remedy=f"run `mmtool failover rollback {last.operation_id} -c FILE --execute`, then the same command again",
            code="moved_since",
        )

    @property
    def question(self) -> str:
        done = f"{self.event.replace('_', ' ')} operation {self.found.operation_id}"
        parts = [self.undoing.question] if self.undoing.writable else []
        if self.found.fence_stands:
            parts.append(f"lift the fence on {self.found.names.source}")
        if self.found.promotion_stands:
            promotion, target = self.found.head.plan.promotion, self.found.names.target
            how = "create again" if promotion.withdraws else "remove"
            parts.append(f"{how} the producers' ACLs on {target}")
        if not parts and not self.marks and self.event is Trigger.ROLL_BACK:
            parts = ["no offset has to be restored"]
        return f"{done}: {', and '.join(parts)}" if parts else done


def rehearse_taking_back(
    found: Recorded,
    event: Trigger,
    target: ClusterPort,
    state: FlowStatePort,
    identity: FlowIdentity,
    by: str,
    at_ms: int,
    *,
    others: Iterable[Recorded] = (),
) -> RollbackPlan:
    """Plan a cancel or rollback: the commits to restore and the marks to write; change nothing.

    Args:
        found: The operation.
        event: ``CANCEL`` or ``ROLL_BACK``.
        target: The operation's destination, where it wrote offsets.
        state: The flow's stored state on its target.
        identity: The flow.
        by: The operator, as ``user@host``.
        at_ms: Now, in ms since 1970.
        others: Operations on the same flow, in the order in which they started: topics that one of them needs stay
            marked, as that operation's.

    Raises:
        RefusedError: The event is not allowed in the operation's state, or as `refuse_half_way`.
        UnreachableError, NotAuthorisedError: The target does not answer, or denies a part.
    """
    require(found, event)
    plans = found.operation.plan.groups if event is Trigger.ROLL_BACK else ()
    undoing = look_at(target, Undo.of(target.probe(), plans))
    others = list(others)
    since = _moved_since(found, others) if event is Trigger.ROLL_BACK else None
    control = state.control(identity)
    if found.mode is Mode.FAILBACK and found.operation.point_of_no_return_passed:
        return RollbackPlan(found, event, _away_again(found, control, others, by, at_ms), undoing, since)
    marks = _left_behind(found, control, others, by, at_ms)
    topics = [mark.topic for mark in marks if isinstance(mark, FailedOverRecord) and not mark.failed_over]
    refuse_half_way(others, topics)
    return RollbackPlan(found, event, marks, undoing, since)


def _moved_since(found: Recorded, in_order: Sequence[Recorded]) -> Recorded | None:
    """The last operation that started later, moved some of the same groups and can be rolled back; None without one."""
    ours = set(found.group_names)
    for one in takewhile(lambda one: one.operation_id != found.operation_id, reversed(in_order)):
        if one.mode is not Mode.DRILL and one.may(Trigger.ROLL_BACK) and ours & set(one.group_names):
            return one
    return None


def _away_again(
    found: Recorded, control: ControlView, in_order: Sequence[Recorded], by: str, at_ms: int
) -> tuple[Document, ...]:
    """Marks to write when a failback is rolled back: its groups and topics are held as before it.

    A topic that the failback itself marked is mirrored again. Where the journal does not have the operation that moved
    a group, the failback's own name stands in the group's mark.
    """
    ours = found.operation_id
    held = holders(takewhile(lambda one: one.operation_id != ours, in_order), ours)
    failbacks = {one.operation_id for one in in_order if one.mode is Mode.FAILBACK}
    topics = {
        name: [*held.heirs(name), ours][0]
        for name, by_whom in found.head.plan.marked.items()
        if by_whom not in failbacks  # an interrupted one had marked topics for itself
    }
    own = {
        name: mark
        for name, mark in control.failed_over.items()
        if mark.operation_id == ours and name not in topics
    }
    return (
        *(FailedOverRecord(name, True, holder, by, at_ms) for name, holder in topics.items()),
        *lifted(own, in_order, ours, by, at_ms),
        *(_moved(name, held, ours, by, at_ms, otherwise=True) for name in found.group_names),
    )


def _moved(
    group: str, held: Holders, operation_id: str, by: str, at_ms: int, *, otherwise: bool = False
) -> MovedGroupRecord:
    """A group's mark in the name of the last operation that holds the group; ``otherwise`` if none does."""
    by_them = [one.operation_id for one in held.groups.get(group, ())]
    return MovedGroupRecord(group, bool(by_them) or otherwise, [operation_id, *by_them][-1], by, at_ms)


def _left_behind(
    found: Recorded, control: ControlView, in_order: Sequence[Recorded], by: str, at_ms: int
) -> tuple[Document, ...]:
    """Records that remove this operation's marks, or hand them to operations that still hold the topic or group.

    A topic of its groups may also have the mark of an operation whose own groups have failed back since.
    """
    ours, held = found.operation_id, holders(in_order, found.operation_id)
    is_emergency = found.mode is Mode.EMERGENCY
    read = {*topics_of(found.operation.plan.groups), *found.head.plan.state} if is_emergency else set()
    marks = {
        name: mark for name, mark in control.failed_over.items() if mark.operation_id == ours or name in read
    }
    groups = [name for name, mark in control.moved.items() if mark.operation_id == ours]
    return (
        *lifted(marks, in_order, ours, by, at_ms),
        *(_moved(name, held, ours, by, at_ms) for name in sorted(groups)),
    )


def take_back(
    rehearse: Callable[[], RollbackPlan],
    context: OperationContext,
    fence: FenceAsked | None = None,
    acls: FencePort | None = None,
) -> RollbackPlan:
    """Cancel or roll back an operation: restore commits, remove marks, undo ACLs, record that.

    The plan is made again under the operation lock: minutes may have passed at a prompt, and another operation may have
    moved groups of the same topics. A crash leaves the operation in its state, and the same command completes it:
    commits that are already restored stay as they are.

    Args:
        rehearse: Makes the plan, as `rehearse_taking_back`.
        context: The ports of the operation; the ``ended`` of its log is called.
        fence: The connections to the fence, for an operation whose fence may be up.
        acls: The flow's target, for an operation whose change of producers' ACLs may be in force.

    Returns:
        What was undone.

    Raises:
        OwnedElsewhereError: Another operation holds the lock, or another process has resumed this one.
        RefusedError: Groups have members now, or have committed since; nothing was changed.
        MmtoolError: A part could not be undone; finished parts stay.
    """
    context.lock.join()
    context.lock.hold()
    context.journal.still_ours()
    told = _on_record(context)
    taking = rehearse()
    if taking.refusal is not None:
        raise taking.refusal
    if taking.undoing.writable:
        _refuse_others(context, told)
        moved = taking.undoing.write()
        if moved.error is not None:
            raise moved.error if isinstance(moved.error, RefusedError) else _left(taking, moved.error)
    try:
        _refuse_others(context, told, is_unchanged=not taking.undoing.writable)
        context.marks.write(taking.marks)
    except MmtoolError as error:
        if taking.undoing.writable:
            raise _left(taking, error) from error
        raise
    found = taking.found
    try:
        if found.promotion_stands:
            assert acls is not None
            undo_acls(acls, found.head.plan.promotion)
            context.journal.promoted(found.head.plan.promotion, stands=False)
        if found.fence_stands:
            assert fence is not None
            FenceSteps(found.operation.plan, fence, context).undo()
    except MmtoolError as error:
        raise _left(taking, error) from error
    context.log.ended(replace(taking.found.operation.after(taking.event), error=None))
    return taking


def _on_record(context: OperationContext) -> dict[str, int]:
    """Number of journal entries by operation id, for the flow's operations; drills are left out."""
    found = context.journal.of_flow()
    return {one.operation_id: one.entries for one in found if one.mode is not Mode.DRILL}


def _refuse_others(context: OperationContext, told: Mapping[str, int], *, is_unchanged: bool = True) -> None:
    """Raise if any operation on the flow has other entries than when the undo was planned; wait for the lock first.

    Args:
        context: Of the undo.
        told: The number of entries then, by operation.
        is_unchanged: No part of the undo was done yet.

    Raises:
        OwnedElsewhereError: Another process started, resumed or ended an operation since.
    """
    context.lock.hold()
    others = sorted(name for name, entries in _on_record(context).items() if told.get(name) != entries)
    if others:
        unchanged = "nothing was changed; " if is_unchanged else ""
        raise OwnedElsewhereError(
            f"another process started, resumed or ended operation {others[0]} after this undo was planned",
            remedy=f"{unchanged}see with `mmtool failover show {others[0]} -c FILE` whether the undo is still needed,"
            " and stop here if it is not; then run the same command again",
        )


def _left(taking: RollbackPlan, error: MmtoolError) -> MmtoolError:
    return PartlyAppliedError(
        f"operation {taking.found.operation_id} is undone in part: {error.message}",
        remedy=f"{then(error.remedy)}: finished parts are not repeated",
    )
