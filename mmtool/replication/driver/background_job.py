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
        """Whether no task runs, and no outcome waits to be taken by `succeeded`."""
        return self._task is None

    def begin(self, work: Coroutine[None, None, bool]) -> None:
        """Start ``work`` as the background task; call it only while `free`."""
        self._task = asyncio.ensure_future(work)

    def succeeded(self) -> bool:
        """Whether the task has ended with True since the last call; an ended task is cleared.

        Raises:
            Exception: the error with which the task ended.
        """
        if self._task is None or not self._task.done():
            return False
        task, self._task = self._task, None
        return task.result()

    async def drop(self) -> None:
        """Cancel the background task, if there is one, and wait until it has ended."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def to_its_end(work: Coroutine[None, None, None]) -> None:
    """Await work that must not be cut off: a cancelled caller still waits until the work has ended."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
