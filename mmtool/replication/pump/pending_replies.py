"""Track since when each broker owes an answer to a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

W = TypeVar("W")

SILENT_SECONDS = 10.0
"""How long a broker may owe an answer before it is reported as silent."""


class PendingReplies(Generic[W]):
    """For each broker, when the oldest unanswered request was sent; in seconds of one clock."""

    def __init__(self) -> None:
        self._since: dict[W, float] = {}

    def asked(self, whom: W, now: float) -> None:
        """Note that a request to ``whom`` was sent.

        The time of an earlier request that is still unanswered stays.
        """
        self._since.setdefault(whom, now)

    def answered(self, whom: W, now: float, *, owes_more: bool = False) -> None:
        """Note that ``whom`` answered; ``owes_more`` if other requests to it are still pending."""
        self._since.pop(whom, None)
        if owes_more:
            self._since[whom] = now

    def let_go(self, whom: W) -> None:
        """Forget the pending request to ``whom``: its answer is not needed any more."""
        self._since.pop(whom, None)

    @property
    def whom(self) -> Iterable[W]:
        """The brokers or connections with a pending request."""
        return self._since.keys()

    def silent(self, now: float) -> list[W]:
        """The brokers or connections that have owed an answer for more than `SILENT_SECONDS`."""
        return [one for one, since in self._since.items() if now - since > SILENT_SECONDS]

    def seconds(self, whom: Iterable[W], now: float) -> float:
        """The longest that any of ``whom`` has owed an answer, in seconds; 0 if none does."""
        return now - min((self._since[one] for one in whom if one in self._since), default=now)
