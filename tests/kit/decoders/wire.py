"""Responses of brokers: of every request, of the listeners' examination, and the frames that they come in."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import struct
import sys
from dataclasses import fields
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import mmtool.kafka.wire
from kit.decoders.table import Decoder
from mmtool.kafka.wire import codec, request
from mmtool.kafka.wire.codec import Cursor, UnreadableResponseError, int32
from mmtool.kafka.wire.connection import Connection
from mmtool.kafka.wire.metadata import MetadataRequest
from mmtool.kafka.wire.request import Prepared, WireRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmtool.translation.types import TopicId

T = TypeVar("T")

_SHARED = (
    "mmtool.kafka.wire.codec", "mmtool.kafka.wire.request", "mmtool.kafka.wire.acls", "mmtool.kafka.wire.schema",
)  # fmt: skip


def rows() -> Iterator[Decoder]:
    for module in pkgutil.iter_modules(mmtool.kafka.wire.__path__):
        importlib.import_module(f"mmtool.kafka.wire.{module.name}")
    for kind in request_kinds():
        yield Decoder(
            f"response to {kind.__name__}",
            (kind.__module__, *_SHARED),
            partial(answers, kind),
            partial(read_answer, kind),
            (UnreadableResponseError,),
        )
    yield Decoder(
        "ApiVersions",
        ("mmtool.kafka.wire.request", "mmtool.kafka.admin.listeners"),
        _first_answers,
        _read_first,
        (UnreadableResponseError,),
    )
    yield Decoder("frames of a connection", ("mmtool.kafka.wire.connection",), _frames, _read_frames)


def _first_answers() -> Iterator[bytes]:
    reads: tuple[Callable[[Cursor], object], ...] = (
        partial(request._apis, with_features=True),
        partial(request._apis, with_features=False),
    )
    for which, read in enumerate(reads):
        for seed in range(4):
            composer = Composer(seed, is_flexible=which == 0)
            read(composer)
            yield bytes((which,)) + bytes(composer.written)


def _read_first(data: bytes) -> None:
    which, frame = (data[0] if data else 0) % 2, data[1:]
    request.read_api_versions(frame, with_features=which == 0)


def _frames() -> Iterator[bytes]:
    for answer in answers(MetadataRequest):
        if answer[0] == MetadataRequest.VERSIONS[-1]:
            frame = int32(1) + b"\x00" + answer[1:]
            yield int32(len(frame)) + frame


def _read_frames(data: bytes) -> None:
    """Every request ends: answered, or with ConnectionError; the transport is closed after nonsense."""
    asyncio.run(_answered(data))


async def _answered(data: bytes) -> None:
    transport: Any = SimpleNamespace(closed=False, write=len, set_protocol=id)
    transport.close = partial(setattr, transport, "closed", True)
    transport.set_write_buffer_limits = dict
    opened = SimpleNamespace(
        _versions={MetadataRequest.API_KEY: (0, 99)},
        _writer=SimpleNamespace(transport=transport),
        _reader=None,
        _read_task=SimpleNamespace(cancel=int),
    )
    connection = Connection(opened, "me", 5.0)
    asked = asyncio.gather(*(connection.send(MetadataRequest(())) for _ in range(2)), return_exceptions=True)
    await asyncio.sleep(0)
    at = 0
    while at < len(data) and connection.connected():
        room = connection.get_buffer(-1)
        count = min(len(room), len(data) - at)
        room[:count] = data[at : at + count]
        connection.buffer_updated(count)
        at += count
    connection.close()
    for ended in await asked:
        assert not isinstance(ended, BaseException) or isinstance(ended, ConnectionError)


class Composer(Cursor):
    """A cursor that answers every question with a plausible value, and keeps that value's bytes."""

    __slots__ = ("_random", "written")

    def __init__(self, seed: int, *, is_flexible: bool) -> None:
        super().__init__(b"", is_flexible=is_flexible)
        self._random = Random(seed)
        self.written = bytearray()

    def _put(self, layout: struct.Struct | str, *numbers: int) -> None:
        self.written += struct.pack(layout if isinstance(layout, str) else layout.format, *numbers)

    def _number(self) -> int:
        return self._random.choice((0, 0, 1, 2, 3, 7))

    def _integer(self, layout: str) -> int:
        number = self._number()
        self._put(layout, number)
        return number

    def int8(self) -> int:
        return self._integer(">b")

    def int16(self) -> int:
        return self._integer(">h")

    def int32(self) -> int:
        return self._integer(">i")

    def int64(self) -> int:
        return self._integer(">q")

    def fields(self, layout: struct.Struct) -> tuple[int, ...]:
        numbers = tuple(self._number() for _ in layout.unpack(bytes(layout.size)))
        self._put(layout, *numbers)
        return numbers

    def uvarint(self) -> int:
        number = self._number() % 4
        self.written += codec.uvarint(number)
        return number

    def take(self, length: int) -> memoryview:
        octets = bytes(self._random.choice(b"abcz01") for _ in range(length))
        self.written += octets
        return memoryview(octets)

    def topic_id(self) -> TopicId:
        return codec.topic_id_from_bytes(bytes(self.take(16)))

    def array(self, item: Callable[[], T]) -> list[T]:
        if self._is_flexible:
            return super().array(item)
        count = 1  # some answers have exactly one element, and none is empty
        self._put(">i", count)
        return [item() for _ in range(count)]

    def tags(self) -> dict[int, Cursor]:
        if self._is_flexible:
            self.written += codec.uvarint(0)
        return {}


def request_kinds() -> Iterator[type[WireRequest[Any]]]:
    """Every class of mmtool's requests whose modules are loaded; a dataclass with slots is made twice."""
    found: list[type[WireRequest[Any]]] = list(WireRequest.__subclasses__())
    for one in found:
        found += one.__subclasses__()
        is_kept = getattr(sys.modules[one.__module__], one.__name__, None) is one
        if is_kept and one.__module__.startswith("mmtool."):
            yield one


def request_of(kind: type[WireRequest[Any]]) -> WireRequest[Any]:
    """A request of a class, for its decoder alone: its fields are empty."""
    request = object.__new__(kind)
    for field in fields(kind):  # type: ignore[arg-type]  # every request is a dataclass
        object.__setattr__(request, field.name, ())
    return request


def answers(kind: type[WireRequest[Any]], count: int = 4) -> list[bytes]:
    """Some responses to a request, each behind the number of the version that it is of."""
    made = []
    for version in dict.fromkeys(kind.VERSIONS):
        for seed in range(count):
            composer = Composer(seed, is_flexible=version >= kind.FLEXIBLE_FROM)
            request_of(kind).answer(version, composer)
            made.append(bytes((version,)) + bytes(composer.written))
    return made


def read_answer(kind: type[WireRequest[Any]], data: bytes) -> object:
    """What a connection makes of a response of `answers`, header included."""
    versions = tuple(dict.fromkeys(kind.VERSIONS))
    version = data[0] if data and data[0] in versions else versions[-1]
    header = bytes(5 if version >= kind.FLEXIBLE_FROM else 4)
    return Prepared(request_of(kind), version).read(memoryview(header + data[1:]))
