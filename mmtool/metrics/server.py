"""The HTTP server of metrics, for `mmtool metrics` and `mmtool replicate --metrics-port`."""

from __future__ import annotations

import errno
import gzip
import socket
import threading
import time
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from mmtool.config.changes import compare
from mmtool.config.live import FileWatch, first_problem
from mmtool.errors import MmtoolError, UsageError
from mmtool.events import Event, Notice
from mmtool.metrics.collector import Collector, KafkaProbes
from mmtool.plain_text import Lines
from mmtool.runtime.process import ended_by_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mmtool.config import FlowSettings
    from mmtool.config.live import LiveFile
    from mmtool.metrics.families import Level

    Exposition = Callable[[str], tuple[bytes, str]]

_CLIENT_SECONDS = 10.0
_TEXT = "text/plain; charset=utf-8"
_SMALL_BYTES = 1400
"""Smaller bodies are not compressed: they fit into one packet."""


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

    def serve(self, exposition: Exposition, unready: Callable[[], Sequence[str]]) -> None:
        """Start to answer requests, in daemon threads.

        Args:
            exposition: The metrics in the format that an ``Accept`` header asks for, and its content type.
            unready: Why the process is not ready, a line each; empty while it is.
        """
        self._server.exposition, self._server.unready = exposition, unready
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
    exposition: Exposition
    unready: Callable[[], Sequence[str]]
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
        accepted = self.headers.get("Accept", "")
        pages: dict[str, Callable[[], None]] = {
            "/metrics": lambda: self._send(HTTPStatus.OK, *self.server.exposition(accepted)),
            "/healthz": lambda: self._verdict(()),
            "/readyz": lambda: self._verdict(self.server.unready()),
            "/": lambda: self._send(HTTPStatus.OK, b"/metrics\n/healthz\n/readyz\n", _TEXT),
        }
        page = pages.get(urlsplit(self.path).path)
        if page is None:
            self._send(HTTPStatus.NOT_FOUND, b"not found: /metrics, /healthz and /readyz are served\n", _TEXT)
        else:
            page()

    def do_HEAD(self) -> None:
        self.do_GET()

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


# --- flows whose credentials follow their files, for a command that only reads --------------------------


class LiveFlows:
    """The flows of a file, always the same ones.

    Args:
        file: The file; read here for the first time.
        warn: Called once with why a changed file is not used.

    Attributes:
        settings: The settings in force now.

    Raises:
        UsageError: The file cannot be used.
    """

    def __init__(self, file: LiveFile, warn: Callable[[str], None]) -> None:
        self._file = file
        self._warn = warn
        self._watch = FileWatch(file.path)
        self.settings = file.load().flows
        self._watch.follow(file.files, also_earlier=False)

    def look(self) -> None:
        """Read the files again if one has changed; call it about twice a second."""
        if not self._watch.is_due():
            return
        chosen = None
        try:
            chosen = self._file.load()
        except MmtoolError as error:
            said = f"{first_problem(error)}; the old configuration stays in force"
            self._warn(Notice(said, Event.CONFIG_REFUSED))
        self._watch.follow(self._file.files, also_earlier=chosen is None)
        if chosen is not None:
            new = {flow.name: flow for flow in chosen.flows}
            self.settings = tuple(compare(flow, new.get(flow.name, flow)).settings for flow in self.settings)


# --- serve metrics over HTTP, for `mmtool metrics` and `mmtool replicate --metrics-port` -----------------

_LOOK_SECONDS = 0.5
PROBE_SECONDS = 10.0
"""The default time limit in seconds of one request of a poll."""


def export(
    flows: LiveFlows,
    server: MetricsServer,
    level: Level,
    seconds: float,
    *,
    say: Callable[[str], None],
) -> None:
    """Serve metrics until a signal ends it: ready while all clusters answer and all polls succeed.

    Args:
        flows: The flows, including those that MirrorMaker 2 runs.
        server: The HTTP server.
        level: The detail of the metrics.
        seconds: How long one request to a cluster may take.
        say: Called with sentences for the operator.

    Raises:
        StoppedError: A signal came.
    """
    with (
        ended_by_signals(is_end=True),
        Collector(lambda: flows.settings, KafkaProbes(level, seconds), say=say) as collector,
    ):
        server.serve(collector.exposition, lambda: [*collector.away(), *collector.unseen()])
        say(f"metrics on {server.url}")
        while True:
            time.sleep(_LOOK_SECONDS)
            flows.look()


@contextmanager
def exported_beside(
    flows: Callable[[], Sequence[FlowSettings]],
    unowned: Callable[[], Sequence[str]],
    server: MetricsServer,
    level: Level,
    *,
    say: Callable[[str], None],
) -> Iterator[None]:
    """Serve metrics beside a running engine: ready while it owns its flows, and their clusters answer.

    Args:
        flows: The settings in force now, always of the same flows.
        unowned: The flows that the engine does not own now, each with why.
        server: The HTTP server.
        level: The detail of the metrics.
        say: Called with sentences for the operator.
    """
    with Collector(flows, KafkaProbes(level, PROBE_SECONDS), say=say) as collector:
        server.serve(collector.exposition, lambda: [*collector.away(), *unowned()])
        say(f"metrics on {server.url}")
        yield
