"""The life of an operation, as a table: (state, phase, event) -> the next state.

An event that the table does not know raises and changes nothing. ``phase`` is which side of the point of no
return the operation is on; it alone decides whether a failure leaves everything as it was, and which commands are
possible next.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mmtool.plan.words import ID_PLACEHOLDER


class OperationState(StrEnum):
    """The states of an operation, as users and scripts see them."""

    PLANNED = "planned"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ROLLED_BACK = "rolled_back"


class Phase(StrEnum):
    """Which side of the point of no return."""

    BEFORE = "before"
    AFTER = "after"


class Trigger(StrEnum):
    """What can happen to an operation."""

    BEGIN = "begin"
    PAST_RETURN = "past_return"
    STEP_FAILED = "step_failed"
    NOTHING_WRITTEN = "nothing_written"
    LATER_STEP_FAILED = "later_step_failed"
    FINISH = "finish"
    RESUME = "resume"
    CANCEL = "cancel"
    ROLL_BACK = "roll_back"


@dataclass(frozen=True, slots=True)
class OperationStatus:
    """The state of an operation."""

    state: OperationState
    phase: Phase


@dataclass(frozen=True, slots=True)
class Transition:
    """The next state of an event, and its meaning in one sentence."""

    next: OperationStatus
    sentence: str


START = OperationStatus(OperationState.PLANNED, Phase.BEFORE)

_RUNNING_BEFORE = OperationStatus(OperationState.RUNNING, Phase.BEFORE)
_RUNNING_AFTER = OperationStatus(OperationState.RUNNING, Phase.AFTER)
_FAILED_BEFORE = OperationStatus(OperationState.FAILED, Phase.BEFORE)
_FAILED_AFTER = OperationStatus(OperationState.FAILED, Phase.AFTER)
_COMPLETED = OperationStatus(OperationState.COMPLETED, Phase.AFTER)
_CANCELLED = OperationStatus(OperationState.CANCELLED, Phase.BEFORE)
_ROLLED_BACK = OperationStatus(OperationState.ROLLED_BACK, Phase.AFTER)

_AGAIN = Transition(_RUNNING_BEFORE, "restarted; every check runs again")
_FORWARD = Transition(_RUNNING_AFTER, "continued with the recorded offsets")
_CANCEL = Transition(_CANCELLED, "cancelled: no offset was written, and the preparations were undone")
_BACK = Transition(_ROLLED_BACK, "rolled back: the groups have their previous offsets")

TABLE: dict[tuple[OperationStatus, Trigger], Transition] = {
    (START, Trigger.BEGIN): Transition(_RUNNING_BEFORE, "confirmed by the operator; nothing is written yet"),
    (_RUNNING_BEFORE, Trigger.STEP_FAILED): Transition(
        _FAILED_BEFORE, "no offset was written: the groups on both clusters are unchanged"
    ),
    (_RUNNING_BEFORE, Trigger.PAST_RETURN): Transition(
        _RUNNING_AFTER, "offsets are being written: from here on the operation rolls forward"
    ),
    (_RUNNING_AFTER, Trigger.NOTHING_WRITTEN): Transition(
        _FAILED_BEFORE, "no offset was accepted, or all were restored: the groups are unchanged"
    ),
    (_RUNNING_AFTER, Trigger.STEP_FAILED): Transition(
        _FAILED_AFTER,
        f"offsets are written in part, or a later step failed: `mmtool failover show {ID_PLACEHOLDER} -c FILE` shows"
        " which offsets and which step",
    ),
    (_RUNNING_AFTER, Trigger.LATER_STEP_FAILED): Transition(
        _FAILED_AFTER, "every offset is written and was read back; a later step failed"
    ),
    (_RUNNING_AFTER, Trigger.FINISH): Transition(
        _COMPLETED, "every group can continue from its written offsets"
    ),
    # a process that was killed leaves its operation running: nobody is there to say that it failed
    (_RUNNING_BEFORE, Trigger.RESUME): _AGAIN,
    (_FAILED_BEFORE, Trigger.RESUME): _AGAIN,
    (_RUNNING_AFTER, Trigger.RESUME): _FORWARD,
    (_FAILED_AFTER, Trigger.RESUME): _FORWARD,
    (_RUNNING_BEFORE, Trigger.CANCEL): _CANCEL,
    (_FAILED_BEFORE, Trigger.CANCEL): _CANCEL,
    (_RUNNING_AFTER, Trigger.ROLL_BACK): _BACK,
    (_FAILED_AFTER, Trigger.ROLL_BACK): _BACK,
    (_COMPLETED, Trigger.ROLL_BACK): _BACK,
}


class IllegalEventError(Exception):
    """An event that is impossible in the operation's state: a defect of mmtool, never the operator's fault."""


def advance(standing: OperationStatus, event: Trigger) -> Transition:
    """The transition of an event in a state, from the table.

    Raises:
        IllegalEventError: The table has no row for the state and the event.
    """
    try:
        return TABLE[standing, event]
    except KeyError:
        raise IllegalEventError(f"{event} cannot happen to an operation that is {standing.state}") from None


def can(standing: OperationStatus, event: Trigger) -> bool:
    """Whether the table has a row for the state and the event."""
    return (standing, event) in TABLE
