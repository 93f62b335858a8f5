"""Run an operation's steps in order, and report each change of a step to the journal and the operator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from mmtool.errors import (
    MmtoolError,
    OwnedElsewhereError,
    PartlyAppliedError,
    RefusedError,
    StoppedError,
    UnreachableError,
)
from mmtool.failover.operation.states import (
    START,
    Event,
    OperationState,
    OperationStatus,
    Phase,
    advance,
    can,
)
from mmtool.failover.operation.stop import Stops
from mmtool.plan.failover.steps import POINT_OF_NO_RETURN, Mode, StepName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mmtool.plan.failover.failover_plan import FailoverPlan
    from mmtool.plan.failover.steps import Step

    Actions = Mapping[StepName, Callable[[], None]]


_OF_ALL_GROUPS = frozenset({StepName.WRITE, StepName.READ_BACK})
"""Steps that refuse only where no group has moved."""


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
    """What `Journalist.still_ours` is to who writes without a journal: nobody can have come between."""


class StepLog(Protocol):
    """A listener that is called before and after each step: the progress display, or the journal.

    ``began`` and ``intended`` raise when they cannot record the step; then the step is not done. When ``done``
    raises, the step has failed: a step that is not recorded as done is done again.
    """

    def began(self, operation: Operation, /) -> None:
        """It is about to be begun, or taken up again."""

    def intended(self, operation: Operation, step: Step, /) -> None:
        """The step is about to be done; when this returns, that is on record."""

    def done(self, operation: Operation, step: Step, /) -> None:
        """It has been done."""

    def failed(self, operation: Operation, step: Step, error: MmtoolError, /) -> None:
        """It could not be done."""

    def undone(self, operation: Operation, step: Step, /) -> None:
        """What it had done is taken back."""

    def ended(self, operation: Operation, /) -> None:
        """Nothing more happens to it now."""


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
        """Whether offsets may stand that nobody has read back."""
        read_back, taken_back = self.steps.get(StepName.READ_BACK), OperationState.ROLLED_BACK
        at_large = self.point_of_no_return_passed and self.standing.state is not taken_back
        return at_large and read_back is not StepState.DONE

    def state_of(self, step: Step) -> StepState:
        return self.steps.get(step.name, StepState.PENDING)

    def may(self, event: Event) -> bool:
        """Whether the table has that way on; a drill is not resumed, it is drilled again."""
        return can(self.standing, event) and not (event is Event.RESUME and self.plan.mode is Mode.DRILL)

    def after(self, event: Event) -> Operation:
        """Where the event leads, by the table.

        Raises:
            IllegalEventError: It cannot happen here.
        """
        transition = advance(self.standing, event)
        return replace(self, standing=transition.next, sentence=transition.sentence)

    def with_step(self, step: Step, state: StepState) -> Operation:
        return replace(self, steps={**self.steps, step.name: state})


def _nothing_more(operation: Operation, step: Step) -> None:
    """No step has anything that belongs to it."""


def run(
    operation: Operation,
    actions: Actions,
    log: StepLog,
    undo: Actions | None = None,
    after: Callable[[Operation, Step], None] = _nothing_more,
    begun: Iterable[StepName] = (),
) -> Operation:
    """Do the plan's steps in order, until the end or the first that fails.

    What ended behind the point of no return is finished forward: the steps before it are not done again. What ended
    before it begins again from the first step.

    Args:
        operation: One that has not begun, or that ended before its last step.
        actions: What each step does; raises when it cannot be done.
        log: Is told of every step before it is begun.
        undo: How a step is taken back when a later one fails before the point of no return.
        after: What belongs to a step besides, and is done before the step counts as done; raises as actions do.
        begun: Steps that have left something behind when it ended before: they are taken back as well, also when
            it does not come to them again.

    Raises:
        TakenUpError: It is another process's by now; nothing is taken back.
        MmtoolError: That it begins could not be put on record; nothing was done.
    """
    operation = operation.after(Event.BEGIN if operation.standing == START else Event.RESUME)
    operation = replace(
        operation, steps={**dict.fromkeys(begun, StepState.RUNNING), **_before(operation)}, error=None
    )
    log.began(operation)
    stops = Stops()
    for step in _left(operation):
        if step.name is POINT_OF_NO_RETURN and not operation.point_of_no_return_passed:
            operation = operation.after(Event.PAST_RETURN)
        operation = operation.with_step(step, StepState.RUNNING)
        error = _attempt(lambda o=operation, s=step: log.intended(o, s), stops, finish=False)  # type: ignore[misc]
        if error is None:
            error = _attempt(actions[step.name], stops, finish=operation.point_of_no_return_passed)
        if error is None:
            finish = operation.point_of_no_return_passed
            error = _attempt(lambda o=operation, s=step: after(o, s), stops, finish=finish)  # type: ignore[misc]
        if error is None:
            done = operation.with_step(step, StepState.DONE)
            error = _attempt(lambda o=done, s=step: log.done(o, s), stops, finish=True)  # type: ignore[misc]
        if error is not None:
            return _given_up(operation, step, error, log, undo or {})
        operation = done
    operation = operation.after(Event.FINISH)
    with stops.shielded():
        log.ended(operation)
    return operation


def _before(operation: Operation) -> dict[StepName, StepState]:
    """What needs not be done again."""
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
    """A write that was refused as a whole has changed nothing, as its error says; no later step's refusal means that.

    Who does not answer behind the point of no return may have taken what was sent: that is no "nothing was changed".
    """
    refused = isinstance(error, RefusedError)
    nothing = operation.point_of_no_return_passed and refused and step.name in _OF_ALL_GROUPS
    if (
        operation.point_of_no_return_passed
        and not nothing
        and isinstance(error, RefusedError | UnreachableError)
    ):
        error = PartlyAppliedError(error.message, remedy=error.remedy, code=error.code)
    event = Event.NOTHING_WRITTEN if nothing else Event.STEP_FAILED
    operation = replace(operation.with_step(step, StepState.FAILED).after(event), error=error)
    with Stops().shielded():  # who asks twice for an end wants nothing left behind
        log.failed(operation, step, error)
        if not operation.point_of_no_return_passed:
            operation = _taken_back(operation, log, undo)
        log.ended(operation)
    return operation


def _taken_back(operation: Operation, log: StepLog, undo: Actions) -> Operation:
    """The steps that leave something behind, the last one first; one that failed may have done half of it."""
    for step in reversed(_begun(operation, undo)):
        error = _attempt(undo[step.name], Stops(), finish=True)
        if error is not None:
            left = f"{operation.sentence}; but step {step.name} could not be undone: {error.message}"
            return replace(operation, sentence=left, error=_half_done(operation.error, step, error))
        if operation.state_of(step) is not StepState.FAILED:
            operation = operation.with_step(step, StepState.UNDONE)
        log.undone(operation, step)
    return operation


def _half_done(why: MmtoolError | None, step: Step, error: MmtoolError) -> MmtoolError:
    """What made it fail is not all any more: something is left that has to be dealt with."""
    return PartlyAppliedError(
        f"{'' if why is None else why.message}; and step {step.name} could not be undone: {error.message}",
        remedy=error.remedy,
        code=error.code,
    )


def _begun(operation: Operation, undo: Iterable[StepName]) -> list[Step]:
    wanted = set(undo)
    return [
        step
        for step in operation.plan.steps
        if step.name in wanted and operation.state_of(step) is not StepState.PENDING
    ]
