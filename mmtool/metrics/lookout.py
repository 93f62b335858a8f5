"""Poll a question in a background thread, and keep its last answer, or why there is none."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from mmtool.errors import MmtoolError, NotAuthorisedError, UnreachableError, with_remedy

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def _say_nothing(_: str) -> None:
    """Drop a problem: the default for `Lookout`'s ``say``."""


_STALE_LOOKS = 3
_STALE_SECONDS = 30.0
_IDLE_SHARE = 20.0
"""A poll is followed by a pause of at least this many times its CPU time: at most a 20th of a core is used."""


class Lookout(Generic[T]):
    """Polls in a daemon thread of its own: a hung poll blocks neither other threads nor the end of the process.

    A. `latest` is the answer of the last poll, or None: a poll that failed, or that has not been answered for long,
       leaves no older answer in force.

    Args:
        name: What is asked, for threads and sentences.
        look: Asks; raises what keeps it from being answered.
        every: Seconds from one answer to the next question, at the least.
        say: Called with each new problem, unless a cluster does not answer, which others report.
        clock: Seconds that only go forward.
    """

    def __init__(
        self,
        name: str,
        look: Callable[[], T],
        every: float,
        say: Callable[[str], None] = _say_nothing,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._look = look
        self._every = self._pause = every
        self._say = say
        self._said = ""
        self._clock = clock
        self._told: tuple[float, T] | None = None
        self._error = ""
        self._asked_at = clock()
        self._stopped = threading.Event()
        self.version = 0

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"metrics {self.name}", daemon=True).start()

    def stop(self) -> None:
        """Stop polling; a poll in progress is not waited for."""
        self._stopped.set()

    @property
    def latest(self) -> T | None:
        """The answer of the last poll; None where it failed or is too old."""
        told = self._told
        return None if told is None or self._clock() - told[0] > self._patience else told[1]

    @property
    def _patience(self) -> float:
        return max(_STALE_LOOKS * self._pause, _STALE_SECONDS)

    @property
    def problem(self) -> str:
        """Why there is no answer; empty where there is one."""
        if self.latest is not None:
            return ""
        if self._error:
            return self._error
        seconds = self._clock() - self._asked_at
        return (
            f"a cluster has not answered for {seconds:.0f} s"
            if self._told or seconds > self._patience
            else "not asked yet"
        )

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._asked_at, used = self._clock(), time.thread_time()
            self.ask()
            self._pause = max(self._every, _IDLE_SHARE * (time.thread_time() - used))
            self._stopped.wait(self._pause)

    def ask(self) -> None:
        """Poll once, and keep the answer or the error."""
        try:
            found = self._look()
        except MmtoolError as error:
            self._told, self._error = None, error.message
            if not isinstance(error, UnreachableError) or isinstance(error, NotAuthorisedError):
                self._tell(with_remedy(error))
        except Exception as error:  # noqa: BLE001  whatever it is, it may pass, and metrics go on meanwhile
            self._told, self._error = None, f"{type(error).__name__}: {error}"
            self._tell(self._error)
        else:
            self._told, self._error = (self._clock(), found), ""
            self._said = ""
        self.version += 1

    def _tell(self, problem: str) -> None:
        """Report a problem once, until a poll has succeeded."""
        if problem != self._said:
            self._said = problem
            self._say(f"no metrics of {self.name}: {problem}; mmtool keeps trying")
