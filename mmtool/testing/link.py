"""A slow, long link: a TCP proxy with a round-trip time and a bandwidth, for what localhost never shows."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

_CHUNK = 64 << 10
_START_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LinkShape:
    """One link, the same both ways.

    Attributes:
        round_trip_seconds: Added to whatever the other end takes to answer.
        bytes_per_second: Of each direction, over all connections.
        window_bytes: How much one connection has under way in one direction, as a TCP window allows.
    """

    round_trip_seconds: float
    bytes_per_second: float
    window_bytes: int = 16 << 20


class _Lane:
    """One direction of the link: chunks leave one after the other, and arrive half a round trip later."""

    def __init__(self, shape: LinkShape) -> None:
        self._shape = shape
        self._free_at = 0.0
        self.carried = 0

    def arrival(self, size: int, now: float) -> float:
        """When the last byte of a chunk that is handed over now comes out."""
        self._free_at = max(self._free_at, now) + size / self._shape.bytes_per_second
        self.carried += size
        return self._free_at + self._shape.round_trip_seconds / 2


class Link:
    """Carries connections from ``listen_port`` to ``port``, both on loopback. A context manager."""

    def __init__(self, listen_port: int, port: int, shape: LinkShape) -> None:
        self._listen_port, self._port, self._shape = listen_port, port, shape
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="link", daemon=True)
        self._there, self._back = _Lane(shape), _Lane(shape)
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        start = asyncio.start_server(self._connected, "127.0.0.1", self._listen_port)
        self._server = asyncio.run_coroutine_threadsafe(start, self._loop).result(_START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_SECONDS)
        self._loop.close()

    @property
    def carried(self) -> tuple[int, int]:
        """Bytes so far, there and back."""
        return self._there.carried, self._back.carried

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._spawn(self._carry(reader, there_writer, self._there))
        self._spawn(self._carry(there_reader, writer, self._back))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lane: _Lane) -> None:
        """Chunks in order, each when it is due; no more than the window between the two ends."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(self._shape.window_bytes // _CHUNK)
        delivering = asyncio.ensure_future(self._deliver(under_way, writer))
        try:
            with suppress(ConnectionError):
                while chunk := await reader.read(_CHUNK):
                    await under_way.put((lane.arrival(len(chunk), self._loop.time()), chunk))
            await under_way.put((self._loop.time() + self._shape.round_trip_seconds / 2, b""))
            await delivering
        finally:
            delivering.cancel()
            writer.close()

    async def _deliver(
        self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError):
            while True:
                due, chunk = await under_way.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                if not chunk:
                    return
                writer.write(chunk)
                await writer.drain()
