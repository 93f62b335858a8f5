"""The batch wire for callers without an event loop: one loop for the process, in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from mmtool.kafka.errors import unreachable
from mmtool.kafka.patience import RetriableError, again
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster
from mmtool.runtime.threads import LookUps

T = TypeVar("T")


_beginning = threading.Lock()
_begun: asyncio.AbstractEventLoop | None = None


def _loop() -> asyncio.AbstractEventLoop:
    global _begun  # noqa: PLW0603  of the process
    with _beginning:
        if _begun is None:
            _begun = asyncio.new_event_loop()
            _begun.set_default_executor(LookUps())
            threading.Thread(target=_begun.run_forever, name="wire", daemon=True).start()
        return _begun


def _begin_child() -> None:
    """Begin a loop of its own in a forked process: the parent's thread is not there."""
    global _beginning, _begun
    _beginning, _begun = threading.Lock(), None


os.register_at_fork(after_in_child=_begin_child)


def run_beside(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that has its own connections and timeouts on the shared event loop; return its result."""
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


class _Errand:
    """A question on its way, on the loop's thread: an interrupt may come before the caller has anything to cancel."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._given_up = False

    async def run(self, question: Coroutine[Any, Any, T]) -> T:
        if self._given_up:
            question.close()
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        return await question

    def give_up(self) -> None:
        self._given_up = True
        if self._task is not None:
            self._task.cancel()


class BlockingWireClient:
    """A cluster on that loop; its connections open at the first request and close with this object.

    A request that is not answered in time closes them as well, and the next one connects again.

    Args:
        cluster: Not yet connected.
        seconds: How long one question may take.
        patience: For how many seconds a question is asked again after a temporary error or a lost connection: a
            question that may be repeated.
    """

    def __init__(self, cluster: WireCluster, seconds: float, patience: float = 0.0) -> None:
        self.alias = cluster.alias
        self._cluster = cluster
        self._seconds = seconds
        self._patience = patience
        self._started = False
        self._starting = asyncio.Lock()
        weakref.finalize(self, _close, cluster).atexit = False

    def ask(self, question: Callable[[WireCluster], Awaitable[T]], what: str) -> T:
        """Run requests to the cluster on the shared event loop and wait for their result.

        ``what`` names the request in the error.

        Raises:
            UnreachableError: the cluster does not answer in time, or a connection broke.
            Exception: whatever ``question`` raises.
        """
        loop, errand = _loop(), _Errand()
        try:
            return asyncio.run_coroutine_threadsafe(errand.run(self._asked(question, what)), loop).result()
        except BaseException:
            # whoever is interrupted goes on with something else, maybe the contrary
            loop.call_soon_threadsafe(errand.give_up)
            raise

    async def _asked(self, question: Callable[[WireCluster], Awaitable[T]], what: str) -> T:
        async def attempt() -> T:
            try:
                return await question(self._cluster)
            except ConnectionLostError as lost:
                raise RetriableError(unreachable(self.alias, what, lost)) from lost

        try:
            async with asyncio.timeout(self._seconds):
                async with self._starting:
                    if not self._started:
                        await self._cluster.start()
                        self._started = True
                return await again(attempt, self._patience)
        except TimeoutError as error:
            # a broker that hangs keeps its connection, and another may lead by now: the next question begins anew
            self._started = False
            await self._cluster.close()
            raise unreachable(self.alias, what, f"no answer within {self._seconds:g} s") from error


def _close(cluster: WireCluster) -> None:
    """Close a cluster; called by the garbage collector, maybe on a thread that holds `_beginning`."""
    if _begun is not None:
        asyncio.run_coroutine_threadsafe(cluster.close(), _begun)
