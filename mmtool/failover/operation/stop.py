"""Ctrl-C and SIGTERM during an operation: before the point of no return they end it, after it they wait.

Steps that write take a second or two and always complete: after a stop between a write and its check, it would be
unknown which offsets are stored.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    Handler = Callable[[int, FrameType | None], object]


class Stops:
    """The handlers of both signals.

    Attributes:
        heard: The signal that a KeyboardInterrupt stands for.
    """

    def __init__(self) -> None:
        self.heard = signal.SIGINT

    @contextmanager
    def listening(self) -> Iterator[None]:
        """A context in which SIGTERM interrupts a step as Ctrl-C does, also a step that runs in asyncio."""
        with _handled({signal.SIGTERM: self._terminate}):
            yield

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """A context in which SIGINT and SIGTERM are only noted: the step completes."""
        with _handled({signal.SIGTERM: self._note, signal.SIGINT: self._note}):
            yield

    def _terminate(self, signum: int, frame: FrameType | None) -> None:
        self._note(signum, frame)
        if (
            signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        ):  # begun in the background of a script: deaf to Ctrl-C
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    def _note(self, signum: int, _: FrameType | None) -> None:
        self.heard = signal.Signals(signum)


@contextmanager
def _handled(handlers: dict[signal.Signals, Handler]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's affair
        yield
        return
    before = {signum: signal.signal(signum, handler) for signum, handler in handlers.items()}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
