"""What answers tell: how long they take, how large batches have to be for that, and which broker owes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet


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


_WINDOW_SECONDS = 30.0
_BYTES_PER_SECOND = 128e6
"""The bandwidth to fill: a wider link is used in part, on a narrower one batches are larger than needed."""

_NEAR_SECONDS = 0.010
"""Shorter round trips need no joined batches.

A busy broker nearby takes as long, and batches of 16 KB fill a gigabit link over it."""

_UNDER_WAY = 5
_LARGEST = 1 << 20


class RoundTrips:
    """The shortest response time of the last minute; longer ones include waiting at the broker or in the worker.

    It has no clock: callers pass the time in seconds.
    """

    def __init__(self) -> None:
        self._shortest: float | None = None
        self._before: float | None = None
        self._busy: set[object] = set()
        self._busy_before = 0
        self._window_ends = 0.0
        self.goal_bytes = 0

    def note(self, seconds: float, partitions: AbstractSet[object], now: float) -> None:
        """Note that a request about ``partitions`` was answered after ``seconds``, and update ``goal_bytes``."""
        if now >= self._window_ends:
            self._window_ends = now + _WINDOW_SECONDS
            self._before, self._shortest = self._shortest, None
            self._busy_before = len(self._busy)
            self._busy.clear()
        self._shortest = seconds if self._shortest is None else min(self._shortest, seconds)
        self._busy |= partitions
        shortest = self._shortest if self._before is None else min(self._shortest, self._before)
        busy = max(len(self._busy), self._busy_before, 1)
        if shortest < _NEAR_SECONDS:
            self.goal_bytes = 0
            return
        self.goal_bytes = min(_LARGEST, int(shortest * _BYTES_PER_SECOND / (_UNDER_WAY * busy)))
