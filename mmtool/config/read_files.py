"""The files that a configuration is read from: the properties file, and those that it names."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Stamp = tuple[int, ...] | None
"""The state of a file; None where there is none."""


@dataclass(slots=True)
class ReadFiles:
    """The files of one reading, each with its state from before it was read: a change meanwhile is a change."""

    stamps: dict[Path, Stamp] = field(default_factory=dict)

    def note(self, path: str | Path) -> None:
        """Note a file that is about to be read; also one that cannot be read, since it may appear."""
        if (file := Path(path)) not in self.stamps and not is_read_once(file):
            self.stamps[file] = stamp_of(file)

    def forget(self) -> None:
        """Forget all files, before they are read again."""
        self.stamps = {}


def stamps_of(paths: Mapping[Path, Stamp]) -> dict[Path, Stamp]:
    """The present states of files that can be read more than once."""
    return {path: stamp_of(path) for path in paths if not is_read_once(path)}


def stamp_of(path: Path) -> Stamp:
    """The stamp of a file's state, after symbolic links, which Kubernetes swaps; None where there is no file."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # ValueError: a null character
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def is_read_once(path: Path) -> bool:
    """Whether the path is a pipe, as the shell's ``<(...)`` makes one, which can be read only once."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):  # gone, or on a disk that went away: who reads it says so
        return False
