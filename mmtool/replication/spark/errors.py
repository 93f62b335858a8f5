"""Errors of the Spark layer: exceptions of Spark in one line, and whether Spark itself is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, UnreachableError

if TYPE_CHECKING:
    from pathlib import Path

_CALLED = "An error occurred while calling "
"""The start of Py4J's first line, which names what Python called; the cause is in the next line."""


def reason_of(error: Exception) -> str:
    """The last error line of a Python traceback inside Spark's message, or else the message's first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(_CALLED):
        lines = [_without_class(lines[1]), *lines[2:]]
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
    again = f"run the same command again: it recovers the batches in flight; if it fails again, read Spark's log {log}"
    return MmtoolError(f"Spark job failed: {reason_of(error)}", remedy=f"{_what_first(error)}{again}")


def _what_first(error: Exception) -> str:
    """What to do before the command is run again; empty where only Spark's log may tell."""
    if isinstance(error, GivenUpError) and not isinstance(error, HungError):
        return "check that both clusters answer, then "
    return "check the free memory of this host, then " if spark_is_gone(error) else ""


def _without_class(line: str) -> str:
    """The message of a line ``: org.apache.spark.SparkException: message``."""
    named = line.removeprefix(": ")
    exception, colon, said = named.partition(": ")
    return said if colon and " " not in exception else named


def spark_is_gone(error: Exception) -> bool:
    """Whether Spark can run no more jobs, because its JVM is dead or hangs."""
    if isinstance(error, HungError):
        return True
    names = {type(e).__name__ for e in (error, error.__cause__, error.__context__) if e is not None}
    return bool(names & {"Py4JNetworkError", "ConnectionRefusedError", "Py4JError", "ConnectionResetError"})
