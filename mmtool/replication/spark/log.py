"""Spark's log: one file per run in mmtool's state folder, deleted after a clean end."""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mmtool.runtime.files import state_root

if TYPE_CHECKING:
    from collections.abc import Iterable

_KEPT_SECONDS = 7 * 86_400.0
"""How long the log of a run that did not end cleanly is kept."""


def spark_log() -> Path:
    """The path of the file to which the JVM and the Python workers of this process write their messages."""
    return _folder() / f"{os.getpid()}.log"


def _folder() -> Path:
    return state_root() / "spark"


def log_sink() -> BinaryIO:
    """Spark's log, open for appending; the null device if the file cannot be opened.

    Mirroring does not need the log.
    """
    with suppress(OSError):
        _folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        return spark_log().open("ab")
    return Path(os.devnull).open("ab")


def drop_spark_log() -> None:
    """Delete the log of this process, and discard what libraries log from now on."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _SparkLogHandler)]:
        root.removeHandler(handler)
        handler.close()
        root.addHandler(logging.NullHandler())
    with suppress(OSError):  # a disk that is read-only by now keeps it
        spark_log().unlink(missing_ok=True)


def drop_old_logs() -> None:
    """Delete logs of runs that did not end cleanly, a week after their last line."""
    with suppress(OSError):
        _drop(_folder().glob("*.log"), time.time() - _KEPT_SECONDS)


def _drop(logs: Iterable[Path], before: float) -> None:
    for log in logs:
        if log.stat().st_mtime < before and not Path(f"/proc/{log.stem}").exists():
            log.unlink(missing_ok=True)


class _SparkLogHandler(logging.FileHandler):
    """A log on a disk that may be full, or read-only by now: then what libraries say is lost, and nothing else."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            _folder().mkdir(parents=True, exist_ok=True, mode=0o700)
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging calls it so
        """Ignore the error: `logging` itself would print a traceback."""


def keep_talk_aside() -> None:
    """Send what libraries log to `spark_log`, unless the program has a log handler of its own.

    When a JVM is lost in the middle of a call, py4j logs a traceback to the root logger; the engine reports it in one
    line.
    """
    root = logging.getLogger()
    if all(isinstance(handler, logging.NullHandler) for handler in root.handlers):
        root.addHandler(_SparkLogHandler(spark_log(), delay=True))
