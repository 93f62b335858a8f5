"""The primitive types of Kafka's protocol: a read cursor without copies, and writers.

Types and their encodings follow Kafka's protocol guide: big-endian integers, STRING with an int16 length,
ARRAY with an int32 count, and their "compact" forms (unsigned varint of length + 1) in flexible versions
(KIP-482), where every structure also ends in tagged fields.
"""

from __future__ import annotations

import struct
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from typing import TypeVar

from mmtool.translation.types import TopicId

T = TypeVar("T")

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")

int8 = _INT8.pack
int16 = _INT16.pack
int32 = _INT32.pack
int64 = _INT64.pack

NO_TAGS = b"\x00"
_CONTINUES = 0x80
_LONGEST_UVARINT = 35  # bits: five groups of seven, as Kafka's ByteUtils reads them
BROKEN = (IndexError, ValueError, struct.error)
"""What a `Cursor` raises where bytes break the protocol."""
NO_TOPIC_ID = TopicId("A" * 22)
"""The zero topic id in Kafka's text form."""


class UnreadableResponseError(ConnectionError):
    """A response that breaks Kafka's protocol: the connection is of no more use."""


def read_whole(what: object, read: Callable[[], T]) -> T:
    """The result of ``read``, which decodes a response of the request ``what``.

    Raises:
        UnreadableResponseError: the response breaks the protocol.
    """
    try:
        return read()
    except BROKEN as error:
        raise UnreadableResponseError(
            f"the response to {what} breaks Kafka's protocol ({error or 'it is cut off'}): the server may not be a"
            " Kafka broker"
        ) from error


class Cursor:
    """Reads one answer from front to back; byte fields come out as views into it.

    In a flexible version lengths are compact, and a structure ends in tagged fields (KIP-482).

    Raises IndexError, ValueError or struct.error where the answer ends too early or has an impossible length.
    """

    __slots__ = ("_at", "_is_flexible", "_view")

    def __init__(self, data: bytes | memoryview, *, is_flexible: bool = False) -> None:
        self._is_flexible = is_flexible
        self._view = memoryview(data)
        self._at = 0

    def int8(self) -> int:
        self._at += 1
        return int(_INT8.unpack_from(self._view, self._at - 1)[0])

    def int16(self) -> int:
        self._at += 2
        return int(_INT16.unpack_from(self._view, self._at - 2)[0])

    def int32(self) -> int:
        self._at += 4
        return int(_INT32.unpack_from(self._view, self._at - 4)[0])

    def int64(self) -> int:
        self._at += 8
        return int(_INT64.unpack_from(self._view, self._at - 8)[0])

    def fields(self, layout: struct.Struct) -> tuple[int, ...]:
        """Read adjacent integers in one call, for responses with hundreds of thousands of them."""
        self._at += layout.size
        return layout.unpack_from(self._view, self._at - layout.size)

    def boolean(self) -> bool:
        return self.int8() != 0

    def uvarint(self) -> int:
        byte = self._view[self._at]
        if byte < _CONTINUES:
            self._at += 1
            return byte
        value = shift = 0
        while True:
            byte = self._view[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < _CONTINUES:
                return value
            shift += 7
            if shift >= _LONGEST_UVARINT:
                raise ValueError("an integer is longer than five bytes")

    def take(self, length: int) -> memoryview:
        start = self._at
        self._at += length
        if self._at > len(self._view):
            raise IndexError(
                f"a field says that it has {length} bytes, and only {len(self._view) - start} bytes follow"
            )
        return self._view[start : self._at]

    def string(self) -> str | None:
        length = self.uvarint() - 1 if self._is_flexible else self.int16()
        return None if length < 0 else str(self.take(length), "utf-8")

    def count(self) -> int:
        """Read the length of an ARRAY or of BYTES; 0 for null, since no used response tells them apart."""
        return max(self.uvarint() - 1 if self._is_flexible else self.int32(), 0)

    def records(self) -> memoryview:
        return self.take(self.count())

    def topic_id(self) -> TopicId:
        return topic_id_from_bytes(bytes(self.take(16)))

    def array(self, item: Callable[[], T]) -> list[T]:
        return [item() for _ in range(self.count())]

    def tags(self) -> dict[int, Cursor]:
        """Read the tagged fields that end a structure, by number; a plain version has none."""
        if not self._is_flexible:
            return {}
        return {
            self.uvarint(): Cursor(self.take(self.uvarint()), is_flexible=True) for _ in range(self.uvarint())
        }


def known_as(name: str, topic_id: TopicId) -> TopicId:
    """The key of a topic where topic ids are keys: its id, or its name where its cluster gave it none.

    Brokers before 2.8 (KIP-516) give none, nor do later ones with an older ``inter.broker.protocol.version``.
    """
    return TopicId(name) if topic_id == NO_TOPIC_ID else topic_id


def topic_id_from_bytes(raw: bytes) -> TopicId:
    """A topic id's 16 bytes in Kafka's text form: base64, url-safe, without padding."""
    return TopicId(urlsafe_b64encode(raw).decode().rstrip("="))


def topic_id_to_bytes(topic_id: TopicId) -> bytes:
    """The 16 bytes of a topic id.

    Raises:
        ValueError: when the text is not a topic id.
    """
    return uuid.UUID(bytes=urlsafe_b64decode(topic_id + "==")).bytes


def uvarint(value: int) -> bytes:
    """Encode a number as an unsigned varint: seven bits a byte, lowest first."""
    out = bytearray()
    while value >= _CONTINUES:
        out.append(value & 0x7F | _CONTINUES)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(value: str | None) -> bytes:
    """Encode a nullable STRING."""
    if value is None:
        return int16(-1)
    raw = value.encode()
    return int16(len(raw)) + raw


def compact_string(value: str | None) -> bytes:
    """Encode a nullable COMPACT_STRING."""
    if value is None:
        return uvarint(0)
    raw = value.encode()
    return uvarint(len(raw) + 1) + raw


def array(items: Iterable[bytes]) -> bytes:
    """Encode an ARRAY of elements that are encoded already."""
    encoded = list(items)
    return int32(len(encoded)) + b"".join(encoded)


def compact_array(items: Iterable[bytes]) -> bytes:
    """Encode a COMPACT_ARRAY of elements that are encoded already."""
    encoded = list(items)
    return uvarint(len(encoded) + 1) + b"".join(encoded)
