"""Errors of the Spark layer: exceptions of Spark in one line, and whether Spark itself is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, UnreachableError

if TYPE_CHECKING:
    from pathlib import Path

_CALLED = "An error occurred while calling "
"""Py4J's first line, which names what Python called; what happened comes in the next."""


def reason_of(error: Exception) -> str:
    """The last line of a Python traceback inside Spark's message, or the first line of anything else."""
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
    """What ends `replicate` where a round failed and is not resumed.

    Args:
        error: What became of the round.
        stopped: Whether somebody had asked to stop: then what is not there is no reason to look into Spark's log.
        log: Spark's own.
    """
    if stopped and isinstance(error, (GivenUpError, UnreachableError)):
        return UnreachableError(
            f"stopped, but not cleanly: {error}",
            remedy="no record is lost or repeated: the next start recovers the batches in flight",
        )
    return MmtoolError(
        f"Spark job failed: {reason_of(error)}",
        remedy=f"run the same command again: it recovers by itself; Spark's log is {log}",
    )


def _without_class(line: str) -> str:
    """Of ``: org.apache.spark.SparkException: what happened`` what happened."""
    named = line.removeprefix(": ")
    exception, colon, said = named.partition(": ")
    return said if colon and " " not in exception else named


def spark_is_gone(error: Exception) -> bool:
    """Whether nothing can be run in it any more: dead, or as good as that."""
    if isinstance(error, HungError):
        return True
    names = {type(e).__name__ for e in (error, error.__cause__, error.__context__) if e is not None}
    return bool(names & {"Py4JNetworkError", "ConnectionRefusedError", "Py4JError", "ConnectionResetError"})
