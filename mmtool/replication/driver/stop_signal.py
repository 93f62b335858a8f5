"""Await work that may never end, beside a round or until a stop is requested."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine


T = TypeVar("T")


class StopAskedError(Exception):
    """A stop was requested while the driver was still waiting."""


async def or_stop(work: asyncio.Future[T], stop: asyncio.Event) -> T:
    """The result of ``work``; a stop leaves the work running, unlike in `unless_stopped`.

    Raises:
        StopAskedError: the stop came first.
    """
    stopping = asyncio.ensure_future(stop.wait())
    either: set[asyncio.Future[Any]] = {work, stopping}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
    if not work.done():
        raise StopAskedError
    return work.result()


async def unless_stopped(work: Coroutine[None, None, T], stop: asyncio.Event) -> T:
    """The result of ``work``; a stop cancels the work, unlike in `or_stop`.

    Raises:
        StopAskedError: the stop came first.
    """
    task = asyncio.ensure_future(work)
    try:
        return await or_stop(task, stop)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


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
