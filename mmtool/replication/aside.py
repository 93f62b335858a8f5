"""Work beside a round: a cluster that does not answer must not hold up the loop that shows it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


class Aside:
    """One piece of work at a time, asked for its outcome now and then."""

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


def left_behind(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """What ``work`` returns, from a daemon thread that nobody waits for: whoever ends early leaves it behind.

    That is how Spark is started; its JVM ends with this process, whose pipe it reads.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def set_once(call: Callable[[Any], None], value: object) -> None:
        if not done.done():  # who left it behind has cancelled it
            call(value)

    def tell(call: Callable[[Any], None], value: object) -> None:
        with suppress(RuntimeError):  # the loop is gone
            loop.call_soon_threadsafe(set_once, call, value)

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  whoever waits must hear of it
            tell(done.set_exception, error)
        else:
            tell(done.set_result, result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done
