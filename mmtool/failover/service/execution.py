"""Execute a rehearsed operation: check the journal, take the operation lock, run the steps, log each of them.

`judged` refuses or warns when journals show an open operation, or a recent move in the other direction: when a group is
moved to and fro within minutes, two operators mostly do not know of each other. The same holds for an operation that
has written diverged records to where this one would write them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Generic, TypeVar

from mmtool.config import FlowSettings
from mmtool.errors import OwnedElsewhereError, RefusedError
from mmtool.events import Event, Notice, flow_fields
from mmtool.failover.diverged_tail.tail_writer import written_before
from mmtool.failover.modes.cutover import Ended, LockPort, OperationContext, half_done
from mmtool.failover.modes.drill import NoLock
from mmtool.failover.modes.emergency import EmergencyRehearsal
from mmtool.failover.modes.failback import FailbackRehearsal
from mmtool.failover.modes.rehearsal import Rehearsal
from mmtool.failover.operation.hooks import hooks_of
from mmtool.failover.operation.journal import About, Both, Journalist, JournalPort
from mmtool.failover.operation.operation import Operation, StepState
from mmtool.failover.operation.records import Recorded, recorded
from mmtool.failover.operation.recovery import find
from mmtool.failover.operation.states import OperationState
from mmtool.failover.service import connections
from mmtool.kafka.ports import ClusterPort
from mmtool.output import bind, detail, talk
from mmtool.plan.failover.choices import Unknowns
from mmtool.plan.failover.steps import Mode, Step
from mmtool.plan.groups.facts import GroupSelection
from mmtool.plan.runbook.plan_file import SavedPlan
from mmtool.plan.words import Names, few, moment
from mmtool.runtime import process

R = TypeVar("R", bound="Rehearsal")

_WARNED_SECONDS = 300.0
_AWAY = frozenset({Mode.PLANNED, Mode.EMERGENCY})


def opposites(
    found: Iterable[Recorded], names: Names, groups: Collection[str], since_ms: float
) -> list[Recorded]:
    """Completed operations since a time that moved some of these groups in the opposite direction.

    Args:
        found: Operations from the journals of both clusters.
        names: The aliases of the flow along which the groups would move.
        groups: The groups that would move.
        since_ms: In ms since 1970.
    """
    wanted = set(groups)
    return [
        one
        for one in found
        if one.state is OperationState.COMPLETED and one.last_ms >= since_ms and wanted & set(one.group_names)
        if one.mode is not Mode.DRILL and one.way == (names.target, names.source)
    ]


def sentence_of(one: Recorded) -> str:
    """Describe an operation in one sentence: id, operator, groups, both clusters and time."""
    left, reached = one.way
    return (
        f"{one.mode} operation {one.operation_id} by {one.by} moved {few(one.group_names, 3)} from {left} to {reached}"
        f" at {moment(one.last_ms)}"
    )


def check(
    found: Iterable[Recorded],
    names: Names,
    groups: Collection[str],
    now_ms: float,
    refused_seconds: float | None,
) -> list[str]:
    """Warnings about moves of these groups in the opposite direction within the last five minutes.

    Args:
        found: Operations from the journals of both clusters.
        names: The aliases of the flow along which the groups would move.
        groups: The groups that would move.
        now_ms: In ms since 1970.
        refused_seconds: ``mmtool.failover.min.interval.seconds``: a move younger than that is refused; None refuses
            none.

    Raises:
        RefusedError: A move is younger than ``refused_seconds``.
    """
    known = list(found)
    if refused_seconds is not None:
        young = opposites(known, names, groups, now_ms - 1000 * refused_seconds)
        if young:
            raise RefusedError(
                f"{sentence_of(young[-1])}; mmtool.failover.min.interval.seconds = {refused_seconds:g} forbids moving"
                " groups back so soon",
                remedy=f"ask that operator; then wait until {refused_seconds:g} s have passed since that move, or"
                " remove the key from the properties file",
                code="moved_just_now",
            )
    return [
        f"{sentence_of(one)}: if you did not know of this, ask that operator before you move the groups back"
        for one in opposites(known, names, groups, now_ms - 1000 * _WARNED_SECONDS)
    ]


def judged(
    rehearsal: R, journals: Sequence[JournalPort], lock: LockPort, now_ms: float, *, is_resumed: bool
) -> R:
    """The rehearsal with the journals' objections added: guards for open operations, warnings for recent moves.

    Recent moves are checked for planned and emergency failovers only: nothing may block a failback. While the operation
    lock is taken, open operations add no guard: they are checked again once this one has the lock.

    Args:
        rehearsal: The operation's rehearsal.
        journals: The target's journal first, then the source's where it is read.
        lock: The flow's operation lock.
        now_ms: In ms since 1970.
        is_resumed: The operation was started before; then open operations on the groups add no guard.

    Raises:
        RefusedError: ``mmtool.failover.min.interval.seconds`` forbids the move, or a journal cannot be read.
        UnreachableError, NotAuthorisedError: A cluster does not show its journal.
    """
    with ThreadPoolExecutor(len(journals)) as pool:
        here, *there = [recorded(entries) for entries in pool.map(lambda one: one.entries(), journals)]
    plan, known = rehearsal.plan, [*here, *(one for of in there for one in of)]
    groups, limit = [group.group for group in plan.groups], rehearsal.settings.failover_min_interval_seconds
    said = check(known, rehearsal.names, groups, now_ms, limit) if plan.mode in _AWAY else []
    open_ones = () if is_resumed else half_done(here, plan)
    guards = () if open_ones and lock.is_taken() else open_ones
    if isinstance(rehearsal, FailbackRehearsal):
        said += written_before(here, plan, rehearsal.tails)
    plan = replace(plan, guards=(*plan.guards, *guards))
    return replace(rehearsal, plan=plan, warnings=(*rehearsal.warnings, *said))


R_co = TypeVar("R_co", bound=Rehearsal, covariant=True)
E_co = TypeVar("E_co", bound=Ended, covariant=True)


@dataclass(frozen=True, slots=True)
class Request:
    """A requested operation: of the command line, of a saved plan, or one of the journal that is resumed.

    Attributes:
        settings: The flow.
        groups: Which of them move.
        timeout: For one request to a cluster.
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


