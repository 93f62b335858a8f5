"""How long a newcomer waits for a seat in a group: members that died are waited for, one that lives keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtool.plan.status import FlowMember

SESSION_SECONDS = 10.0
NEWCOMER_WAITS_SECONDS = 15.0
"""For somebody who lives."""
NOBODY_WAITS_SECONDS = 60.0
"""For members that died: before a session ends nobody can tell, and the seat may be given to one dead after another."""
_OUTLIVED_SECONDS = SESSION_SECONDS + 2.0


@dataclass(slots=True)
class SeatWait:
    """A newcomer's wait, from when it asked on.

    A. Only a holder that was seen for longer than a session ends it: the group may give the seat to a member that was
       killed while it joined, which has it until its own session ends.

    Attributes:
        began: When, in seconds, by the clock that is asked later.
    """

    began: float
    _holder: str = ""
    _since: float = 0.0

    def is_over(self, holder: FlowMember | None, now: float) -> bool:
        """Whether it makes no sense to wait on, where the seat is somebody else's, or nobody's yet."""
        if holder is None:
            return now - self.began >= NOBODY_WAITS_SECONDS
        if holder.client_id != self._holder:
            self._holder, self._since = holder.client_id, now
        return now - self.began >= NEWCOMER_WAITS_SECONDS and now - self._since >= _OUTLIVED_SECONDS


def waits(holder: FlowMember | None) -> str:
    """For how long, in words."""
    if holder is None:
        return f"{NOBODY_WAITS_SECONDS:g} s at the most: members that died are still counted"
    return f"{NEWCOMER_WAITS_SECONDS:g} s at the most"
