"""Execute an operation: check the journal, take the operation lock, run the steps, log each of them."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from mmtool.errors import OwnedElsewhereError
from mmtool.events import Event, Notice, flow_fields
from mmtool.failover.modes.cutover import Attempt, OperationContext
from mmtool.failover.modes.drill import NoLock
from mmtool.failover.modes.emergency import EmergencyRehearsal
from mmtool.failover.operation.flapping_check import judged
from mmtool.failover.operation.hooks import hooks_of
from mmtool.failover.operation.journal import About, Both, Journalist
from mmtool.failover.operation.recovery import find
from mmtool.failover.operation.states import START
from mmtool.failover.service import connections
from mmtool.output import bind, detail, talk
from mmtool.plan.failover.choices import Unknowns
from mmtool.plan.failover.steps import Mode
from mmtool.runtime import process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from mmtool.config import FlowSettings
    from mmtool.errors import MmtoolError
    from mmtool.failover.modes.cutover import Ended, LockPort
    from mmtool.failover.modes.rehearsal import Rehearsal
    from mmtool.failover.operation.journal import JournalPort
    from mmtool.failover.operation.operation import Operation, StepLog
    from mmtool.failover.operation.records import Recorded
    from mmtool.failover.operation.states import OperationStatus
    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.failover.steps import Step
    from mmtool.plan.groups.facts import GroupSelection
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.runbook.plan_file import SavedPlan

E = TypeVar("E", bound="Ended")


@dataclass(frozen=True, slots=True)
class Request:
    """A requested operation: of the command line, of a saved plan, or one of the journal that is resumed.

    Attributes:
        settings: The flow.
        groups: Which of them move.
        timeout: For one request to a cluster.
        agreed: Shows the plan, and returns whether the operator confirmed it.
        reason: Why, in the operator's words.
        saved: The plan that was read; None without one.
        without_state: Kafka Streams applications move although their state does not.
        drain_seconds: For the mirror to catch up; None waits as long as it takes.
        lock: The operation lock, where it has been requested already.
        found: The operation as the journal has it, when it is resumed.
    """

    settings: FlowSettings
    groups: GroupSelection
    timeout: timedelta
    agreed: Callable[[Rehearsal], bool]
    reason: str
    saved: SavedPlan | None = None
    without_state: bool = False
    drain_seconds: float | None = None
    lock: LockPort | None = None
    found: Recorded | None = None

    @property
    def operation_id(self) -> str | None:
        """The operation id of the saved plan or the journal; None for a new operation."""
        if self.found is not None:
            return self.found.operation_id
        return None if self.saved is None else self.saved.plan.operation_id

    @property
    def since(self) -> OperationStatus:
        """The operation's state before it is executed."""
        return START if self.found is None else self.found.operation.standing

    @property
    def recorded_entries(self) -> int:
        """How many journal entries the operation had when it was read; 0 for a new one."""
        return 0 if self.found is None else self.found.entries


@dataclass(frozen=True, slots=True)
class Execution:
    """A rehearsed operation, and how it is executed.

    Attributes:
        rehearsal: The plan.
        destination: The cluster on which the groups will run.
        identity: Of the flow.
        is_alone: It takes the operation lock; a drill does not.
    """

    request: Request
    rehearsal: Rehearsal
    destination: ClusterPort
    identity: FlowIdentity
    is_alone: bool = True

    @property
    def operation_id(self) -> str:
        return self.rehearsal.plan.operation_id


def run(execution: Execution, work: Callable[[OperationContext, StepLog], Ended]) -> Ended | None:
    """Check a rehearsal against the journals, ask the operator, and execute it.

    Args:
        execution: The rehearsed operation, and how it is executed.
        work: Executes the operation with its context and step log.

    Returns:
        The ended operation; None if it was only rehearsed or declined.
    """
    judged_now = _judged(execution)
    bind(operation=execution.operation_id, **flow_fields(judged_now.names.flow))
    if not execution.request.agreed(judged_now):
        return None
    return execute(replace(execution, rehearsal=judged_now), work)


def execute(execution: Execution, work: Callable[[OperationContext, StepLog], E]) -> E:
    """Execute a confirmed operation under its lock; unlike `run`, ask no question and check no other operations."""
    with at_work(execution) as (context, log):
        return work(context, log)


def _judged(execution: Execution) -> Rehearsal:
    """The rehearsal after `flapping_check.judged` by the target's journal, for a planned failover also the source's."""
    rehearsal, request = execution.rehearsal, execution.request
    settings, timeout = rehearsal.settings, request.timeout
    journals = [connections.journal(settings, timeout)]
    if rehearsal.plan.mode is Mode.PLANNED:
        journals.append(connections.journal(settings, timeout, at_source=True))
    lock = request.lock or connections.operation_lock_of(settings, timeout)
    return judged(rehearsal, journals, lock, time.time() * 1000, is_resumed=request.found is not None)