@dataclass(frozen=True, slots=True)
class Move(Generic[R_co, E_co]):
    """A rehearsed operation, ready to be executed.

    Attributes:
        rehearsal: The plan.
        destination: The cluster on which the groups will run.
        work: Executes the operation with its context.
        is_alone: It takes the operation lock; a drill does not.
    """

    request: Request
    rehearsal: R_co
    destination: ClusterPort
    work: Callable[[OperationContext], E_co]
    is_alone: bool = True

    def judged(self) -> Move[R_co, E_co]:
        """The move with the objections of the journals: the target's, and for a planned failover the source's.

        Raises:
            As the function `judged`.
        """
        request, settings, timeout = self.request, self.rehearsal.settings, self.request.timeout
        journals = [connections.journal(settings, timeout)]
        if self.rehearsal.plan.mode is Mode.PLANNED:
            journals.append(connections.journal(settings, timeout, at_source=True))
        lock = request.lock or connections.operation_lock_of(settings, timeout)
        is_resumed = request.found is not None
        rehearsal = judged(self.rehearsal, journals, lock, time.time() * 1000, is_resumed=is_resumed)
        bind(operation=rehearsal.plan.operation_id, **flow_fields(rehearsal.names.flow))
        return replace(self, rehearsal=rehearsal)

    def execute(self) -> E_co:
        """Execute the confirmed operation under its lock; raises as `at_work`."""
        with at_work(self.request, self.rehearsal, self.destination, is_alone=self.is_alone) as context:
            return self.work(context)


@contextmanager
def at_work(
    request: Request, rehearsal: Rehearsal, destination: ClusterPort, *, is_alone: bool = True
) -> Iterator[OperationContext]:
    """A context with an operation's ports, in which it holds or requests the operation lock.

    Args:
        request: What was requested.
        rehearsal: The plan.
        destination: The cluster on which the groups will run.
        is_alone: As for `Move`.

    Raises:
        OwnedElsewhereError: Another process started or resumed the operation.
    """
    settings, found, operation_id = rehearsal.settings, request.found, rehearsal.plan.operation_id
    kept = connections.tools(settings, rehearsal.identity, request.timeout)
    bind(operation=operation_id, **flow_fields(rehearsal.names.flow))
    lock: LockPort = request.lock or (kept.lock if is_alone else NoLock())
    about = About(
        rehearsal.names,
        rehearsal.source_id,
        rehearsal.target_id,
        tuple(plan.group for plan in rehearsal.plan.groups) if found is None else found.group_names,
        " ".join(request.reason.split()),
        process.operator(),
        rehearsal.unknowns if isinstance(rehearsal, EmergencyRehearsal) else Unknowns.LEAVE,
    )
    entries = 0 if found is None else found.entries
    journalist = Journalist(kept.journal, about, entries)
    journalist.operation = None if found is None else found.operation
    context = OperationContext(
        destination,
        journalist,
        kept.marks,
        lock,
        connections.engine_drain(),
        Both(journalist, Teller()),
        operation_id,
        about.by,
        found,
        request.saved is not None,
        request.drain_seconds,
        settings.sync_group_offsets,
        hooks_of(settings, about.reason),
    )
    lock.join()
    try:
        if request.operation_id is not None:  # another process may start or resume it as well
            lock.hold()
            _refuse_if_resumed(kept.journal, operation_id, entries)
        yield context
    finally:
        lock.leave()


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

    def changed(self, operation: Operation, step: Step, state: StepState) -> None:
        error, name = operation.error, step.name
        if state is StepState.RUNNING:  # the plan with its sentences stands above
            detail(Notice(f"{name}: {step.sentence}", Event.STEP_STARTED, step=name))
        elif state is StepState.FAILED and error is not None:
            said = f"{name}: failed; {operation.sentence}"
            talk(Notice(said, Event.STEP_FAILED, step=name, code=error.code, reason=error.message))
        else:
            event = Event.STEP_DONE if state is StepState.DONE else Event.STEP_UNDONE
            talk(Notice(f"{name}: {state}", event, step=name))

    def ended(self, operation: Operation) -> None:
        """Log the end of the operation; the command's summary shows it to the operator."""
        state, is_past = operation.standing.state, operation.point_of_no_return_passed
        event = _ENDS.get(state, Event.OPERATION_FAILED)
        talk(Notice(operation.sentence, event, state=state, point_of_no_return_passed=is_past))
