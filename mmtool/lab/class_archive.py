"""The JVM's archive of parsed classes (dynamic CDS, JEP 350): brokers and Spark start in half the time and CPU.

The first broker that stops cleanly writes it (about 4 s, once per Kafka and Java version), Spark's is made on
request; every later JVM on the same class path maps it. The JVM checks that it fits and runs without it when not.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from typing import IO, TYPE_CHECKING

from mmtool.java import java_binary

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_TOLERANT = ("-Xshare:auto", "-XX:+IgnoreUnrecognizedVMOptions")  # not every JVM is HotSpot


class ClassArchive:
    """The archive of some classes for the Java in use; one process at a time writes it.

    Args:
        folder: Where it lies, or would lie.
        made_of: What tells these classes from others, such as the jars.
    """

    def __init__(self, folder: Path, made_of: Iterable[object]) -> None:
        java = java_binary().resolve()
        fingerprint = "\n".join(map(str, (java, java.stat().st_mtime_ns, os.uname().machine, *made_of)))
        name = hashlib.sha256(fingerprint.encode()).hexdigest()[:12]
        self.file = folder / f"classes-{name}.jsa"
        self._draft = self.file.with_suffix(".draft")
        self._lock: IO[bytes] | None = None

    def options(self, *, write: bool = False) -> tuple[str, ...]:
        """JVM options that use the archive; where there is none, with ``write``, options that create one at exit."""
        if self.file.exists():
            return (*_TOLERANT, f"-XX:SharedArchiveFile={self.file}")
        if write and self._may_write():
            self._draft.unlink(missing_ok=True)
            return (*_TOLERANT, f"-XX:ArchiveClassesAtExit={self._draft}")
        return _TOLERANT

    def adopt(self) -> None:
        """Put the archive that a cleanly exited JVM wrote in place, in one step."""
        if self._lock is not None and self._draft.exists():
            self._draft.rename(self.file)
        self.close()

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
        self._lock = None

    def _may_write(self) -> bool:
        if self._lock is None:
            try:
                handle = self.file.with_suffix(".lock").open("wb")
            except OSError:  # a cache that can only be read: brokers start without an archive as well
                return False
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                handle.close()
                return False
            self._lock = handle
        return True