@contextmanager
def at_work(execution: Execution) -> Iterator[tuple[OperationContext, StepLog]]:
    """A context with an operation's ports and its step log, in which it holds or requests the operation lock.

    Raises:
        OwnedElsewhereError: Another process started or resumed the operation.
    """
    request = execution.request
    kept = connections.tools(execution.rehearsal.settings, execution.identity, request.timeout)
    bind(operation=execution.operation_id, **flow_fields(execution.rehearsal.names.flow))
    lock: LockPort = request.lock or (kept.lock if execution.is_alone else NoLock())
    context, log = _context(execution, kept, lock)
    lock.join()
    try:
        if request.operation_id is not None:  # another process may start or resume it as well
            lock.hold()
            _refuse_if_resumed(kept.journal, execution.operation_id, request.recorded_entries)
        yield context, log
    finally:
        lock.leave()


def _context(
    execution: Execution, kept: connections.Tools, lock: LockPort
) -> tuple[OperationContext, StepLog]:
    settings, request, about = execution.rehearsal.settings, execution.request, _about(execution)
    found = request.found
    journalist = Journalist(kept.journal, about, request.recorded_entries)
    journalist.operation = None if found is None else found.operation
    context = OperationContext(
        execution.destination,
        journalist,
        kept.marks,
        lock,
        Attempt(execution.operation_id, about.by, _seconds_since(found), request.saved is not None),
        synced=settings.sync_group_offsets,
        hooks=hooks_of(settings, about.reason),
    )
    return context, Both(journalist, Teller())


def _seconds_since(recorded: Recorded | None) -> float:
    return 0.0 if recorded is None else max(0.0, time.time() - recorded.began_ms / 1000)


def _about(execution: Execution) -> About:
    rehearsal, found = execution.rehearsal, execution.request.found
    groups = tuple(plan.group for plan in rehearsal.plan.groups) if found is None else found.group_names
    said = rehearsal.unknowns if isinstance(rehearsal, EmergencyRehearsal) else Unknowns.LEAVE
    ids, reason = (rehearsal.source_id, rehearsal.target_id), " ".join(execution.request.reason.split())
    return About(rehearsal.names, *ids, groups, reason, process.operator(), said)


def _refuse_if_resumed(journal: JournalPort, operation_id: str, entries: int) -> None:
    """Raise if the journal has other entries of the operation than this process has read.

    Raises:
        OwnedElsewhereError: Another process started or resumed the operation since.
    """
    found = find(journal, operation_id)
    if (0 if found is None else found.entries) != entries:
        raise OwnedElsewhereError(
            f"another process started or resumed operation {operation_id} just now; this process changed nothing",
            remedy=f"leave the operation to that process; `mmtool failover show {operation_id} -c FILE` shows the"
            " operation's state",
        )


_ENDS = {
    "completed": Event.OPERATION_COMPLETED,
    "cancelled": Event.OPERATION_CANCELLED,
    "rolled_back": Event.OPERATION_ROLLED_BACK,
}


class Teller:
    """The `StepLog` that shows the steps to the operator; the journal is called first."""

    def began(self, operation: Operation) -> None:
        plan = operation.plan
        said = f"operation {plan.operation_id} started"
        talk(Notice(said, Event.OPERATION_STARTED, operation=plan.operation_id, mode=plan.mode))

    def intended(self, _: Operation, step: Step) -> None:
        said = f"{step.name}: {step.sentence}"  # the plan with its sentences stands above
        detail(Notice(said, Event.STEP_STARTED, step=step.name))

    def done(self, _: Operation, step: Step) -> None:
        talk(Notice(f"{step.name}: done", Event.STEP_DONE, step=step.name))

    def failed(self, operation: Operation, step: Step, error: MmtoolError) -> None:
        said = f"{step.name}: failed; {operation.sentence}"
        talk(Notice(said, Event.STEP_FAILED, step=step.name, code=error.code, reason=error.message))

    def undone(self, _: Operation, step: Step) -> None:
        talk(Notice(f"{step.name}: undone", Event.STEP_UNDONE, step=step.name))

    def ended(self, operation: Operation) -> None:
        """Log the end of the operation; the command's summary shows it to the operator."""
        state, is_past = operation.standing.state, operation.point_of_no_return_passed
        event = _ENDS.get(state, Event.OPERATION_FAILED)
        talk(Notice(operation.sentence, event, state=state, point_of_no_return_passed=is_past))
