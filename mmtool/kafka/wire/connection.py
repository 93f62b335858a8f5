"""One connection to one broker: frames read into their own memory, batches written without a copy.

aiokafka opens it: TCP, TLS, SASL and the version lookup are aiokafka's. Then this protocol takes the
transport over, because aiokafka's own reading through a stream copies every byte four times and grows a buffer
while it reads, which was 45 % of a worker's CPU at 1 KB records.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.kafka.wire.request import Prepared, WireRequest

A = TypeVar("A")

_SIZE = struct.Struct(">i")
_SMALL_ANSWER = 16 << 10
_WRITE_BYTES = 512 << 10
_WORTH_A_VIEW = 32 << 10
_LARGEST_ANSWER = 1 << 30
_LARGE_ANSWER = 32 << 20


def _frame_of(size: int) -> memoryview:
    """Memory for a response; the pages of a large one exist only once they are written: its size is only a claim."""
    if size <= _LARGE_ANSWER:
        return memoryview(bytearray(size))
    return memoryview(mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS))


class Connection(asyncio.BufferedProtocol):
    """A connection on which requests are sent, and answered, in order.

    A. An answer is given to the request that has waited longest, and only when it carries its number.
    B. Once closed, every waiting request fails with ConnectionError, and so does every later one.
    """

    def __init__(self, opened: Any, client_id: str, timeout_seconds: float) -> None:
        self._versions: Mapping[int, tuple[int, int]] = opened._versions  # noqa: SLF001  aiokafka has no public way
        self._client_id = client_id
        self._timeout = timeout_seconds
        self._waiting: deque[tuple[int, Prepared[Any], asyncio.Future[Any]]] = deque()
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
        self._number = (self._number + 1) & 0x7FFFFFFF
        prepared = request.prepare(self._versions)
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._number, prepared, answer))
        self._queue(prepared.pieces(self._number, self._client_id))
        async with asyncio.timeout(self._timeout):
            return await answer

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

    # --- answers ------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  asyncio calls it so
        if self._frame is not None:
            return self._frame[self._frame_filled :]
        return self._small[self._small_filled :]

    def buffer_updated(self, nbytes: int) -> None:
        try:
            if self._frame is not None:
                self._grow_frame(nbytes)
            else:
                self._small_filled += nbytes
                self._cut_small()
        except Exception as error:  # noqa: BLE001  an answer that cannot be read ends the connection
            self.close(error)

    def _grow_frame(self, count: int) -> None:
        assert self._frame is not None
        self._frame_filled += count
        if self._frame_filled == len(self._frame):
            frame, self._frame = self._frame, None
            self._answered(frame)

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
            raise ConnectionError("the broker sent a response to no request")
        number, prepared, answer = self._waiting[0]  # one that cannot be read fails with all others
        if len(frame) < _SIZE.size or _SIZE.unpack_from(frame)[0] != number:
            raise ConnectionError("the broker sent the response to another request")
        if not answer.done():
            answer.set_result(prepared.read(frame))
        self._waiting.popleft()

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
        waiting, self._waiting = self._waiting, deque()
        for _, _, answer in waiting:
            if not answer.done():
                failure = ConnectionError(f"closed: {error}" if error else "closed")
                failure.__cause__ = error
                answer.set_exception(failure)
