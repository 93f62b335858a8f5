"""The HTTP server: ``/metrics``, ``/healthz`` and ``/readyz``, answered without a request to any cluster."""

from __future__ import annotations

import errno
import gzip
import socket
import threading
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from mmtool.errors import UsageError
from mmtool.plain_text import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CLIENT_SECONDS = 10.0
_TEXT = "text/plain; charset=utf-8"
_SMALL_BYTES = 1400
"""Smaller bodies are not compressed: they fit into one packet."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The functions that produce the server's responses.

    Attributes:
        exposition: The metrics in the format that an ``Accept`` header asks for, and its content type.
        unready: Why the process is not ready, a line each; empty while it is.
        unhealthy: Why the process does not work, likewise.
    """

    exposition: Callable[[str], tuple[bytes, str]]
    unready: Callable[[], Sequence[str]]
    unhealthy: Callable[[], Sequence[str]] = tuple


class MetricsServer:
    """Binds its port at once, and answers from `serve` on; a context manager that releases the port.

    Args:
        address: A name or an address of this host, IPv4 or IPv6.
        port: 0 for any that is free.
        option: The option that names the port, for the message.

    Raises:
        UsageError: The port is in use, or the address is none of this host's.
    """

    def __init__(self, address: str, port: int, option: str) -> None:
        self._server = _listen(address, port, option)
        self._address = address

    @property
    def url(self) -> str:
        """The URL of the metrics."""
        host = f"[{self._address}]" if ":" in self._address else self._address
        return f"http://{host}:{self._server.server_address[1]}/metrics"

    def serve(self, answers: Answers) -> None:
        """Start to answer requests, in daemon threads."""
        self._server.answers = answers
        threading.Thread(target=self._server.serve_forever, name="metrics http", daemon=True).start()
        self._server.is_served = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server.is_served:
            self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    answers: Answers
    is_served = False

    def server_bind(self) -> None:
        """Bind without looking up this host's name, which may take as long as a resolver does."""
        TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of a connection: a client may close it at any time."""


class _ServerIPv6(_Server):
    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        """Bind as `_Server`; ``::`` also accepts IPv4."""
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def _listen(address: str, port: int, option: str) -> _Server:
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, place = found[0]
        return (_ServerIPv6 if family is socket.AF_INET6 else _Server)(place[:2], _Handler)  # type: ignore[arg-type]  # as TCP has it
    except (OSError, UnicodeError) as error:
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(
            f"{option} {port}: cannot listen on {address}: {why}",
            remedy=_remedy(error, address, option),
        ) from error


def _remedy(error: OSError | UnicodeError, address: str, option: str) -> str:
    foreign = isinstance(error, socket.gaierror | UnicodeError) or error.errno == errno.EADDRNOTAVAIL
    if foreign:
        return f"name an address of this host with --metrics-address, not {address}"
    if isinstance(error, PermissionError):
        return f"choose a port of 1024 or more with {option}, or 0 for any free port"
    return f"choose another port with {option}, or 0 for any free port"


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "mmtool"
    sys_version = ""
    timeout = _CLIENT_SECONDS

    def do_GET(self) -> None:
        pages: dict[str, Callable[[], None]] = {
            "/metrics": self._metrics,
            "/healthz": lambda: self._verdict(self.server.answers.unhealthy()),
            "/readyz": lambda: self._verdict(self.server.answers.unready()),
            "/": lambda: self._send(HTTPStatus.OK, b"/metrics\n/healthz\n/readyz\n", _TEXT),
        }
        page = pages.get(urlsplit(self.path).path)
        if page is None:
            self._send(HTTPStatus.NOT_FOUND, b"not found: /metrics, /healthz and /readyz are served\n", _TEXT)
        else:
            page()

    def do_HEAD(self) -> None:
        self.do_GET()

    def _metrics(self) -> None:
        body, content_type = self.server.answers.exposition(self.headers.get("Accept", ""))
        self._send(HTTPStatus.OK, body, content_type)

    def _verdict(self, problems: Sequence[str]) -> None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
        self._send(status, f"{Lines.of(problems or ('ok',))}\n".encode(), _TEXT)

    def _send(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        zipped = len(body) > _SMALL_BYTES and "gzip" in self.headers.get("Accept-Encoding", "")
        if zipped:
            body = gzip.compress(body, compresslevel=1)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if zipped:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Drop the server's access log: scrapes are not logged."""
