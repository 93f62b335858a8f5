"""How long a process waits for a lease: longer than a dead holder's session, not for a live holder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtool.plan.flow.status import FlowMember

SESSION_SECONDS = 10.0
NEWCOMER_WAITS_SECONDS = 15.0
"""For somebody who lives."""
LOOK_SECONDS = 1.0
"""Between two looks at who holds the lease."""
NOBODY_WAITS_SECONDS = 60.0
"""For members that died: the group counts them until their sessions end, and may give the lease to several in turn."""
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
        """That one has the lease now. While members come and go nobody does for a moment, and nobody has lost it."""
        self.holder = holder
        if holder is not None and holder.client_id != self._lasting:
            self._lasting, self._since = holder.client_id, now

    def ends(self, holder: FlowMember | None, now: float) -> bool:
        """Whether it makes no sense to wait on, given who has the lease now: somebody else, or nobody still."""
        self.saw(holder, now)
        waited = now - self.began
        if holder is None:
            return waited >= NOBODY_WAITS_SECONDS
        return waited >= NEWCOMER_WAITS_SECONDS and now - self._since >= _OUTLIVED_SECONDS


def waits(holder: FlowMember | None) -> str:
    """For how long, in words."""
    if holder is None:
        return f"{NOBODY_WAITS_SECONDS:g} s at the most, until the sessions of processes that died have ended"
    return f"{NEWCOMER_WAITS_SECONDS:g} s at the most"
