"""How long brokers are waited for: requests that are repeated, and hedged ones, which the next broker gets as well.

A coordinator that still loads its groups answers with a temporary error; so does a partition that elects its leader.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence

    from mmtool.errors import MmtoolError

AT_ONCE = 200
"""Requests of one key each that are sent together: enough to hide round trips, too few to wait in a queue."""

_ELECTED_SECONDS = 15.0
"""Longest retry, in seconds, of an item that is left out otherwise.

A frozen broker is fenced after 9 s (``broker.session.timeout.ms``), and another one leads soon after."""
_SHORT_SECONDS = 5.0
_LEAST_SECONDS = 2.0
_TRIES = 3

FIRST_PAUSE_SECONDS = 0.05
PAUSE_SECONDS = 0.1

NEXT_SECONDS = 2.0
"""Seconds that one request is waited for before the next one starts; longer than a distant cluster takes."""

A = TypeVar("A")
Key = TypeVar("Key")
Value = TypeVar("Value")


class RetriableError(Exception):
    """A temporary error, which a later answer may replace.

    Attributes:
        final: The error when none does.
        seconds: How long a later answer is waited for; None: as long as for any.
    """

    def __init__(self, final: MmtoolError, seconds: float | None = None) -> None:
        super().__init__(str(final))
        self.final = final
        self.seconds = seconds


async def again(
    attempt: Callable[[], Awaitable[Value]], seconds: float, longest_pause: float = PAUSE_SECONDS
) -> Value:
    """Run ``attempt`` and return its result; repeat it for at most ``seconds`` while it raises `RetriableError`.

    The pauses between attempts grow up to ``longest_pause``, in seconds.
    """
    pause = FIRST_PAUSE_SECONDS
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            return await attempt()
        except RetriableError as answer:
            if asyncio.get_running_loop().time() >= deadline:
                raise answer.final from answer
        await asyncio.sleep(pause)
        pause = min(pause * 2, longest_pause)


def seconds_for_each(seconds: float) -> float:
    """How long to retry an item that is left out otherwise, in seconds, from the time limit of one request.

    Less than ``seconds``, and longer than a leader election, as far as both are possible.
    """
    return min(max(seconds / 2, min(seconds, _SHORT_SECONDS)), _ELECTED_SECONDS)


def seconds_of_a_try(seconds: float) -> float:
    """How long to wait for one broker, in seconds of a total of ``seconds``: another broker may lead by then."""
    return max(seconds / _TRIES, min(seconds, _LEAST_SECONDS))


def handfuls(keys: list[Key], size: int) -> Iterator[list[Key]]:
    """Split keys into lists of at most ``size``, in order."""
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


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
