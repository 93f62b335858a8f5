"""How long a process waits for a lease: longer than a dead holder's session, not for a live holder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtool.plan.flow.status import FlowMember

SESSION_SECONDS = 10.0
NEWCOMER_WAITS_SECONDS = 15.0
"""The least wait while a process holds the lease: long enough to tell a live holder from a dead one."""
LOOK_SECONDS = 1.0
"""The time between two checks of the lease's holder."""
NOBODY_WAITS_SECONDS = 60.0
"""The wait without a holder: the group counts dead members until their sessions end, and may elect several of them."""
_OUTLIVED_SECONDS = SESSION_SECONDS + 2.0


@dataclass(slots=True)
class LeaseWait:
    """The wait of a process that has requested a lease.

    A. Only a holder that was seen for longer than a session ends it: the group may give the lease to a member that was
       killed while it joined, which holds it until its own session ends.

    Attributes:
        began: When it requested the lease, in seconds of the clock that later calls use.
        holder: The member that held the lease at the last check; None without one.
    """

    began: float
    holder: FlowMember | None = None
    _lasting: str = ""
    _since: float = 0.0

    def saw(self, holder: FlowMember | None, now: float) -> None:
        """Note the lease's current holder; None, as during a rebalance, does not restart the last holder's time."""
        self.holder = holder
        if holder is not None and holder.client_id != self._lasting:
            self._lasting, self._since = holder.client_id, now

    def ends(self, holder: FlowMember | None, now: float) -> bool:
        """Whether to stop waiting: a live process has the lease, or the group has elected no holder for too long."""
        self.saw(holder, now)
        waited = now - self.began
        if holder is None:
            return waited >= NOBODY_WAITS_SECONDS
        return waited >= NEWCOMER_WAITS_SECONDS and now - self._since >= _OUTLIVED_SECONDS


def waits(holder: FlowMember | None) -> str:
    """The longest wait for the lease, in words."""
    if holder is None:
        return f"{NOBODY_WAITS_SECONDS:g} s at the most, until the sessions of processes that died have ended"
    return f"{NEWCOMER_WAITS_SECONDS:g} s at the most"
