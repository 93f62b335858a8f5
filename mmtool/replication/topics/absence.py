"""Repeat a metadata request for a while before a topic or leader counts as missing.

A broker learns of a new topic, or of a partition's new leader, a moment later than others do.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

K = TypeVar("K")
T = TypeVar("T")

_LOOK_SECONDS = 0.2


class AbsenceCheck(Generic[K]):
    """Repeats the request while a topic or leader is newly missing; one that was missing before causes no wait.

    Attributes:
        missing: What was missing at the last check.
        is_first: Whether no check was made before.
    """

    def __init__(self) -> None:
        self.missing: frozenset[K] = frozenset()
        self.is_first = True

    async def of(self, look: Callable[[], Awaitable[tuple[T, Collection[K]]]], seconds: float) -> T:
        """The result of ``look``, repeated while something is newly missing, for up to ``seconds``.

        Args:
            look: Returns a result, and what is missing in it.
            seconds: How long to repeat the request.
        """
        deadline = time.monotonic() + seconds
        while True:
            found, missing = await look()
            if self.missing.issuperset(missing) or time.monotonic() >= deadline:
                self.missing, self.is_first = frozenset(missing), False
                return found
            await asyncio.sleep(_LOOK_SECONDS)
