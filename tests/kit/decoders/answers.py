"""Valid responses of a broker, made by the decoder itself: a cursor that makes up what it is asked to read."""

from __future__ import annotations

import struct
import sys
from dataclasses import fields
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from mmtool.kafka.wire import codec
from mmtool.kafka.wire.codec import Cursor
from mmtool.kafka.wire.request import Prepared, WireRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mmtool.translation.types import TopicId

T = TypeVar("T")


class Composer(Cursor):
    """Answers every question with a plausible value, and keeps that value's bytes."""

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


def requests() -> Iterator[type[WireRequest[Any]]]:
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
