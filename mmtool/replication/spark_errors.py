"""What Spark's exceptions say, in one line, and whether Spark itself is gone."""

from __future__ import annotations

_CALLED = "An error occurred while calling "
"""Py4J's first line, which names what Python called; what happened comes in the next."""


def reason_of(error: Exception) -> str:
    """The last line of a Python traceback inside Spark's message, or the first line of anything else."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(_CALLED):
        lines = [_without_class(lines[1]), *lines[2:]]
    named = [line for line in lines if "Error: " in line and not line.startswith(("File", "at ", "py4j"))]
    return (named or lines or [type(error).__name__])[-1 if named else 0]


def _without_class(line: str) -> str:
    """Of ``: org.apache.spark.SparkException: what happened`` what happened."""
    named = line.removeprefix(": ")
    exception, colon, said = named.partition(": ")
    return said if colon and " " not in exception else named


def spark_is_gone(error: Exception) -> bool:
    names = {type(e).__name__ for e in (error, error.__cause__, error.__context__) if e is not None}
    return bool(names & {"Py4JNetworkError", "ConnectionRefusedError", "Py4JError", "ConnectionResetError"})
