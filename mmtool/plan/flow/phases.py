"""The life of a flow in the process that runs it, as a table: (phase, event) -> the next phase.

An event that the table does not know raises and changes nothing. Two facts decide what may be done with a flow, and the
phase holds both: whether the ownership lease is held, and whether its shards are claimed with nothing in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FlowPhase(StrEnum):
    """The phase of a flow in one process; each has a sentence in `MEANING`."""

    DEFERRED = "deferred"
    JOINING = "joining"
    OWNED = "owned"
    RUNNING = "running"
    LOST = "lost"
    GIVEN_UP = "given_up"
    REACQUIRING = "reacquiring"
    RECLAIMING = "reclaiming"
    CLOSED = "closed"


class FlowEvent(StrEnum):
    """What can happen to a flow."""

    JOIN = "join"
    LEASE_HELD = "lease_held"
    LEASE_LOST = "lease_lost"
    GIVE_UP = "give_up"
    CLAIM = "claim"
    DOUBT = "doubt"
    SOURCE_BACK = "source_back"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class FlowTransition:
    """The next phase of an event, and its meaning in one sentence."""

    next: FlowPhase
    sentence: str


START = FlowPhase.DEFERRED

MEANING = {
    FlowPhase.DEFERRED: "not started yet",
    FlowPhase.JOINING: "waiting for the ownership lease",
    FlowPhase.OWNED: "this process owns the flow; mirroring has not started yet",
    FlowPhase.RUNNING: "this process owns and mirrors the flow",
    FlowPhase.LOST: "lost the ownership lease; asking for it again",
    FlowPhase.GIVEN_UP: "lost ownership; its workers are being stopped",
    FlowPhase.REACQUIRING: "reacquiring ownership",
    FlowPhase.RECLAIMING: "this process owns the flow, and checks the last batches before mirroring restarts",
    FlowPhase.CLOSED: "stopped",
}
"""The sentence of each phase, for operators."""

LEASED = frozenset({FlowPhase.OWNED, FlowPhase.RUNNING, FlowPhase.RECLAIMING})
"""The phases in which this process holds the ownership lease."""

CLAIMED = frozenset({FlowPhase.RUNNING, FlowPhase.LOST, FlowPhase.GIVEN_UP})
"""The phases in which this process has claimed the shards, and nothing on the target is in doubt: it plans rounds.

A lost lease alone does not end them: another owner fences before it writes, so each record is mirrored once or refused.
"""

IN_DOUBT = frozenset({FlowPhase.REACQUIRING, FlowPhase.RECLAIMING})
"""The phases in which this process had claimed the shards, and does not know whether its last batches were appended.

It fences every shard before it continues to mirror.
"""

_LEASE_LOST = (
    "lost the ownership lease; asking for it again; the workers continue until another process takes the flow"
    " over"
)
_CLAIMED_WITHOUT = (
    "lost the ownership lease while mirroring started; asking for it again;"
    " this process mirrors until another one takes the flow over"
)
_LEASE_BACK = "the ownership lease is held again; workers that still run continue"
_LOST = "lost ownership; reacquiring"
_SOURCE_BACK = (
    "a partition on the source has a leader again, or was deleted; the flow checks its last writes first"
)

TABLE: dict[tuple[FlowPhase, FlowEvent], FlowTransition] = {
    (FlowPhase.DEFERRED, FlowEvent.JOIN): FlowTransition(
        FlowPhase.JOINING, "both clusters answer; asking for the ownership lease"
    ),
    (FlowPhase.JOINING, FlowEvent.LEASE_HELD): FlowTransition(
        FlowPhase.OWNED, "the ownership lease is held; mirroring starts next"
    ),
    (FlowPhase.OWNED, FlowEvent.LEASE_LOST): FlowTransition(
        FlowPhase.JOINING, "lost the ownership lease before mirroring began; asking for it again"
    ),
    (FlowPhase.OWNED, FlowEvent.CLAIM): FlowTransition(
        FlowPhase.RUNNING, "claimed the flow, which fences an earlier owner; mirroring"
    ),
    (FlowPhase.RUNNING, FlowEvent.LEASE_LOST): FlowTransition(FlowPhase.LOST, _LEASE_LOST),
    (FlowPhase.LOST, FlowEvent.LEASE_HELD): FlowTransition(FlowPhase.RUNNING, _LEASE_BACK),
    (FlowPhase.LOST, FlowEvent.GIVE_UP): FlowTransition(
        FlowPhase.GIVEN_UP, "another process owns the flow, or this process could not get the lease for 60 s"
    ),
    (FlowPhase.GIVEN_UP, FlowEvent.LEASE_HELD): FlowTransition(FlowPhase.RUNNING, _LEASE_BACK),
    (FlowPhase.RUNNING, FlowEvent.DOUBT): FlowTransition(
        FlowPhase.RECLAIMING, "the last batches may be incomplete; checking them before mirroring restarts"
    ),
    (FlowPhase.LOST, FlowEvent.DOUBT): FlowTransition(FlowPhase.REACQUIRING, _LOST),
    (FlowPhase.GIVEN_UP, FlowEvent.DOUBT): FlowTransition(FlowPhase.REACQUIRING, _LOST),
    (FlowPhase.RUNNING, FlowEvent.SOURCE_BACK): FlowTransition(FlowPhase.RECLAIMING, _SOURCE_BACK),
    (FlowPhase.LOST, FlowEvent.SOURCE_BACK): FlowTransition(FlowPhase.REACQUIRING, _SOURCE_BACK),
    (FlowPhase.GIVEN_UP, FlowEvent.SOURCE_BACK): FlowTransition(FlowPhase.REACQUIRING, _SOURCE_BACK),
    (FlowPhase.REACQUIRING, FlowEvent.LEASE_HELD): FlowTransition(
        FlowPhase.RECLAIMING, "the ownership lease is held again; mirroring restarts next"
    ),
    (FlowPhase.RECLAIMING, FlowEvent.LEASE_LOST): FlowTransition(
        FlowPhase.REACQUIRING, "lost the ownership lease again; asking for it"
    ),
    (FlowPhase.RECLAIMING, FlowEvent.CLAIM): FlowTransition(
        FlowPhase.RUNNING, "claimed the flow again and checked it; mirroring"
    ),
    (FlowPhase.JOINING, FlowEvent.CLAIM): FlowTransition(FlowPhase.LOST, _CLAIMED_WITHOUT),
    (FlowPhase.REACQUIRING, FlowEvent.CLAIM): FlowTransition(FlowPhase.LOST, _CLAIMED_WITHOUT),
    # the group may admit this process while it leaves
    (FlowPhase.CLOSED, FlowEvent.LEASE_HELD): FlowTransition(FlowPhase.CLOSED, "stopped"),
    **{
        (phase, FlowEvent.CLOSE): FlowTransition(FlowPhase.CLOSED, "stopped; the ownership lease is released")
        for phase in FlowPhase
    },
}


class IllegalFlowEventError(Exception):
    """An event that is impossible in the flow's phase: a defect of mmtool, never the operator's fault."""


def advance(phase: FlowPhase, event: FlowEvent) -> FlowTransition:
    """The transition of an event in a phase.

    Raises:
        IllegalFlowEventError: The table has no such row.
    """
    try:
        return TABLE[phase, event]
    except KeyError:
        raise IllegalFlowEventError(f"{event} cannot happen to a flow that is {phase}") from None
