"""The network between clients and one broker: a TCP proxy that is far, thin, silent or cut, as it is told meanwhile."""

from __future__ import annotations

import asyncio
import math
import socket
import struct
import threading
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import cycle
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence
    from typing import Any

_CHUNK = 64 << 10
_START_SECONDS = 10.0
_NOT_LINGERING = struct.pack("ii", 1, 0)  # SO_LINGER of no time: a close is a reset, and not an orderly end


class Way(Enum):
    """A direction, as the client sees it."""

    THERE = "there"
    BACK = "back"


@dataclass(frozen=True, slots=True)
class LinkShape:
    """How one link is.

    Attributes:
        round_trip_seconds: Added to whatever the other end takes to answer.
        bytes_per_second: Of each direction, over all connections.
        window_bytes: How much one connection has under way in one direction, as a TCP window allows.
        chunk_bytes: No more of it comes at once.
        silent: Ways on which nothing arrives. It is held back, not lost, as TCP sends again what nobody has
            acknowledged: what was asked on a connection that was given up since is heard once the network is back.
        refuses: New connections come to nothing.
        swallows: API keys of Kafka's requests that arrive, and whose answers are lost with their connections.
        late: API keys of requests whose connections are reset at once, and which arrive one of `LATE_SECONDS` later.
    """

    round_trip_seconds: float = 0.0
    bytes_per_second: float = math.inf
    window_bytes: int = 16 << 20
    chunk_bytes: int = _CHUNK
    silent: frozenset[Way] = frozenset()
    refuses: bool = False
    swallows: frozenset[int] = frozenset()
    late: frozenset[int] = frozenset()


LATE_SECONDS = (1.0, 3.0, 7.0)
"""In turn; the last is longer than mmtool waits before it reads what came of the request."""

CLEAR = LinkShape()
"""A link that nobody notices."""


class _Lane:
    """One direction of the link: chunks leave one after the other, and arrive half a round trip later."""

    def __init__(self, way: Way, shape: LinkShape) -> None:
        self._way = way
        self._free_at = 0.0
        self._passes = asyncio.Event()
        self.carried = 0
        self.change(shape)

    def change(self, shape: LinkShape) -> None:
        self._shape = shape
        if self._way in shape.silent:
            self._passes.clear()
        else:
            self._passes.set()

    def arrival(self, size: int, now: float) -> float:
        """When the last byte of a chunk that is handed over now comes out."""
        self._free_at = max(self._free_at, now) + size / self._shape.bytes_per_second
        self.carried += size
        return self._free_at + self._shape.round_trip_seconds / 2

    async def arrives(self, due: float) -> None:
        """Waits until what is due then comes out."""
        await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
        await self._passes.wait()


class _Frames:
    """Kafka's frames in a stream of chunks: what each of them has behind its length."""

    _START = struct.Struct(">ih")

    def __init__(self) -> None:
        self._start, self._left = b"", 0

    def begun(self, chunk: bytes) -> Iterator[int]:
        """The first two bytes of each frame that they end with this chunk: an API key, in a request."""
        while chunk:
            if self._left:
                took = min(self._left, len(chunk))
                self._left -= took
            else:
                took = self._START.size - len(self._start)
                self._start += chunk[:took]
                if len(self._start) == self._START.size:
                    size, key = self._START.unpack(self._start)
                    self._start, self._left = b"", max(size - 2, 0)
                    yield key
            chunk = chunk[took:]


class _Conversation:
    """What one connection asked and was not answered yet; answers come in the order of requests."""

    def __init__(self) -> None:
        self.asked = deque[int]()
        self._requests, self._answers = _Frames(), _Frames()

    def ask(self, chunk: bytes) -> Sequence[int]:
        """The requests that begin in this chunk."""
        began = list(self._requests.begun(chunk))
        self.asked.extend(began)
        return began

    def answer(self, chunk: bytes, swallows: frozenset[int]) -> bool:
        """Whether the answers in this chunk come through."""
        for _ in self._answers.begun(chunk):
            if self.asked and self.asked[0] in swallows:
                return False
            if self.asked:
                self.asked.popleft()
        return True


class Link:
    """Carries connections from ``listen_port`` to ``port``, both on loopback. A context manager, for any thread.

    Attributes:
        unanswered: Kafka's requests, by API key, that had no answer when their connections ended.
    """

    def __init__(self, listen_port: int, port: int, shape: LinkShape = CLEAR) -> None:
        self._listen_port, self._port, self._shape = listen_port, port, shape
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="link", daemon=True)
        self._there, self._back = _Lane(Way.THERE, shape), _Lane(Way.BACK, shape)
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.StreamWriter] = set()
        self.unanswered = Counter[int]()
        self._late = cycle(LATE_SECONDS)

    def __enter__(self) -> Self:
        self._thread.start()
        start = asyncio.start_server(self._connected, "127.0.0.1", self._listen_port)
        self._server = self._do(start)
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS)
        self._loop.close()

    @property
    def carried(self) -> tuple[int, int]:
        """Bytes so far, there and back."""
        return self._there.carried, self._back.carried

    def change(self, shape: LinkShape) -> None:
        """The link is like that from now on, for what is under way as well."""
        self._do(self._changed(shape))

    def cut(self) -> None:
        """Resets every connection; what was under way is lost."""
        self._do(self._cut())

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_SECONDS)

    async def _changed(self, shape: LinkShape) -> None:
        self._shape = shape
        for lane in (self._there, self._back):
            lane.change(shape)

    async def _cut(self) -> None:
        for end in self._ends:
            _reset(end)

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._shape.refuses:
                raise ConnectionRefusedError
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            _reset(writer)
            return
        talk = _Conversation()

        def ask(chunk: bytes) -> float:
            if self._shape.late.isdisjoint(talk.ask(chunk)):
                return 0.0
            _reset(writer)
            return next(self._late)

        def answer(chunk: bytes) -> float:
            if not writer.is_closing() and not talk.answer(chunk, self._shape.swallows):
                _reset(writer)
                _reset(there_writer)
            return 0.0

        self._spawn(self._carry(reader, there_writer, self._there, ask))
        back = self._spawn(self._carry(there_reader, writer, self._back, answer))
        back.add_done_callback(lambda _: self.unanswered.update(talk.asked))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        lane: _Lane,
        note: Callable[[bytes], float],
    ) -> None:
        """Chunks in order, each when it is due; no more than the window between the two ends.

        ``note`` says by how much later than others a chunk is due.
        """
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(self._shape.window_bytes // _CHUNK)
        delivering = asyncio.ensure_future(self._deliver(under_way, writer, lane))
        self._ends.add(writer)
        try:
            with suppress(ConnectionError):
                while chunk := await reader.read(self._shape.chunk_bytes):
                    later = note(chunk)
                    await under_way.put((lane.arrival(len(chunk), self._loop.time()) + later, chunk))
            await under_way.put((lane.arrival(0, self._loop.time()), b""))
            await delivering
        finally:
            self._ends.discard(writer)
            delivering.cancel()
            writer.close()

    async def _deliver(
        self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter, lane: _Lane
    ) -> None:
        """Keeps on taking what comes when the other end is gone: nobody waits for room then."""
        gone = False
        while True:
            due, chunk = await under_way.get()
            if not gone:
                await lane.arrives(due)
            if not chunk:
                return
            try:
                if not gone:
                    writer.write(chunk)
                    await writer.drain()
            except ConnectionError:
                gone = True


def _reset(end: asyncio.StreamWriter) -> None:
    with suppress(OSError):  # it has ended already, and waits for the other one
        end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOT_LINGERING)
    end.transport.abort()
