"""One thread of the demo: a producer or a consumer that works until it is stopped."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from mmtool.errors import GateError

if TYPE_CHECKING:
    from collections.abc import Callable

JOIN_SECONDS = 60.0  # a busy machine's last commit and last fetch


class Worker:
    """Runs ``body`` in a thread; what ends it early is raised by ``check`` and ``finish``."""

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

    def check(self) -> None:
        """Raise what ended the thread, if anything did."""
        if self._failure is not None:
            raise self._failure

    def finish(self) -> None:
        """Ask it to stop, and wait until its last work is done.

        Raises:
            GateError: It did not stop within a minute.
        """
        self.stopping.set()
        self.wait()

    def wait(self) -> None:
        """Until it has ended by itself; errors as ``finish``."""
        self._thread.join(JOIN_SECONDS)
        self.check()
        if self._thread.is_alive():
            raise GateError(f"{self.name} did not end in {JOIN_SECONDS:.0f} s", code="timeout")

    def _run(self) -> None:
        try:
            self._body()
        except BaseException as error:  # noqa: BLE001 - whoever waits for the thread must hear of it
            self._failure = error
