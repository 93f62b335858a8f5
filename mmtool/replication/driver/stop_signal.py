"""Await work that may never end, but return when a stop is requested."""

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
