"""Probe whether one broker is up: one Metadata request over a plain socket, without a client library.

librdkafka would answer from any broker it has learnt of, retry on its own schedule, and log each refused
connection; readiness needs the answer of *one* broker, now.
"""

from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

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
