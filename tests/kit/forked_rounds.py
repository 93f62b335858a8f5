"""Rounds without Spark: each task runs in a forked Python process, as in Spark's Python workers, and no JVM starts.

For the tests that are not about Spark: they run the same copier on the same brokers. ``python -m kit.forked_rounds``
is ``python -m mmtool`` with these rounds. Where the properties file names a master or configures Spark, Spark runs.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import traceback
from concurrent.futures import Future
from contextlib import suppress
from functools import cache, partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, TypeVar

from mmtool.__main__ import main
from mmtool.replication.driver import engine
from mmtool.replication.spark import rounds
from mmtool.replication.spark.rounds import SparkSlots
from mmtool.replication.spark.task import run_task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mmtool.replication.spark.assignment import ReportRow, TaskAssignment
    from mmtool.replication.spark.rounds import Rounds

    Opener = Callable[[str, Mapping[str, str]], Rounds]

T = TypeVar("T")
R = TypeVar("R")

_ATTEMPTS = 4
open_spark = rounds.open_rounds


class WorkerError(Exception):
    """The last attempt of a task failed; the message is the worker's traceback, as in Spark's exceptions."""


class ForkedRounds:
    """`Rounds` in processes that a daemon forks, one for each attempt of a task.

    Args:
        daemon: A socket to the process that forks; each message to it carries the socket of a new worker.
        held: Tasks that run at once.
    """

    tells_slots = True

    def __init__(self, daemon: socket.socket, held: int) -> None:
        self._daemon = daemon
        self._held = held
        self._slots = threading.Semaphore(held)
        self._workers: set[int] = set()
        self._waiting = 0
        self._lock = threading.Lock()
        self._cancelled = threading.Event()

    def run(self, tasks: Sequence[TaskAssignment]) -> list[ReportRow]:
        return [row for rows in self._all([partial(run_task, task) for task in tasks]) for row in rows]

    def each(self, items: Sequence[T], work: Callable[[T], R]) -> list[R]:
        return self._all([partial(_first_of, work, item) for item in items])

    def cancel(self) -> None:
        self._cancelled.set()
        with self._lock:
            for pid in self._workers:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def slots(self) -> SparkSlots | None:
        return SparkSlots(self._held, self._waiting)

    def asked_slots(self) -> int | None:
        return None

    def probe(self) -> None:
        """Nothing is slow to start: the daemon has the copier loaded."""

    def stop(self) -> None:
        self.cancel()

    def _all(self, works: Sequence[Callable[[int], R]]) -> list[R]:
        """The results of all works; the first that fails for good ends the others."""
        self._cancelled.clear()
        self._waiting = len(works)
        done: list[Future[R]] = [Future() for _ in works]
        for work, future in zip(works, done, strict=True):
            threading.Thread(target=self._settle, args=(work, future), daemon=True).start()
        return [future.result() for future in done]

    def _settle(self, work: Callable[[int], R], future: Future[R]) -> None:
        with self._slots:
            self._waiting -= 1
            try:
                future.set_result(self._attempts(work))
            except Exception as error:  # noqa: BLE001  the caller raises it
                self.cancel()
                future.set_exception(error)

    def _attempts(self, work: Callable[[int], R]) -> R:
        for attempt in range(_ATTEMPTS):
            try:
                return self._attempt(partial(work, attempt))
            except WorkerError:
                if self._cancelled.is_set() or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    def _attempt(self, work: Callable[[], R]) -> R:
        with _forked(self._daemon) as worker:
            try:
                pid = worker.recv()
            except (EOFError, OSError) as error:
                raise ConnectionResetError("the daemon that forks workers is gone") from error
            with self._lock:
                self._workers.add(pid)
                if self._cancelled.is_set():  # while it was forked
                    os.kill(pid, signal.SIGKILL)
            try:
                worker.send(work)
                result, failure = worker.recv()
            except (EOFError, OSError):
                result, failure = None, "WorkerError: a worker died"
            finally:
                with self._lock:
                    self._workers.discard(pid)
        if failure:
            raise WorkerError(failure)
        return result  # type: ignore[no-any-return]


def _first_of(work: Callable[[T], R], item: T, _attempt: int) -> R:
    return work(item)


def _forked(daemon: socket.socket) -> Connection:
    """A connection to a new worker.

    Raises:
        ConnectionResetError: the daemon is gone, as the JVM may be.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            socket.send_fds(daemon, [b"."], [theirs.fileno()])
        except BrokenPipeError as error:
            ours.close()
            raise ConnectionResetError("the daemon that forks workers is gone") from error
    return Connection(ours.detach())


def _serve(control: socket.socket) -> None:
    """Fork a worker for each message, until the process that sends them has ended."""
    os.setpgid(0, 0)  # signals that a terminal sends to the driver are not for its workers
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _work(Connection(files[0]))
        os.close(files[0])


def _work(driver: Connection) -> None:
    """Do the one piece of work of a worker, and end the process."""
    try:
        driver.send(os.getpid())
        try:
            answer = (driver.recv()(), "")
        except Exception:  # noqa: BLE001  the driver decides
            answer = (None, traceback.format_exc())
        driver.send(answer)
    finally:
        os._exit(0)


def _fork_daemon() -> socket.socket:
    """A daemon forked from this process, which has one thread and the copier loaded."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        _serve(theirs)
    theirs.close()
    return ours


@cache
def _start_daemon() -> socket.socket:
    """A daemon for a process that may have threads; it ends with that process."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-P", "-m", __spec__.name, "--daemon", str(theirs.fileno())]
        subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
    return ours


def open_here(master: str, conf: Mapping[str, str]) -> Rounds:
    """Forked rounds for this process, which may have threads."""
    return _opener(_start_daemon)(master, conf)


def _opener(daemon: Callable[[], socket.socket]) -> Opener:
    def open_rounds(master: str, conf: Mapping[str, str]) -> Rounds:
        slots = re.fullmatch(r"local\[(\d+),\d+\]", master)  # as `local_master`
        if slots is None or conf:
            return open_spark(master, conf)
        return ForkedRounds(daemon(), int(slots[1]))

    return open_rounds


def inject(opener: Opener) -> None:
    """Let the commands of this process open their rounds with ``opener``."""
    for module in (rounds, engine):
        module.open_rounds = opener  # type: ignore[attr-defined]


def run() -> None:
    """Run this process's command line with forked rounds; the process has one thread yet."""
    daemon = _fork_daemon()
    inject(_opener(lambda: daemon))
    main()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--daemon"]:
        _serve(socket.socket(fileno=int(sys.argv[2])))
    run()
