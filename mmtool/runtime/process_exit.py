"""End the process without the exit handlers of native libraries.

Threads of librdkafka may still be in a TLS handshake when a command ends: a client whose cluster does not answer is
left behind. OpenSSL's exit handler frees what such a thread uses, and the process would end by SIGSEGV instead of with
its exit code.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FAILED = 1


@contextmanager
def ends_after_python() -> Iterator[None]:
    """Let Python's own exit handlers run, and then end the process at once, with the exit code of the body.

    For the main thread of a process that ends with the body. The handler is the first to be registered, so it is the
    last to run: threads have been joined and Spark has been stopped before.

    Raises:
        SystemExit: that of the body.
    """
    code: list[int] = []
    atexit.register(_end, code)
    try:
        yield
    except SystemExit as end:
        code.append(_code_of(end))
        raise


def _code_of(end: SystemExit) -> int:
    if end.code is None:
        return 0
    return end.code if isinstance(end.code, int) else _FAILED


def _end(code: list[int]) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads it any more
            stream.flush()
    os._exit(code[0] if code else _FAILED)
