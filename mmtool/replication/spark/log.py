"""What Spark says: its log, its errors in one line, and the name of a worker in the driver's log."""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from mmtool.errors import MmtoolError, UnreachableError
from mmtool.runtime.files import state_root

_CALLED = "An error occurred while calling "
"""The start of Py4J's first line, which names what Python called; the cause is in the next line."""


def reason_of(error: Exception) -> str:
    """The last error line of a Python traceback inside Spark's message, or else the message's first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(_CALLED):
        named_cause = lines[1].removeprefix(": ")  # as ``: org.apache.spark.SparkException: message``
        exception, colon, message = named_cause.partition(": ")
        lines = [message if colon and " " not in exception else named_cause, *lines[2:]]
    named = [line for line in lines if "Error: " in line and not line.startswith(("File", "at ", "py4j"))]
    return (named or lines or [type(error).__name__])[-1 if named else 0]


class GivenUpError(Exception):
    """A round was cancelled, because its workers had not ended long after they should have."""


class HungError(GivenUpError):
    """Spark's JVM did not answer when it was asked to cancel a round: no other round would end there."""


def ended_by(error: Exception, *, stopped: bool, log: Path) -> MmtoolError:
    """The error with which `replicate` ends after a round that failed and is not retried.

    Args:
        error: The round's error.
        stopped: Whether a stop was requested. Then a cancelled round or an unreachable cluster is no reason to read
            Spark's log.
        log: The path of Spark's log.
    """
    if stopped and isinstance(error, (GivenUpError, UnreachableError)):
        return UnreachableError(
            f"stopped, but not cleanly: {error}",
            remedy="no record is lost or repeated: the next start recovers the batches in flight",
        )
    first = ""  # only Spark's log may tell
    if isinstance(error, GivenUpError) and not isinstance(error, HungError):
        first = "check that both clusters answer, then "
    elif spark_is_gone(error):
        first = "check the free memory of this host, then "
    again = f"run the same command again: it recovers the batches in flight; if it fails again, read Spark's log {log}"
    return MmtoolError(f"Spark job failed: {reason_of(error)}", remedy=f"{first}{again}")


def spark_is_gone(error: Exception) -> bool:
    """Whether Spark can run no more jobs, because its JVM is dead or hangs."""
    if isinstance(error, HungError):
        return True
    names = {type(e).__name__ for e in (error, error.__cause__, error.__context__) if e is not None}
    return bool(names & {"Py4JNetworkError", "ConnectionRefusedError", "Py4JError", "ConnectionResetError"})


_OF_LOG_URL = re.compile(r"[?&]executorId=([^&]+)")


def executor_name() -> str:
    """The name of this worker: ``host/3`` with Spark's executor id, or else ``host:4711`` with its process id.

    Kubernetes gives the executor's pod its id, and a standalone worker has it in the URL of its log.
    """
    return _name(os.getpid())


@cache
def _name(pid: int) -> str:
    """The executor's name, cached per process.

    Workers are forked from a process that may have called this before.
    """
    found = _OF_LOG_URL.search(os.environ.get("SPARK_LOG_URL_STDERR", ""))
    executor = os.environ.get("SPARK_EXECUTOR_ID") or (found[1] if found else "")
    host = socket.gethostname()
    return f"{host}/{executor}" if executor else f"{host}:{pid}"


def attempt_number() -> int:
    """The attempt number of the Spark task that this Python worker runs, from 0."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.attemptNumber() if context is not None else 0


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
        for log in _folder().glob("*.log"):
            is_old = log.stat().st_mtime < time.time() - _KEPT_SECONDS
            if is_old and not Path(f"/proc/{log.stem}").exists():
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
