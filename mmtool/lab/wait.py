"""Wait for a condition instead of for a fixed time."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from mmtool.errors import GateError

if TYPE_CHECKING:
    from collections.abc import Callable


def wait_until(
    done: Callable[[], bool], what: str, timeout: float, poll: float = 0.05, *, remedy: str = ""
) -> float:
    """Call ``done`` every ``poll`` seconds until it is true, and return the seconds; ``what`` names the condition.

    Raises:
        GateError: ``timeout`` seconds, with `patience`, were not enough.
    """
    started = time.monotonic()
    while not done():
        waited = time.monotonic() - started
        if waited > patience(timeout):
            raise GateError(f"waited {waited:.0f} s for {what}", remedy=remedy, code="timeout")
        time.sleep(poll)
    return time.monotonic() - started


def patience(seconds: float) -> float:
    """The time limit for this machine: ``seconds``, or more where its load is high."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
