"""Wait for a condition instead of for a fixed time."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from mmtool.errors import GateError

if TYPE_CHECKING:
    from collections.abc import Callable


def wait_until(done: Callable[[], bool], what: str, timeout: float, poll: float = 0.05) -> float:
    """Ask ``done`` every ``poll`` seconds; the seconds it took. ``what`` names the awaited in the error.

    Raises:
        GateError: ``timeout`` seconds, with `patience`, were not enough.
    """
    started = time.monotonic()
    while not done():
        waited = time.monotonic() - started
        if waited > patience(timeout):
            raise GateError(f"waited {waited:.0f} s for {what}", code="timeout")
        time.sleep(poll)
    return time.monotonic() - started


def patience(seconds: float) -> float:
    """So long on a machine that has time for it; longer where others work on it too, by its load."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
