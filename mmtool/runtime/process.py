"""The process itself: its signals, its end, its operator's name, the cores that it may use, and its clock."""

from __future__ import annotations

import atexit
import getpass
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from mmtool.errors import StoppedError
from mmtool.translation.types import UNKNOWN, Unknown

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


# --- end the process without the exit handlers of native libraries ---------------------------------------
# Threads of librdkafka may still be in a TLS handshake when a command ends: a client whose cluster does not answer is
# left behind. OpenSSL's exit handler frees what such a thread uses, and the process would end by SIGSEGV instead of
# with its exit code.

_FAILED = 1


@contextmanager
def ends_after_python() -> Iterator[None]:
    """Let Python's own exit handlers run, and then end the process at once, with the exit code of the body.

    For the main thread of a process that ends with the body. The handler is the first to be registered, so it is the
    last to run: threads have been joined and Spark has been stopped before.

    Raises:
        SystemExit: that of the body.
    """
    code: list[int] = []
    atexit.register(_end, code)
    try:
        yield
    except SystemExit as end:
        failed = _FAILED if end.code is not None else 0
        code.append(end.code if isinstance(end.code, int) else failed)
        raise


def _end(code: list[int]) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads it any more
            stream.flush()
    os._exit(code[0] if code else _FAILED)


# --- the name of the operator on this host, as ``user@host`` ---------------------------------------------


def operator() -> str:
    """The operator and this host, as ``user@host``, by which others can find who runs a command."""
    name = str(os.getuid())  # a container may run as somebody without a name
    with suppress(OSError, KeyError):
        name = getpass.getuser()
    return f"{name}@{socket.gethostname()}"


# --- the clock --------------------------------------------------------------------------------------------

_STAT = Path("/proc/self/stat")


def now_ms() -> int:
    """The time in ms since 1970."""
    return int(time.time() * 1000)


def started_ms() -> int | Unknown:
    """When this process was started, in ms since 1970; UNKNOWN where the system does not tell (only Linux does)."""
    with suppress(OSError, AttributeError):
        fields = _STAT.read_text(encoding="utf-8").rpartition(")")[2].split()
        ago = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return now_ms() - int(ago * 1000)
    return UNKNOWN


# --- the processor cores that this process may use, which in a container are fewer than its host has -----

_CGROUPS = Path("/sys/fs/cgroup")
_OURS = Path("/proc/self/cgroup")


def usable_cores(cgroups: Path = _CGROUPS, ours: Path = _OURS) -> int:
    """The number of cores, at least 1: those of the CPU affinity, or fewer where a cgroup limits CPU time.

    Kubernetes, container engines and systemd (``CPUQuota=``) limit by cgroup, of version 1 or 2.

    Args:
        cgroups: Where the cgroups are mounted.
        ours: The file that names the cgroups of this process.
    """
    is_linux = hasattr(os, "sched_getaffinity")
    allowed = len(os.sched_getaffinity(0)) if is_linux else os.cpu_count() or 1
    return max(1, min([allowed, *(math.ceil(limit) for limit in _limits(cgroups, ours))]))


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
