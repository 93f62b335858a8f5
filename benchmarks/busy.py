"""How much of the machine others took while something was measured."""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING, Self

import psutil
from gauges import cpu_seconds, machine_cpu

if TYPE_CHECKING:
    from collections.abc import Sequence

BUSY_CORES = 0.4
"""From so many on a time tells less of the code than of the machine; the kernel's own threads take up to 0.2."""


class Others:
    """Cores that neither this process, nor those it has started and waited for, nor ``pids`` took.

    A context manager; ask for `cores` after it.
    """

    def __init__(self, pids: Sequence[int] = ()) -> None:
        self._pids = pids
        self.seconds = 0.0
        self.cores = 0.0

    def __enter__(self) -> Self:
        self._began, self._before = time.monotonic(), self._spent_elsewhere()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._began
        self.cores = max(0.0, self._spent_elsewhere() - self._before) / self.seconds

    def _spent_elsewhere(self) -> float:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        ours = sum(psutil.Process().cpu_times()[:2]) + ended.ru_utime + ended.ru_stime
        return machine_cpu() - ours - cpu_seconds(self._pids)
