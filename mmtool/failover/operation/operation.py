"""Run an operation's steps in order, report each change of a step, and end or wait when the operator stops it."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Protocol

from mmtool.errors import (
    MmtoolError,
    OwnedElsewhereError,
    PartlyAppliedError,
    RefusedError,
    StalePlanError,
    StoppedError,
    UnreachableError,
)
from mmtool.failover.fence.actions import AclsLeftError
from mmtool.failover.operation.states import (
    START,
    OperationState,
    OperationStatus,
    Phase,
    Trigger,
    advance,
    can,
)
from mmtool.plan.failover.steps import POINT_OF_NO_RETURN, Mode, StepName
from mmtool.plan.words import ID_PLACEHOLDER, first_part, joined, then

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import FrameType

    from mmtool.plan.failover.failover_plan import FailoverPlan
    from mmtool.plan.failover.steps import Step

    Handler = Callable[[int, FrameType | None], object]
    Actions = Mapping[StepName, Callable[[], None]]


class Stops:
    """The handlers of both signals.

    Attributes:
        heard: The signal that a KeyboardInterrupt stands for.
    """

    def __init__(self) -> None:
        self.heard = signal.SIGINT

    @contextmanager
    def listening(self) -> Iterator[None]:
        """A context in which SIGTERM interrupts a step as Ctrl-C does, also a step that runs in asyncio."""
        with _handled({signal.SIGTERM: self._terminate}):
            yield

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """A context in which SIGINT and SIGTERM are only noted: the step completes."""
        with _handled({signal.SIGTERM: self._note, signal.SIGINT: self._note}):
            yield

    def _terminate(self, signum: int, frame: FrameType | None) -> None:
        self._note(signum, frame)
        if (
            signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        ):  # begun in the background of a script: deaf to Ctrl-C
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    def _note(self, signum: int, _: FrameType | None) -> None:
        self.heard = signal.Signals(signum)


@contextmanager
def _handled(handlers: dict[signal.Signals, Handler]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's affair
        yield
        return
    before = {signum: signal.signal(signum, handler) for signum, handler in handlers.items()}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


_OF_ALL_GROUPS = frozenset({StepName.WRITE, StepName.READ_BACK})
"""Steps whose `RefusedError` or `StalePlanError` says that no group has moved."""


class StepState(StrEnum):
    """The states of a step, as users and scripts see them."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNDONE = "undone"


class TakenUpError(OwnedElsewhereError):
    """Another process has resumed this operation: the journal and all that was prepared belong to it now."""


def nobody_else() -> None:
    """Do nothing: the `Journalist.still_ours` of writers without a journal, where no other process can interfere."""


class StepLog(Protocol):
    """A listener that is called before and after each step: the progress display, or the journal.

    ``began`` raises when it cannot record the start. ``changed`` raises when it cannot record that a step is
    ``RUNNING``: then the step is not done; or that it is ``DONE``: then it has failed, as a step that is not recorded
    as done is done again.
    """

    def began(self, operation: Operation, /) -> None:
        """Called before the first step, of a new or a resumed operation."""

    def changed(self, operation: Operation, step: Step, state: StepState, /) -> None:
        """Called before a step is executed, and after it was executed, has failed or was undone.

        When this returns for ``RUNNING``, that is recorded. A failed step that was undone is ``UNDONE`` here, and stays
        ``FAILED`` in the operation.
        """

    def ended(self, operation: Operation, /) -> None:
        """Called once the operation has ended, successfully or not."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A plan that is being executed.

    Attributes:
        error: What ended it; None while no step has failed.
        sentence: What its state means for both clusters' groups.
    """

    plan: FailoverPlan
    standing: OperationStatus = START
    steps: Mapping[StepName, StepState] = field(default_factory=dict)
    error: MmtoolError | None = None
    sentence: str = ""

    @property
    def point_of_no_return_passed(self) -> bool:
        return self.standing.phase is Phase.AFTER

    @property
    def may_have_written(self) -> bool:
        """Whether offsets may be committed that were not read back."""
        read_back, taken_back = self.steps.get(StepName.READ_BACK), OperationState.ROLLED_BACK
        at_large = self.point_of_no_return_passed and self.standing.state is not taken_back
        return at_large and read_back is not StepState.DONE

    def state_of(self, step: Step) -> StepState:
        return self.steps.get(step.name, StepState.PENDING)

    def may(self, event: Trigger) -> bool:
        """Whether the state table allows an event; a drill cannot be resumed."""
        return can(self.standing, event) and not (event is Trigger.RESUME and self.plan.mode is Mode.DRILL)

    def after(self, event: Trigger) -> Operation:
        """The operation in the state that an event leads to by the state table, with the table's sentence.

        Raises:
            IllegalEventError: The event is not allowed in the current state.
        """
        transition = advance(self.standing, event)
        sentence = transition.sentence.replace(ID_PLACEHOLDER, self.plan.operation_id)
        return replace(self, standing=transition.next, sentence=sentence)

    def with_step(self, step: Step, state: StepState) -> Operation:
        return replace(self, steps={**self.steps, step.name: state})


def _nothing_more(operation: Operation, step: Step) -> None:
    """Do nothing after a step: the default of `run`."""


