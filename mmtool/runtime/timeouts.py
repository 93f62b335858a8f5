"""Wait for something with a time limit.

``asyncio.wait_for`` is not used: before Python 3.12 it swallows a cancellation that arrives at the very moment when the
awaited result does, and a task that should end then continues.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")


async def within(seconds: float, work: Awaitable[T]) -> T:
    """Await ``work`` for at most ``seconds``, and return its result.

    Raises:
        TimeoutError: There was no result in time.
    """
    async with asyncio.timeout(seconds):
        return await work


async def came_within(seconds: float, work: Awaitable[object]) -> bool:
    """Whether ``work`` ended within ``seconds``; its result is dropped."""
    try:
        await within(seconds, work)
    except TimeoutError:
        return False
    return True
