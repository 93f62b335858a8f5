"""A thread that works until it is stopped: a producer, a consumer or a watcher."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

from mmtool.errors import GateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

JOIN_SECONDS = 60.0  # a busy machine's last commit and last fetch
END_SECONDS = 10.0  # of a tour that is not played to its end


class Worker:
    """Runs ``body`` in a thread; an error that ends it early is raised by ``check`` and ``finish``.

    As a context manager it starts, and finishes.
    """

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self.name = name
        self.stopping = threading.Event()
        self._body = body
        self._failure: BaseException | None = None
        # as a daemon it cannot keep a process alive that has been told to end
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.finish()

    def check(self) -> None:
        """Raise the error that ended the thread, if there is one."""
        if self._failure is not None:
            raise self._failure

    def finish(self) -> None:
        """Ask the thread to stop, and wait until its last work is done; raise its error.

        Raises:
            GateError: The thread did not stop within a minute.
        """
        self.stopping.set()
        self.wait()

    def wait(self) -> None:
        """Wait until the thread has ended by itself; raise its error, as `finish`."""
        self._thread.join(JOIN_SECONDS)
        self.check()
        if self._thread.is_alive():
            raise GateError(f"{self.name} did not end in {JOIN_SECONDS:.0f} s", code="timeout")

    def ended(self, seconds: float) -> bool:
        """Whether the thread ends within so many seconds, or never began; its error is not raised."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._body()
        except BaseException as error:  # noqa: BLE001 - whoever waits for the thread must hear of it
            self._failure = error


def end_together(workers: Sequence[Worker], seconds: float = END_SECONDS) -> None:
    """Ask all workers to stop, then wait for all of them for no longer than ``seconds``.

    Their clients close while the brokers still answer: librdkafka can hang forever in a client that closes while the
    leader of its partitions goes away (its issue 5476), and confluent-kafka then holds up every thread of the process.
    """
    for worker in workers:
        worker.stopping.set()
    deadline = time.monotonic() + seconds
    for worker in workers:
        worker.ended(max(0.0, deadline - time.monotonic()))