def run(
    operation: Operation,
    actions: Actions,
    log: StepLog,
    undo: Actions | None = None,
    after: Callable[[Operation, Step], None] = _nothing_more,
    begun: Iterable[StepName] = (),
) -> Operation:
    """Execute the plan's steps in order, until the last one or the first that fails, and return the operation.

    An operation that was interrupted after its point of no return rolls forward: the steps before that are not
    repeated. One that was interrupted before it restarts from the first step.

    Args:
        operation: A new operation, or one that was interrupted before its last step.
        actions: The function of each step; it raises if the step fails.
        log: Called before and after each step.
        undo: Functions that undo steps when a step fails before the point of no return.
        after: Called after a step's action and before the step counts as done, as for hooks; raises as actions do.
        begun: Steps that an interrupted attempt may have left done: they are undone on failure too, even if this
            attempt does not reach them.

    Raises:
        TakenUpError: Another process has resumed the operation; nothing is undone.
        MmtoolError: The start could not be recorded; nothing was done.
    """
    operation = operation.after(Trigger.BEGIN if operation.standing == START else Trigger.RESUME)
    operation = replace(
        operation, steps={**dict.fromkeys(begun, StepState.RUNNING), **_before(operation)}, error=None
    )
    log.began(operation)
    stops = Stops()
    for step in _left(operation):
        if step.name is POINT_OF_NO_RETURN and not operation.point_of_no_return_passed:
            operation = operation.after(Trigger.PAST_RETURN)
        operation = operation.with_step(step, StepState.RUNNING)
        error = _attempt(partial(log.changed, operation, step, StepState.RUNNING), stops, finish=False)
        finish, done = operation.point_of_no_return_passed, operation.with_step(step, StepState.DONE)
        if error is None:
            error = _attempt(actions[step.name], stops, finish=finish)
        if error is None:
            error = _attempt(partial(after, operation, step), stops, finish=finish)
        if error is None:
            error = _attempt(partial(log.changed, done, step, StepState.DONE), stops, finish=True)
        if error is not None:
            return _given_up(operation, step, error, log, undo or {})
        operation = done
    operation = operation.after(Trigger.FINISH)
    with stops.shielded():
        log.ended(operation)
    return operation


def _before(operation: Operation) -> dict[StepName, StepState]:
    """The steps before the point of no return, as done, once it is passed; else none."""
    if not operation.point_of_no_return_passed:
        return {}
    names = [step.name for step in operation.plan.steps]
    return dict.fromkeys(names[: names.index(POINT_OF_NO_RETURN)], StepState.DONE)


def _left(operation: Operation) -> Sequence[Step]:
    return [step for step in operation.plan.steps if operation.state_of(step) is not StepState.DONE]


def _attempt(action: Callable[[], None], stops: Stops, *, finish: bool) -> MmtoolError | None:
    try:
        with stops.shielded() if finish else stops.listening():
            action()
    except TakenUpError:
        raise
    except MmtoolError as error:
        return error
    except KeyboardInterrupt:
        return StoppedError(stops.heard)
    return None


def _given_up(operation: Operation, step: Step, error: MmtoolError, log: StepLog, undo: Actions) -> Operation:
    """The operation after a failed step: its preparations undone if no offset was written, and the end logged.

    After the point of no return, only such an error of a step of `_OF_ALL_GROUPS` means that nothing was written.
    Any other error means that a part may be written: a broker that did not answer may have accepted the request.
    """
    refused = isinstance(error, RefusedError | StalePlanError)
    nothing = operation.point_of_no_return_passed and refused and step.name in _OF_ALL_GROUPS
    if (
        operation.point_of_no_return_passed
        and not nothing
        and isinstance(error, RefusedError | UnreachableError)
    ):
        error = PartlyAppliedError(error.message, remedy=error.remedy, code=error.code)
    event = Trigger.NOTHING_WRITTEN if nothing else Trigger.STEP_FAILED
    if operation.steps.get(StepName.READ_BACK) is StepState.DONE:
        event = Trigger.LATER_STEP_FAILED
    operation = replace(operation.with_step(step, StepState.FAILED).after(event), error=error)
    with Stops().shielded():  # who asks twice for an end wants nothing left behind
        log.changed(operation, step, StepState.FAILED)
        if not operation.point_of_no_return_passed:
            operation = _taken_back(operation, log, undo)
        log.ended(operation)
    return operation


def _taken_back(operation: Operation, log: StepLog, undo: Actions) -> Operation:
    """The operation after undoing its started steps, the last one first, including the one that failed."""
    for step in reversed(_begun(operation, undo)):
        error = _attempt(undo[step.name], Stops(), finish=True)
        if error is not None:
            left = f"{operation.sentence}; but step {step.name} could not be undone: {error.message}"
            return replace(operation, sentence=left, error=_half_done(operation, step, error))
        if operation.state_of(step) is not StepState.FAILED:
            operation = operation.with_step(step, StepState.UNDONE)
        log.changed(operation, step, StepState.UNDONE)
    return operation


def _half_done(operation: Operation, step: Step, error: MmtoolError) -> MmtoolError:
    """The error of a step that failed and of another that could not be undone, as one `PartlyAppliedError`.

    The command that started the operation is refused until the operation is completed or cancelled.
    """
    why, name = operation.error or error, operation.plan.operation_id
    todo = joined(*dict.fromkeys((first_part(why.remedy), first_part(error.remedy))))
    ways = (
        f"run `mmtool failover resume {name} -c FILE --execute` to complete the operation, or `mmtool failover cancel"
        f" {name} -c FILE --execute` to undo it"
    )
    return PartlyAppliedError(
        f"{why.message}; and step {step.name} could not be undone: {error.message}",
        remedy=error.remedy if isinstance(error, AclsLeftError) else then(todo, ways),
        code=error.code,
    )


def _begun(operation: Operation, undo: Iterable[StepName]) -> list[Step]:
    wanted = set(undo)
    return [
        step
        for step in operation.plan.steps
        if step.name in wanted and operation.state_of(step) is not StepState.PENDING
    ]
