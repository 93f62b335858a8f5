"""What Spark's exceptions say, in one line, and whether Spark itself is gone."""

from __future__ import annotations


def reason_of(error: Exception) -> str:
    """The last line of a Python traceback inside Spark's message, or the first line of anything else."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if "Error: " in line and not line.startswith(("File", "at ", "py4j"))]
    return (named or lines or [type(error).__name__])[-1 if named else 0]


def spark_is_gone(error: Exception) -> bool:
    names = {type(e).__name__ for e in (error, error.__cause__, error.__context__) if e is not None}
    return bool(names & {"Py4JNetworkError", "ConnectionRefusedError", "Py4JError", "ConnectionResetError"})
