"""Asking a broker again when its answer is only "not now".

librdkafka repeats most requests by itself, but hands some passing answers up: a coordinator that still loads
its groups, a partition that elects its leader. Its own errors are final: it has repeated enough.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaException

from mmtool.kafka.errors import is_passing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping

AT_ONCE = 200
"""Requests of one key each that are sent together: enough to hide round trips, too few to wait in a queue."""

_PAUSE_SECONDS = 0.1

Key = TypeVar("Key")
Value = TypeVar("Value")


class NotNowError(Exception):
    """An answer that a later one may replace; ``final`` is what to raise when it does not."""

    def __init__(self, final: Exception) -> None:
        super().__init__(str(final))
        self.final = final


def ask(
    keys: Collection[Key],
    send: Callable[[list[Key]], Mapping[Key, Any]],
    take: Callable[[Key, Any], Value],
    seconds: float,
    *,
    at_once: int = AT_ONCE,
) -> dict[Key, Value]:
    """The answer for each key.

    Args:
        keys: What to ask about; sent in handfuls, and alone again where the answer was not final.
        send: A future for each of some keys.
        take: Makes a value of a key and its future; raises `NotNowError` for an answer that is not final.
        seconds: For all of it.
        at_once: How many keys are sent together; more where one request carries many of them.
    """
    found: dict[Key, Value] = {}
    left, deadline = list(keys), time.monotonic() + seconds
    while left:
        again = []
        for some in handfuls(left, at_once):
            futures = send(some)
            for key in some:
                try:
                    found[key] = take(key, futures[key])
                except NotNowError as answer:
                    if time.monotonic() > deadline:
                        raise answer.final from answer
                    again.append(key)
        left = again
        if left:
            time.sleep(_PAUSE_SECONDS)
    return found


def result(future: Any, seconds: float, failure: Callable[[Any], Exception | None]) -> Any:
    """A future's result, or None.

    Args:
        future: Of librdkafka's, which ends by itself when its time is up.
        seconds: How long a lost answer is waited for.
        failure: Makes our error of a ``KafkaError``; None takes the error for an answer.

    Raises:
        NotNowError: The broker's answer is a passing one.
    """
    try:
        return future.result(seconds)
    except KafkaException as error:
        ours = failure(error.args[0])
        if ours is None:
            return None
        if is_passing(error.args[0]):
            raise NotNowError(ours) from error
        raise ours from error


async def again(attempt: Callable[[], Awaitable[Value]], seconds: float) -> Value:
    """What ``attempt`` gets to know, repeated while it raises `NotNowError`, but not longer than ``seconds``."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            return await attempt()
        except NotNowError as answer:
            if asyncio.get_running_loop().time() > deadline:
                raise answer.final from answer
        await asyncio.sleep(_PAUSE_SECONDS)


def handfuls(keys: list[Key], size: int) -> Iterator[list[Key]]:
    """The keys in order, ``size`` of them at a time."""
    for start in range(0, len(keys), size):
        yield keys[start : start + size]
