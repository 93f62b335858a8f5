"""Reserve loopback ports that stay reserved while a broker is down, and probe whether one is up."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import ssl
import struct
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from mmtool.errors import GateError, MmtoolError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


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


_METADATA, _VERSION = 3, 7  # the newest version that has no tagged fields (brokers 2.1 to 4.x)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """One broker's view of its cluster: unfenced brokers, and the cluster's id."""

    cluster_id: str
    brokers: frozenset[int]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files: the trusted certificates, and a private key with its certificate chain."""

    trusted: str
    identity: str


def ask(port: int, timeout: float = 1.0, tls: TlsFiles | None = None) -> ClusterView | None:
    """The metadata answer of the broker on a loopback port; None where there is none in ``timeout`` seconds."""
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=timeout) as plain,
            _secured(plain, tls) as connection,
        ):
            connection.sendall(_request())
            size = struct.unpack(">i", _exactly(connection, 4))[0]
            return _parse(_exactly(connection, size))
    except (OSError, struct.error, UnicodeDecodeError):
        return None


def _secured(plain: socket.socket, tls: TlsFiles | None) -> AbstractContextManager[socket.socket]:
    if tls is None:
        return plain
    context = ssl.create_default_context(cafile=tls.trusted)
    context.load_cert_chain(tls.identity)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def _request() -> bytes:
    client = b"mmtool-lab"
    header = struct.pack(f">hhih{len(client)}s", _METADATA, _VERSION, 1, len(client), client)
    body = struct.pack(">i?", 0, False)  # no topics, create none
    return struct.pack(">i", len(header) + len(body)) + header + body


def _exactly(connection: socket.socket, size: int) -> bytes:
    chunks = bytearray()
    while len(chunks) < size:
        chunk = connection.recv(size - len(chunks))
        if not chunk:
            raise ConnectionError("closed in mid-answer")
        chunks += chunk
    return bytes(chunks)


def _parse(answer: bytes) -> ClusterView:
    at, brokers = 12, set[int]()  # correlation id, throttle time, broker count
    for _ in range(struct.unpack_from(">i", answer, 8)[0]):
        brokers.add(struct.unpack_from(">i", answer, at)[0])
        at = _after_string(answer, at + 4) + 4  # host, port
        at = _after_string(answer, at)  # rack
    end = _after_string(answer, at)
    return ClusterView(answer[at + 2 : end].decode(), frozenset(brokers))


def _after_string(answer: bytes, at: int) -> int:
    return int(at + 2 + max(0, struct.unpack_from(">h", answer, at)[0]))


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
