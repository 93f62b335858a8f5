"""The memory of this process as the kernel counts it: what libraries in other languages allocate as well."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(slots=True)
class Growth:
    """Bytes that became resident while a block ran: at most, and at its end."""

    most: int = 0
    left: int = 0


@contextmanager
def resident_growth() -> Iterator[Growth]:
    """The growth of this process, known when the block has ended."""
    growth = Growth()
    _RESET.write_text("5")  # the peak counts from now on (proc(5))
    before = _bytes("VmRSS")
    yield growth
    growth.most, growth.left = _bytes("VmHWM") - before, _bytes("VmRSS") - before


def _bytes(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) << 10
