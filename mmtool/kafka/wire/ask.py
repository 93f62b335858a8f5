"""Hedged requests: ask the next broker if one is silent or fails, and return the first answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

A = TypeVar("A")

NEXT_SECONDS = 2.0
"""Seconds that one request is waited for before the next one starts; longer than a distant cluster takes."""


async def first_answer(
    asks: Sequence[Callable[[], Coroutine[Any, Any, A]]], lost: tuple[type[Exception], ...]
) -> tuple[int, A]:
    """Start requests one after the other; return the index and the answer of the first one that is answered.

    The next one starts when one fails, or has been silent for `NEXT_SECONDS`.

    Args:
        asks: The requests, at least one; those that still run at the end are cancelled.
        lost: Failures of one request that leave the others their chance.

    Raises:
        Exception: the last of ``lost`` when every request ended so; any other failure at once.
    """
    under_way: dict[asyncio.Task[A], int] = {}
    number, failure = 0, None
    try:
        while number < len(asks) or under_way:
            if number < len(asks):
                under_way[asyncio.create_task(asks[number]())] = number
                number += 1
            patience = NEXT_SECONDS if number < len(asks) else None
            done, _ = await asyncio.wait(under_way, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=under_way.__getitem__):
                which = under_way.pop(task)
                try:
                    return which, task.result()
                except lost as error:
                    failure = error
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
    assert failure is not None
    raise failure
