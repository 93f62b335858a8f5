"""A properties file that is read again when it changes while a command runs."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mmtool.config.settings import FlowSettings

_LOOKS_AT_MOST = 5


@dataclass(frozen=True, slots=True)
class Chosen:
    """The flows that a file and a command's options select.

    Attributes:
        flows: The flows to run.
        heartbeats_only: Pairs of clusters that get heartbeats without a flow.
    """

    flows: tuple[FlowSettings, ...]
    heartbeats_only: tuple[FlowSettings, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file, and the function that reads it.

    Attributes:
        path: Its path.
        load: Reads it whole, with the same options each time. Raises UsageError.
    """

    path: Path
    load: Callable[[], Chosen]


Stamp = tuple[int, ...] | None


@dataclass(slots=True)
class FileWatch:
    """Detects whether a file has changed since it was last read. Polled about twice a second.

    A. A file that is being written is left until it rests, but not for more than five looks.
    B. Each state of the file is reported once: that it is gone, too.
    """

    path: Path
    _taken: Stamp | str = "never"
    _seen: Stamp | str = field(default="never")
    _looks: int = 0

    def is_due(self) -> bool:
        """Whether the file has changed and is to be read now."""
        now = _stamp(self.path)
        if now == self._taken or _is_read_once(self.path):
            self._looks = 0
            return False
        self._looks += 1
        rests, self._seen = now == self._seen, now
        if rests or self._looks >= _LOOKS_AT_MOST:
            self.taken()
            return True
        return False

    def taken(self) -> None:
        """Take the file's present state as read."""
        self._taken = self._seen = _stamp(self.path)
        self._looks = 0


def _is_read_once(path: Path) -> bool:
    """Whether the path is a pipe, as the shell's ``<(...)`` makes one, which can be read only once."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:  # gone, or not to be looked at now, as on a disk that went away: who reads it says so
        return False


def _stamp(path: Path) -> Stamp:
    """The stamp of a file's state, after symbolic links, which Kubernetes swaps; None where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
