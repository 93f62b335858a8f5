"""The phase of one flow in this process, and the only code that changes it."""

from __future__ import annotations

import asyncio

from mmtool.plan.flow.phases import (
    CLAIMED,
    IN_DOUBT,
    LEASED,
    START,
    FlowEvent,
    FlowPhase,
    FlowTransition,
    advance,
)


class FlowLife:
    """Changes phases by `mmtool.plan.flow.phases.TABLE`, on the event loop. Other threads may read `phase`.

    A. Rounds are planned for a flow, and its shards recorded as closed, only while they are claimed and not in doubt.
    B. Once claimed, a flow is claimed again only in doubt: every shard is fenced.

    Attributes:
        phase: The flow's current phase.
        leased: Set while this process holds the ownership lease.
    """

    def __init__(self, phase: FlowPhase = START) -> None:
        self.phase = phase
        self.leased = asyncio.Event()
        self._show_lease()

    def happen(self, event: FlowEvent) -> FlowTransition:
        """Move the flow to the next phase that the table gives for the event; returns the transition.

        Raises:
            IllegalFlowEventError: the table has no such row; nothing has changed.
        """
        transition = advance(self.phase, event)
        self.phase = transition.next
        self._show_lease()
        return transition

    def _show_lease(self) -> None:
        (self.leased.set if self.is_leased else self.leased.clear)()

    @property
    def is_leased(self) -> bool:
        """Whether this process holds the ownership lease."""
        return self.phase in LEASED

    @property
    def is_claimed(self) -> bool:
        """Whether rounds are planned for the flow."""
        return self.phase in CLAIMED

    @property
    def is_in_doubt(self) -> bool:
        """Whether this process may have appended batches that the flow's stored state does not contain."""
        return self.phase in IN_DOUBT
