"""Work that ends only when it is cut off."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

T = TypeVar("T")


@asynccontextmanager
async def under_way(work: Coroutine[None, None, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Its task, and after the block it is cut off."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def cut_off_after(seconds: float, work: Coroutine[None, None, object]) -> None:
    """It runs for so long."""
    async with under_way(work):
        await asyncio.sleep(seconds)
