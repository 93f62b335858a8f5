"""The name of this worker process in the driver's log."""

from __future__ import annotations

import os
import re
import socket
from functools import cache

_OF_LOG_URL = re.compile(r"[?&]executorId=([^&]+)")


def executor_name() -> str:
    """The host and Spark's id of the executor, ``host/3``, or else the Python worker's process id, ``host:4711``.

    Kubernetes tells the id to the executor's pod, and a standalone worker in the address of its log.
    """
    return _name(os.getpid())


@cache
def _name(pid: int) -> str:
    """By the process: workers are forked from one that may have asked before."""
    found = _OF_LOG_URL.search(os.environ.get("SPARK_LOG_URL_STDERR", ""))
    executor = os.environ.get("SPARK_EXECUTOR_ID") or (found[1] if found else "")
    host = socket.gethostname()
    return f"{host}/{executor}" if executor else f"{host}:{pid}"


def attempt_number() -> int:
    """Which attempt of its task this Python worker runs, from 0."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.attemptNumber() if context is not None else 0
