"""The processor cores that this process may use, which in a container are fewer than its host has."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OURS = Path("/proc/self/cgroup")


def usable_cores(cgroups: Path = _CGROUPS, ours: Path = _OURS) -> int:
    """The number of cores, at least 1: those of the CPU affinity, or fewer where a cgroup limits CPU time.

    Kubernetes, container engines and systemd (``CPUQuota=``) limit by cgroup. Only version 2 is read.

    Args:
        cgroups: Where the cgroups are mounted.
        ours: The file that names the cgroup of this process.
    """
    return max(1, min([_affinity(), *(math.ceil(limit) for limit in _limits(cgroups, ours))]))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _limits(cgroups: Path, ours: Path) -> list[float]:
    """The limits of the process's cgroup and of those above it, in cores."""
    with suppress(OSError):
        lines = ours.read_text(encoding="utf-8").splitlines()
        own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
        folder = cgroups / own
        return [limit for place in (folder, *folder.parents) if (limit := _limit_of(place)) is not None]
    return []


def _limit_of(folder: Path) -> float | None:
    """The limit that ``cpu.max`` gives; None for a cgroup without one."""
    with suppress(OSError, ValueError):
        quota, period = map(int, (folder / "cpu.max").read_text(encoding="utf-8").split())
        return quota / period
    return None
