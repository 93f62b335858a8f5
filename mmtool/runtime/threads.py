"""Blocking work of an event loop in threads that the end of the process does not wait for; time limits and stops.

asyncio's own threads (``to_thread``) are waited for, however long a cluster hangs: a requested stop would take as long
as the slowest client's timeout.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Once(Generic[T]):
    """Work whose result several threads want: the first one does it, the others wait for it.

    Args:
        work: What is done; what it raises is raised to each of them.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._done: Future[T] | None = None

    def __call__(self) -> T:
        """The result of ``work``, or its error; it runs once, and other callers wait for it."""
        with self._lock:
            is_first, self._done = self._done is None, self._done or Future()
        if is_first:
            try:
                self._done.set_result(self._work())
            except BaseException as error:  # noqa: BLE001  whoever waits must hear of it
                self._done.set_exception(error)
        return self._done.result()


async def in_thread(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Run ``work`` in a daemon thread and return its result; a cancelled caller does not wait for the thread."""
    return await left_behind(partial(work, *args, **named), getattr(work, "__qualname__", "work"))


def left_behind(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Run ``work`` in a daemon thread, and return a future of its result; the end of the process does not wait.

    Spark is started by it; its JVM ends with this process, whose pipe it reads.
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


class Unawaited(ThreadPoolExecutor):
    """An executor with a daemon thread for each call. Neither its exit nor the end of the process waits for them.

    For requests to clusters whose answers are awaited: only those are left behind that no caller wants any more.
    """

    _of = "question"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        done: Future[T] = Future()

        def run() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  whoever waits must hear of it
                done.set_exception(error)
            else:
                done.set_result(result)

        threading.Thread(target=run, name=self._of, daemon=True).start()
        return done


class LookUps(Unawaited):
    """The executor for an event loop's own blocking calls: DNS lookups, which take as long as the resolver does.

    Names that no resolver answers would occupy all of a pool's few threads, and the loop, and the process, would end
    only when the last lookup has timed out.
    """

    _of = "look-up"


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as ``asyncio.run``, but without waiting at its end for DNS lookups in progress."""

    async def begin() -> T:
        asyncio.get_running_loop().set_default_executor(LookUps())
        return await main

    return asyncio.run(begin())


# --- wait for something with a time limit ----------------------------------------------------------------
# ``asyncio.wait_for`` is not used: before Python 3.12 it swallows a cancellation that arrives at the very moment when
# the awaited result does, and a task that should end then continues.


async def within(seconds: float | None, work: Awaitable[T]) -> T:
    """Await ``work`` for at most ``seconds`` (None: without an end), and return its result.

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


# --- wait for something until a stop ---------------------------------------------------------------------


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


async def to_its_end(work: Coroutine[None, None, None]) -> None:
    """Await work that must not be cut off: a cancelled caller still waits until the work has ended."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
