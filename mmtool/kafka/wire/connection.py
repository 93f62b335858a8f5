"""One connection to one broker: frames read into their own memory, batches written without a copy.

aiokafka opens it: TCP, TLS and the version lookup are aiokafka's. Then this protocol takes the transport over,
and logs in (`sasl.py`): aiokafka's own reading through a stream copies every byte four times and grows a buffer
while it reads, which was 45 % of a worker's CPU at 1 KB records.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from asyncio import sslproto
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any, NamedTuple, TypeVar

from mmtool.kafka.errors import readable_refusal
from mmtool.kafka.patience import first_answer
from mmtool.kafka.wire.request import Prepared, WireRequest
from mmtool.kafka.wire.sasl import Login, Session

A = TypeVar("A")

_SIZE = struct.Struct(">i")
_SMALL_ANSWER = 16 << 10
_WRITE_BYTES = 512 << 10
_WORTH_A_VIEW = 32 << 10
_LARGEST_ANSWER = 1 << 30
_LARGE_ANSWER = 32 << 20
sslproto.SSLProtocol.max_size = 1 << 20
"""Bytes taken from a TLS connection's socket at once: with asyncio's 256 KiB a worker needs 15 % more CPU."""
_tried_at: dict[tuple[str, int], float] = {}
"""Addresses and ports that did not answer, and when they were tried last; all clients of the process share this."""


def _frame_of(size: int) -> memoryview:
    """Memory for a response; the pages of a large one exist only once they are written: its size is only a claim."""
    if size <= _LARGE_ANSWER:
        return memoryview(bytearray(size))
    return memoryview(mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS))


class _LoopTo:
    """The event loop as aiokafka sees it: it connects to one address, and the certificate must have the host's name."""

    def __init__(self, address: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._address = address

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(self, factory: Any, host: str, port: int, *, ssl: Any) -> Any:
        name = host if ssl else None
        return await self._loop.create_connection(factory, self._address, port, ssl=ssl, server_hostname=name)


async def open_connection(host: str, port: int, options: Mapping[str, Any], seconds: float) -> Connection:
    """Connect to a broker at the first address of its host that answers, and log in where the options hold a login.

    The next address is tried when one fails or is silent; those that did not answer last time come last. ``options``
    are those of `mmtool.kafka.clients.wire_options`, without the servers; ``seconds`` is the longest time for the
    answer to a request.

    Raises:
        KafkaError: the broker refuses the login; aiokafka's, as all of these.
        OSError, TimeoutError: no address answers; notes of this error, or of its cause, name those that were tried.
    """
    from aiokafka import errors

    resolved = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(one[4][0]) for one in resolved))
    addresses.sort(key=lambda address: _tried_at.get((address, port), 0.0))
    tried: list[str] = []

    async def connect(address: str) -> Connection:
        tried.append(address)
        _tried_at[address, port] = time.monotonic()
        return await _open_at(address, host, port, options, seconds)

    try:
        asks = [partial(connect, address) for address in addresses]
        which, connection = await first_answer(asks, (OSError, errors.KafkaConnectionError))
    except (OSError, errors.KafkaConnectionError, asyncio.CancelledError) as error:
        if len(addresses) > 1:
            error.add_note(f"addresses tried: {', '.join(tried)}")
        raise
    _tried_at.pop((addresses[which], port), None)
    return connection


async def _open_at(
    address: str, host: str, port: int, options: Mapping[str, Any], seconds: float
) -> Connection:
    from aiokafka import conn

    plain = {name: value for name, value in options.items() if not name.startswith("sasl_")}
    plain["security_protocol"] = options.get("security_protocol", "PLAINTEXT").removeprefix("SASL_")
    opened = conn.AIOKafkaConnection(host, port, **plain)
    opened._loop = _LoopTo(address)  # noqa: SLF001  aiokafka has no public way
    await opened.connect()
    connection = Connection(opened, options["client_id"], seconds, Login.of(options))
    try:
        await connection.log_in()
    except BaseException as error:
        connection.close(error)
        raise
    return connection


class _Asked(NamedTuple):
    """A request that was sent and has no answer yet."""

    number: int
    prepared: Prepared[Any]
    answer: asyncio.Future[Any]
    since: float


