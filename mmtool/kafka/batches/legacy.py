"""Read message formats 0 and 1 (before Kafka 0.11), which brokers still serve from old segments.

Such a "batch" is one message, or one compressed message that wraps many. Its offset field is the *last*
offset inside, its count is known only by decoding: so the header of the view is made from the decoded
records.

A message is: offset i64, length i32, CRC-32 u32, magic i8, attributes i8, in format 1 a timestamp i64; then key and
value, each behind an i32 length. (aiokafka's reader of wrapped messages never ends on a message of length -12.)
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from mmtool.kafka.batches.compression import decompress
from mmtool.kafka.batches.errors import BatchError
from mmtool.kafka.batches.header import (
    CODEC_BITS,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MOST_RECORDS,
    NO_PRODUCER,
    SMALLEST_LENGTH,
    BatchHeader,
    BatchView,
    Codec,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_TIMESTAMP: Final = -1
"""The timestamp that Kafka gives a message of format 0 when it converts it to a later format."""

_MESSAGE = struct.Struct(">qiIbb")  # offset, length, CRC-32, magic, attributes
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")


class _Message(NamedTuple):
    offset: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def legacy_view(memory: memoryview) -> BatchView:
    """A view of an old message, with the header that the same records would have in format 2.

    Raises:
        BatchError: the message cannot be decoded.
    """
    last_offset, length, crc, magic, attributes = _MESSAGE.unpack_from(memory)
    records = _decoded(memory, magic)
    first = records[0].offset if records else last_offset
    times = [record.timestamp for record in records] or [NO_TIMESTAMP]
    header = BatchHeader(
        first, length, -1, magic, crc, attributes & CODEC_BITS,
        last_offset - first, times[0], max(times), *NO_PRODUCER, len(records),
    )  # fmt: skip
    return BatchView(header, memory)


def legacy_records(view: BatchView) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    """Decode an old message: offset, timestamp (ms since 1970), key and value of each record.

    A wrapper's LogAppendTime is resolved.

    Raises:
        BatchError: the message cannot be decoded.
    """
    for record in _decoded(view.memory, view.header.magic):
        yield record.offset, record.timestamp, record.key, record.value


def legacy_crc_fits(view: BatchView) -> bool:
    """Whether the CRC-32 of the outer message fits."""
    return crc32(view.memory[MAGIC_AT:]) == view.header.crc


def _decoded(memory: memoryview, magic: int) -> list[_Message]:
    try:
        outer = _message(memory, magic)
        return _inside(outer, magic) if outer.attributes & CODEC_BITS else [outer]
    except Exception as error:
        offset = _MESSAGE.unpack_from(memory)[0]
        why = "it ends within a field" if isinstance(error, struct.error) else error
        raise BatchError(f"the format-{magic} message at offset {offset} cannot be read: {why}") from error


def _message(memory: memoryview, magic: int) -> _Message:
    """The message that fills ``memory``; raises struct.error or ValueError where it does not."""
    offset, _, _, _, attributes = _MESSAGE.unpack_from(memory)
    at, timestamp = _MESSAGE.size, NO_TIMESTAMP
    if magic:
        (timestamp,) = _TIMESTAMP.unpack_from(memory, at)
        at += _TIMESTAMP.size
    key, at = _nullable(memory, at)
    value, at = _nullable(memory, at)
    return _Message(offset, attributes, timestamp, key, value)


def _nullable(memory: memoryview, at: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(memory, at)
    at += _LENGTH.size
    if length == -1:
        return None, at
    if not 0 <= length <= len(memory) - at:
        raise ValueError(f"a field says that it has {length} bytes, and only {len(memory) - at} bytes follow")
    return bytes(memory[at : at + length]), at + length


def _inside(outer: _Message, magic: int) -> list[_Message]:
    """The messages that a compressed one wraps, with offsets of the log.

    In format 1 they count from the wrapper's first one, and its timestamp counts where brokers set the time.
    """
    codec = Codec(outer.attributes & CODEC_BITS)
    if outer.value is None:
        raise ValueError("a compressed message without a value")
    if codec is Codec.ZSTD or (
        codec is Codec.LZ4 and not magic
    ):  # the latter has a wrong checksum (KAFKA-3160)
        raise ValueError(f"codec {codec.name} in format {magic}")
    found = list(_wrapped(memoryview(decompress(codec, memoryview(outer.value))), magic))
    first = outer.offset - found[-1].offset if magic and found else 0
    timed = outer.timestamp if magic and outer.attributes & LOG_APPEND_TIME_BIT else None
    return [
        message._replace(
            offset=message.offset + max(first, 0), timestamp=message.timestamp if timed is None else timed
        )
        for message in found
    ]


def _wrapped(memory: memoryview, magic: int) -> Iterator[_Message]:
    at = count = 0
    while at < len(memory):
        length = LOG_OVERHEAD + _LENGTH.unpack_from(memory, at + 8)[0]
        if not LOG_OVERHEAD + SMALLEST_LENGTH[magic] <= length <= len(memory) - at:
            raise ValueError(f"a wrapped message of {length} bytes, but {len(memory) - at} are left")
        message = _message(memory[at : at + length], magic)
        count += 1
        if message.attributes & CODEC_BITS:
            raise ValueError("it is compressed twice")
        if count > MOST_RECORDS:
            raise ValueError(f"it wraps more than {MOST_RECORDS} messages, the most that mmtool reads")
        yield message
        at += length
