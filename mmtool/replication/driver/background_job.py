"""One asyncio task beside a round, so that a hanging cluster does not block the driver's loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine


class BackgroundJob:
    """One background task at a time, polled for its outcome."""

    def __init__(self) -> None:
        self._task: asyncio.Task[bool] | None = None

    @property
    def free(self) -> bool:
        """Whether nothing is under way, and no outcome waits to be taken."""
        return self._task is None

    def begin(self, work: Coroutine[None, None, bool]) -> None:
        """Starts it; only when `free`."""
        self._task = asyncio.ensure_future(work)

    def succeeded(self) -> bool:
        """Whether the work has ended since the last question, and gave True.

        Raises:
            Exception: what it ended with.
        """
        if self._task is None or not self._task.done():
            return False
        task, self._task = self._task, None
        return task.result()

    async def drop(self) -> None:
        """Ends it wherever it is."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def to_its_end(work: Coroutine[None, None, None]) -> None:
    """Awaits work that must not be cut off: who is cancelled meanwhile goes when it has ended, however it did."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
