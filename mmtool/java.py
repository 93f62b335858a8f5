"""Java on this host: where it is, and the archive of parsed classes (JEP 350) by which JVMs start in half the time."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from mmtool.errors import UsageError

OLDEST = 17  # Spark 4 and Kafka 4 brokers both ask for it
_INSTALL = (
    f"install Java {OLDEST} or later (Debian, Ubuntu: apt install default-jre-headless; "
    "Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@21) "
)
_MISSING = f"{_INSTALL}and put java on PATH, or set JAVA_HOME to the folder of the JDK or JRE"
_TOO_OLD = f"{_INSTALL}and let JAVA_HOME name its folder, or unset JAVA_HOME and put its java first on PATH"
_WRONG_HOME = (
    "set JAVA_HOME to the folder of a JDK or JRE, or unset it if java is on PATH;"
    f" if Java is not installed, {_INSTALL.strip()}"
)
_DOES_NOT_RUN = (
    "check JAVA_TOOL_OPTIONS and whether this host has free memory; "
    f"if this Java is broken, {_INSTALL}and let JAVA_HOME name the folder of the new one"
)
"""What to do about each reason why there is no usable Java."""


def java_binary() -> Path:
    """The ``java`` that Spark's launcher would take as well: JAVA_HOME when set, else PATH.

    Raises:
        UsageError: There is no Java, it does not run, or it is older than 17.
    """
    return _checked(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=8)
def _checked(java_home: str, path: str) -> Path:
    if java_home:
        binary = Path(java_home, "bin", "java")
        if not os.access(binary, os.X_OK):
            raise _unusable(f"JAVA_HOME={java_home} has no executable bin/java", _WRONG_HOME)
    elif (found := shutil.which("java", path=path)) is not None:
        binary = Path(found)
    else:
        raise _unusable("no java is on PATH, and JAVA_HOME is not set", _MISSING)
    try:
        answer = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise _unusable(f"`{binary} -version` failed: {_reason(error)}", _DOES_NOT_RUN) from error
    major = major_version(answer.stderr + answer.stdout)
    if major < OLDEST:
        raise _unusable(f"{binary} is Java {major}, and mmtool needs Java {OLDEST} or later", _TOO_OLD)
    return binary


def pyspark_jar(pattern: str) -> Path | None:
    """A jar that pyspark ships, or None; found without importing pyspark, which would take a second."""
    spec = find_spec("pyspark")
    folders = [Path(folder, "jars") for folder in (spec and spec.submodule_search_locations) or ()]
    return next((jar for folder in folders for jar in sorted(folder.glob(pattern))), None)


def _unusable(message: str, remedy: str) -> UsageError:
    return UsageError(message, remedy=remedy, code="java")


def _reason(error: OSError | subprocess.SubprocessError) -> str:
    """Why a command failed: what it printed first, where it printed something."""
    if isinstance(error, subprocess.CalledProcessError):
        lines: list[str] = f"{error.stderr}{error.stdout}".strip().splitlines()
        # others name the options of JAVA_TOOL_OPTIONS
        shown = [line for line in lines if not line.startswith("Picked up ")]
        return " ".join(shown[:2]) or f"exit code {error.returncode}"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no answer within {error.timeout:g} s"
    return getattr(error, "strerror", None) or str(error)


def major_version(text: str) -> int:
    """The major version in the output of ``java -version``: ``"17.0.15"`` is 17, ``"1.8.0_392"`` is 8.

    Raises:
        UsageError: The text holds no version.
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    if found is None:
        raise _unusable(f"`java -version` printed no version: {text[:80]!r}", _DOES_NOT_RUN)
    return int(found.group(1))


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
        if write and (self._lock is not None or self._may_write()):
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
