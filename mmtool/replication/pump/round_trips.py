"""Measure the round-trip time to the target, and derive from it how large batches have to be.

A partition has at most five batches in flight, so over a link of 160 ms it sends 31 batches a second, whatever the
bandwidth. Small batches are therefore joined, more of them the longer the round trip is; on a short one they are left
as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

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
