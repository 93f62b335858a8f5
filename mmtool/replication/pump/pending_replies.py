"""Track since when each broker owes an answer to a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

W = TypeVar("W")

SILENT_SECONDS = 10.0
"""Who owes an answer for that long is worth a word."""


class PendingReplies(Generic[W]):
    """For each broker, when the oldest unanswered request was sent; in seconds of one clock."""

    def __init__(self) -> None:
        self._since: dict[W, float] = {}

    def asked(self, whom: W, now: float) -> None:
        """A question is under way; one that is asked again, for nobody answered, is not the first."""
        self._since.setdefault(whom, now)

    def answered(self, whom: W, now: float, *, owes_more: bool = False) -> None:
        """One was answered; ``owes_more`` tells of others that are still under way."""
        self._since.pop(whom, None)
        if owes_more:
            self._since[whom] = now

    def let_go(self, whom: W) -> None:
        """Nobody wants an answer any more."""
        self._since.pop(whom, None)

    @property
    def whom(self) -> Iterable[W]:
        """Who owes one."""
        return self._since.keys()

    def silent(self, now: float) -> list[W]:
        """Who has owed one for so long that it is worth a word."""
        return [one for one, since in self._since.items() if now - since > SILENT_SECONDS]

    def seconds(self, whom: Iterable[W], now: float) -> float:
        """The longest that any of them has owed one; 0 where none does."""
        return now - min((self._since[one] for one in whom if one in self._since), default=now)
