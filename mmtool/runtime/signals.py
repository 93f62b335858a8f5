"""Turn signals into errors: the command shuts down in order, and its exit code names the signal."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mmtool.errors import StoppedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signals(*, is_end: bool = False) -> Iterator[None]:
    """Raise SIGTERM and SIGHUP as errors, so that the command cleans up as after Ctrl-C.

    Args:
        is_end: Nothing else ends the command: Ctrl-C becomes the same error.

    Raises:
        StoppedError: One of these signals came.
    """

    def stop(number: int, _: FrameType | None) -> None:
        raise StoppedError(signal.Signals(number), is_end=is_end)

    before = {number: signal.signal(number, stop) for number in _STOP_SIGNALS}
    try:
        yield
    except KeyboardInterrupt:
        if not is_end:
            raise
        raise StoppedError(signal.SIGINT, is_end=True) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
