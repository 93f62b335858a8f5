"""The name of this worker process in the driver's log."""

from __future__ import annotations

import os
import re
import socket
from functools import cache

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
