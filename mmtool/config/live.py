"""A properties file, and the files that it names, that are read again when they change while a command runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.config.read_files import ReadFiles, is_read_once, stamps_of
from mmtool.plan.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from mmtool.config.read_files import Stamp
    from mmtool.config.settings import FlowSettings
    from mmtool.errors import MmtoolError

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
        files: What ``load`` read last: the file, and the stores, PEM files and secrets that it names; also after an
            error.
    """

    path: Path
    load: Callable[[], Chosen]
    files: ReadFiles = field(default_factory=ReadFiles)


class FileWatch:
    """Detects whether any of some files has changed since it was last read. Polled about twice a second.

    A. Files that are being written are left until they all rest, but not for more than five looks.
    B. Each state of the files is reported once: that one is gone, too.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._taken: dict[Path, Stamp] = {}
        self._seen: dict[Path, Stamp] = {}
        self._looks = 0
        self._watched: Mapping[Path, Stamp] = {path: None}

    def is_due(self) -> bool:
        """Whether a file has changed, and all are to be read now."""
        now = stamps_of(self._watched)
        if now == self._taken:
            self._looks = 0
            return False
        self._looks += 1
        rests, self._seen = now == self._seen, now
        if rests or self._looks >= _LOOKS_AT_MOST:
            self.taken()
            return True
        return False

    def taken(self) -> None:
        """Take the files' present states as read."""
        self._taken = self._seen = stamps_of(self._watched)
        self._looks = 0

    def follow(self, files: ReadFiles, *, also_earlier: bool) -> None:
        """Watch the files of a reading from their states of then on.

        Args:
            files: The files of the reading.
            also_earlier: Whether the earlier files are watched, too: the reading failed, perhaps before them.
        """
        kept = self._taken if also_earlier else {}
        # a properties file that can be read only once is not read again for the sake of the others
        self._watched = self._taken = {} if is_read_once(self._path) else {**kept, **files.stamps}


def first_problem(error: MmtoolError) -> str:
    """The first problem of a file that cannot be used, with the number of the others."""
    first, *more = error.message.splitlines() or [""]
    return f"{first}; the file has {counted(len(more), 'more error')}: {error.remedy}" if more else first
