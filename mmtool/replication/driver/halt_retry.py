"""Decide when to start a new round to retry partitions that halted in the running one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.plan import words

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

FIRST_SECONDS = 15.0
"""Seconds to the first retry: once a right is granted, the partition continues within half a minute."""

GRANT_IT = words.GRANT_IT

RAISE = "mmtool.on.timestamp.refused = raise-limit"
"""The setting with which mmtool raises timestamp limits, so that a target topic accepts every record."""


class HaltRetry:
    """Says when the next round starts because of partitions that are halted in this one.

    A. A reason that was not there before is tried again after `FIRST_SECONDS`.
    B. For a missing right the interval stays the same, without end. Any other reason is tried less and less often:
       each try reads and sends again what is refused.
    """

    def __init__(self) -> None:
        self._known: AbstractSet[str] = frozenset()
        self._since = 0.0
        self._wait = FIRST_SECONDS

    def due(self, reasons: AbstractSet[str], now: float) -> bool:
        """Whether a new round must start now to retry halted partitions.

        Args:
            reasons: The reasons of the partitions that are halted now; empty while a retry runs.
            now: Seconds of a monotonic clock.
        """
        if reasons - self._known:
            self._known, self._since, self._wait = reasons, now, FIRST_SECONDS
        needs_right = any(reason.endswith(GRANT_IT) for reason in reasons)
        if not reasons or now - self._since < (FIRST_SECONDS if needs_right else self._wait):
            return False
        self._since = now
        if not needs_right:
            self._wait *= 2
        return True
