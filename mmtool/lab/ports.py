"""Reserve loopback ports that stay reserved while a broker is down, and probe whether one is up."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mmtool.errors import GateError, MmtoolError
from mmtool.kafka.wire.metadata import MetadataAnswer, MetadataRequest


def wait_until(
    done: Callable[[], bool], what: str, timeout: float, poll: float = 0.05, *, remedy: str = ""
) -> float:
    """Call ``done`` every ``poll`` seconds until it is true, and return the seconds; ``what`` names the condition.

    Raises:
        GateError: ``timeout`` seconds, with `patience`, were not enough.
    """
    started = time.monotonic()
    while not done():
        waited = time.monotonic() - started
        if waited > patience(timeout):
            raise GateError(f"waited {waited:.0f} s for {what}", remedy=remedy, code="timeout")
        time.sleep(poll)
    return time.monotonic() - started


def patience(seconds: float) -> float:
    """The time limit for this machine: ``seconds``, or more where its load is high."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files: the trusted certificates, and a private key with its certificate chain."""

    trusted: str
    identity: str


_QUESTION = MetadataRequest(()).prepare({MetadataRequest.API_KEY: (7, 7)})
"""Of no topics, in a version that has no tagged fields (brokers 2.1 to 4.x)."""


def ask(port: int, timeout: float = 1.0, tls: TlsFiles | None = None) -> MetadataAnswer | None:
    """The metadata answer of the broker on a loopback port; None where there is none in ``timeout`` seconds."""
    request = b"".join(_QUESTION.pieces(1, "mmtool-lab"))
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=timeout) as plain,
            _secured(plain, tls) as connection,
            connection.makefile("rb") as answers,
        ):
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", answers.read(4))
            return _QUESTION.read(memoryview(answers.read(size)))
    except (OSError, struct.error):
        return None


def _secured(plain: socket.socket, tls: TlsFiles | None) -> AbstractContextManager[socket.socket]:
    if tls is None:
        return plain
    context = ssl.create_default_context(cafile=tls.trusted)
    context.load_cert_chain(tls.identity)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


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
        if port in self._held:
            return False
        folder = Path(tempfile.gettempdir(), f"mmtool-ports-{os.getuid()}")
        folder.mkdir(exist_ok=True)
        lock = (folder / str(port)).open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(
                    socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
                )  # as Java does: TIME_WAIT is no owner
                probe.bind(("127.0.0.1", port))
        except OSError:
            lock.close()
            return False
        self._held[port] = lock
        return True

    def release(self) -> None:
        for lock in self._held.values():
            lock.close()
        self._held.clear()
