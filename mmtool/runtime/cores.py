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

    Kubernetes, container engines and systemd (``CPUQuota=``) limit by cgroup, of version 1 or 2.

    Args:
        cgroups: Where the cgroups are mounted.
        ours: The file that names the cgroups of this process.
    """
    return max(1, min([_affinity(), *(math.ceil(limit) for limit in _limits(cgroups, ours))]))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _limits(cgroups: Path, ours: Path) -> list[float]:
    """The limits of the process's cgroups and of those above them, in cores."""
    with suppress(OSError):
        lines = ours.read_text(encoding="utf-8").splitlines()
        folders = [folder for line in lines for folder in _folders(cgroups, *line.split(":", 2)[1:])]
        return [limit for folder in folders if (limit := _limit_of(folder)) is not None]
    return []


def _folders(cgroups: Path, controllers: str = "", path: str = "") -> list[Path]:
    """The folders of a cgroup and of those above it, where it can limit CPU time.

    A container may see its own cgroup as the topmost one, and the path that its host knows beside it.
    """
    if controllers and "cpu" not in controllers.split(","):
        return []
    top = cgroups / controllers  # version 2 has no list of controllers, and one tree for all of them
    below = [part for part in path.split("/") if part]
    return [top.joinpath(*below[:count]) for count in range(len(below) + 1)]


def _limit_of(folder: Path) -> float | None:
    """The limit of one cgroup; None where it has none."""
    for words in (_words(folder, "cpu.max"), _words(folder, "cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with suppress(ValueError):
            quota, period = map(int, words)
            return quota / period if quota > 0 else None
    return None


def _words(folder: Path, *names: str) -> list[str]:
    """The words of some files; none where a file is missing."""
    with suppress(OSError):
        return [word for name in names for word in (folder / name).read_text(encoding="utf-8").split()]
    return []
