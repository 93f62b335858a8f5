"""One operation while it runs: which step is where, and who is told."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from mmtool.errors import MmtoolError, RefusedError, StoppedError
from mmtool.failover.states import START, Event, Phase, Standing, advance
from mmtool.failover.stopping import Stops
from mmtool.plan.failover import POINT_OF_NO_RETURN, StepName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mmtool.plan.failover import FailoverPlan, Step


class StepState(StrEnum):
    """The contract's words."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNDONE = "undone"


class StepLog(Protocol):
    """Who is told of each step, before it is done and after: the person watching, the journal."""

    def intended(self, operation: Operation, step: Step, /) -> None:
        """It is about to be done; when this returns, that is on record."""

    def done(self, operation: Operation, step: Step, /) -> None:
        """It has been done."""

    def failed(self, operation: Operation, step: Step, error: MmtoolError, /) -> None:
        """It could not be done."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A plan on its way.

    Attributes:
        error: What it ended with; None while all is well.
        sentence: What its standing means for both clusters' groups.
    """

    plan: FailoverPlan
    standing: Standing = START
    steps: Mapping[StepName, StepState] = field(default_factory=dict)
    error: MmtoolError | None = None
    sentence: str = ""

    @property
    def point_of_no_return_passed(self) -> bool:
        return self.standing.phase is Phase.AFTER

    def state_of(self, step: Step) -> StepState:
        return self.steps.get(step.name, StepState.PENDING)

    def after(self, event: Event) -> Operation:
        """Where the event leads, by the table.

        Raises:
            IllegalEventError: It cannot happen here.
        """
        transition = advance(self.standing, event)
        return replace(self, standing=transition.next, sentence=transition.sentence)

    def with_step(self, step: Step, state: StepState) -> Operation:
        return replace(self, steps={**self.steps, step.name: state})


def run(plan: FailoverPlan, actions: Mapping[StepName, Callable[[], None]], log: StepLog) -> Operation:
    """Do the plan's steps in order, until the end or the first that fails.

    Args:
        plan: An executable one.
        actions: What each step does; raises when it cannot be done.
        log: Is told of every step before it is begun.
    """
    operation, stops = Operation(plan).after(Event.BEGIN), Stops()
    for step in plan.steps:
        if step.name is POINT_OF_NO_RETURN:
            operation = operation.after(Event.PAST_RETURN)
        operation = operation.with_step(step, StepState.RUNNING)
        log.intended(operation, step)
        error = _attempt(actions[step.name], stops, finish=operation.point_of_no_return_passed)
        if error is not None:
            operation = _failed(operation, step, error)
            log.failed(operation, step, error)
            return operation
        operation = operation.with_step(step, StepState.DONE)
        log.done(operation, step)
    return operation.after(Event.FINISH)


def _attempt(action: Callable[[], None], stops: Stops, *, finish: bool) -> MmtoolError | None:
    try:
        with stops.shielded() if finish else stops.listening():
            action()
    except MmtoolError as error:
        return error
    except KeyboardInterrupt:
        return StoppedError(stops.heard)
    return None


def _failed(operation: Operation, step: Step, error: MmtoolError) -> Operation:
    """A write that was refused as a whole has changed nothing, as its error says."""
    nothing = operation.point_of_no_return_passed and isinstance(error, RefusedError)
    event = Event.NOTHING_WRITTEN if nothing else Event.STEP_FAILED
    return replace(operation.with_step(step, StepState.FAILED).after(event), error=error)
