"""Reserve loopback ports that stay reserved while a broker is down.

A port picked by binding to 0 comes from the range for outgoing connections: while a broker restarts, any
client on the machine can take it. So ports come from below that range, each under a file lock that ends with
the process that holds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

from mmtool.errors import MmtoolError

_RANGE = range(20_000, 32_000)  # below the outgoing ranges of Linux (32768..) and macOS (49152..)


class PortReservation:
    """Free ports on 127.0.0.1, kept from other labs on this machine until ``release``."""

    def __init__(self) -> None:
        self._held: dict[int, IO[bytes]] = {}

    def take(self) -> int:
        """Reserve a free port.

        Raises:
            MmtoolError: No port of the range is free.
        """
        for port in random.sample(_RANGE, len(_RANGE)):
            if self.keep(port):
                return port
        raise MmtoolError(
            f"no free port from {_RANGE.start} to {_RANGE.stop - 1}",
            remedy="stop other labs: `mmtool lab down --keep-data --state-dir DIR` stops one and keeps its data",
        )

    def keep(self, port: int) -> bool:
        """Reserve a given port; False where this or another process has it."""
        if port in self._held or not self._lock(port):
            return False
        if not _is_free(port):
            self._unlock(port)
            return False
        return True

    def release(self) -> None:
        for port in list(self._held):
            self._unlock(port)

    def _lock(self, port: int) -> bool:
        handle = _lock_file(port).open("wb")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.close()
            return False
        self._held[port] = handle
        return True

    def _unlock(self, port: int) -> None:
        self._held.pop(port).close()


def _lock_file(port: int) -> Path:
    folder = Path(tempfile.gettempdir(), f"mmtool-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    return folder / str(port)


def _is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: TIME_WAIT is no owner
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