class Connection(asyncio.BufferedProtocol):
    """A connection on which requests are sent, and answered, in order.

    A. An answer is given to the request that has waited longest, and only when it carries its number.
    B. Once closed, every waiting or held request fails with ConnectionError, and so does every later one.
    C. A session that is about to end is renewed before the next request (KIP-368), so an idle connection sends nothing.
    D. Between the first and the last request of a login no other is sent: those asked for meanwhile are held, and sent
       after it in the order of their arrival. Requests sent before the login are answered before it.
    E. No request is sent shortly before the end of a session or after it, unless brokers refuse so early a login
       (`Session`). None is lost in a login: each is sent once, or was cancelled by its caller, or fails by law B.
    F. A login that fails closes the connection.

    Args:
        opened: aiokafka's connection, not logged in.
        timeout_seconds: The longest time for an answer, and for a login.
        login: None for a connection without SASL.
        clock: The seconds by which a session ends; the event loop's without it.
    """

    def __init__(
        self,
        opened: Any,
        client_id: str,
        timeout_seconds: float,
        login: Login | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._versions: Mapping[int, tuple[int, int]] = opened._versions  # noqa: SLF001  aiokafka has no public way
        self._client_id = client_id
        self._timeout = timeout_seconds
        self._login = login
        self._clock = clock or asyncio.get_running_loop().time
        self._session: Session | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._logging_in = False
        self._held: deque[tuple[Prepared[Any], asyncio.Future[Any]]] = deque()
        self._slowest = 0.0
        self._waiting: deque[_Asked] = deque()
        self._number = 0
        self._unsent: deque[memoryview] = deque()
        self._paused = False
        self._open = True
        self._small = memoryview(bytearray(_SMALL_ANSWER))
        self._small_filled = 0
        self._frame: memoryview | None = None
        self._frame_filled = 0
        self._take_over(opened)

    def _take_over(self, opened: Any) -> None:
        """Take the transport from aiokafka's connection, and keep its writer, which closes it when collected."""
        self._writer = opened._writer  # noqa: SLF001  aiokafka has no public way
        self._transport: asyncio.Transport = self._writer.transport
        opened._read_task.cancel()  # noqa: SLF001  likewise
        opened._reader = opened._writer = None  # noqa: SLF001  nothing is left for it to close
        self._transport.set_protocol(self)
        self._transport.set_write_buffer_limits(high=1, low=0)  # pause as soon as anything is left over

    # --- asking -------------------------------------------------------------------------------------------

    def connected(self) -> bool:
        return self._open

    async def send(self, request: WireRequest[A]) -> A:
        """Send a request and return its decoded answer.

        Raises:
            ConnectionError, TimeoutError: the answer did not come.
        """
        if not self._open:
            raise ConnectionError("closed")
        prepared = request.prepare(self._versions)
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        if self._must_hold():
            self._held.append((prepared, answer))
        else:
            self._send(prepared, answer)
        async with asyncio.timeout(self._timeout):
            return await answer

    def _send(self, prepared: Prepared[A], answer: asyncio.Future[A]) -> None:
        self._number = (self._number + 1) & 0x7FFFFFFF
        self._waiting.append(_Asked(self._number, prepared, answer, self._clock()))
        self._queue(prepared.pieces(self._number, self._client_id))

    def _queue(self, pieces: list[bytes | bytearray]) -> None:
        small: list[bytes | bytearray] = [_SIZE.pack(sum(map(len, pieces)))]
        for piece in pieces:
            if len(piece) < _WORTH_A_VIEW:
                small.append(piece)
                continue
            self._unsent.append(memoryview(b"".join(small)))
            self._unsent.append(memoryview(piece))
            small = []
        if small:
            self._unsent.append(memoryview(b"".join(small)))
        self._write()

    def _write(self) -> None:
        """Write as much as the socket takes at once: the transport copies the part that it cannot send."""
        unsent = self._unsent
        while unsent and not self._paused and self._open:
            piece = unsent.popleft()
            if len(piece) > _WRITE_BYTES:
                unsent.appendleft(piece[_WRITE_BYTES:])
                piece = piece[:_WRITE_BYTES]
            self._transport.write(piece)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._write()

    # --- logging in ---------------------------------------------------------------------------------------

    async def log_in(self) -> None:
        """Authenticate, for the first time or again; nothing without a login.

        Raises:
            KafkaError, ConnectionError, TimeoutError: as `Login.perform`.
        """
        if self._login is None:
            return
        try:
            async with asyncio.timeout(self._timeout):
                self._session = await self._login.perform(self._ask_in_login, self._clock)
        finally:
            self._logging_in = False
        self._slowest = 0.0
        while self._held:
            prepared, answer = self._held.popleft()
            if not answer.done():
                self._send(prepared, answer)

    async def _ask_in_login(self, request: WireRequest[A]) -> A:
        """Send a request of a login, past those that are held."""
        if not self._open:
            raise ConnectionError("closed")
        self._logging_in = True
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._send(request.prepare(self._versions), answer)
        return await answer

    def _must_hold(self) -> bool:
        """Whether a request must wait for a login, which begins here where it is due."""
        if self._session is None:
            return self._logging_in
        now = self._clock()
        if self._renewal is None and self._session.is_due(now, self._slowest):
            self._renewal = asyncio.get_running_loop().create_task(self._renew())
        return self._logging_in or (self._renewal is not None and self._session.is_ending(now, self._slowest))

    async def _renew(self) -> None:
        try:
            await self.log_in()
        except Exception as error:  # noqa: BLE001  whatever it is, those who wait are told
            why = readable_refusal(str(error)) or "no answer in time"
            self.close(ConnectionError(f"re-authentication failed: {why}"))
        except BaseException:
            self.close()
            raise
        finally:
            self._renewal = None

    # --- answers ------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  asyncio calls it so
        if self._frame is not None:
            return self._frame[self._frame_filled :]
        return self._small[self._small_filled :]

    def buffer_updated(self, nbytes: int) -> None:
        try:
            if self._frame is None:
                self._small_filled += nbytes
                self._cut_small()
                return
            self._frame_filled += nbytes
            if self._frame_filled == len(self._frame):
                frame, self._frame = self._frame, None
                self._answered(frame)
        except Exception as error:  # noqa: BLE001  an answer that cannot be read ends the connection
            self.close(error)

    def _cut_small(self) -> None:
        start, end = 0, self._small_filled
        while end - start >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._small, start)
            if not 0 <= size <= _LARGEST_ANSWER:
                raise ConnectionError(f"the broker sent a response of {size} bytes, which is no valid size")
            start += _SIZE.size
            frame = _frame_of(size)
            there = min(size, end - start)
            frame[:there] = self._small[start : start + there]
            start += there
            if there < size:
                self._frame, self._frame_filled = frame, there
                break
            self._answered(frame)
        left = end - start
        if left:
            self._small[:left] = bytes(self._small[start:end])
        self._small_filled = left

    def _answered(self, frame: memoryview) -> None:
        if not self._waiting:
            raise ConnectionError("the broker sent a response although mmtool had sent no request")
        asked = self._waiting[0]  # one that cannot be read fails with all others
        if len(frame) < _SIZE.size or _SIZE.unpack_from(frame)[0] != asked.number:
            raise ConnectionError("the broker sent the response to another request")
        if not asked.answer.done():
            asked.answer.set_result(asked.prepared.read(frame))
        self._waiting.popleft()
        if self._session is not None:
            self._slowest = max(self._slowest, self._clock() - asked.since)

    # --- ending -------------------------------------------------------------------------------------------

    def eof_received(self) -> bool:
        self.close(ConnectionError("the broker closed the connection"))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(exc)

    def close(self, error: BaseException | None = None) -> None:
        if not self._open:
            return
        self._open = False
        self._unsent.clear()
        self._transport.close()
        left = [asked.answer for asked in self._waiting] + [answer for _, answer in self._held]
        self._waiting.clear()
        self._held.clear()
        for answer in left:
            if not answer.done():
                failure = ConnectionError(f"closed: {error}" if error else "closed")
                failure.__cause__ = error
                answer.set_exception(failure)
