"""Read a fetch answer: its batches of any message format, which of them are committed data, and their records.

Records come as raw parts, or decoded to keys, values and headers.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from heapq import heapify, heappop
from typing import Final, NamedTuple
from zlib import crc32

from mmtool.kafka.batches.compression import MOST_BYTES, DecodedSizeError, decompress
from mmtool.kafka.batches.header import (
    CODEC_BITS,
    HEADER,
    HEADER_SIZE,
    LENGTH_FIELD,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MOST_RECORDS,
    NO_PRODUCER,
    SMALLEST_LENGTH,
    BatchError,
    BatchHeader,
    BatchView,
    Codec,
    LargeBatchError,
)

NO_TIMESTAMP: Final = -1
"""The timestamp that Kafka gives a message of format 0 when it converts it to a later format."""

_MESSAGE = struct.Struct(">qiIbb")  # offset, length, CRC-32, magic, attributes
_TIMESTAMP = struct.Struct(">q")


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
    key, at = _old_nullable(memory, at)
    value, at = _old_nullable(memory, at)
    return _Message(offset, attributes, timestamp, key, value)


def _old_nullable(memory: memoryview, at: int) -> tuple[bytes | None, int]:
    (length,) = LENGTH_FIELD.unpack_from(memory, at)
    at += LENGTH_FIELD.size
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
        length = LOG_OVERHEAD + LENGTH_FIELD.unpack_from(memory, at + 8)[0]
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


_INT64: Final = 1 << 63
_LONGEST_VARINT: Final = 70  # bits: ten groups of seven hold 64


class RawRecord(NamedTuple):
    """A record without offset and timestamp: ``body`` is its bytes from the key's length to the end of the headers.

    ``offset`` is the log's own, ``timestamp`` in ms with LogAppendTime already resolved.
    """

    offset: int
    timestamp: int
    attributes: int
    body: bytes


class Record(NamedTuple):
    """A record as a consumer sees it, except that header names stay bytes. Null is None, never empty."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def decode(view: BatchView) -> Iterator[Record]:
    """Decode the records of a data or control batch, in order, with key, value and headers.

    Raises:
        BatchError: the records cannot be decompressed or break the format.
    """
    for raw in raw_records(view):
        yield Record(raw.offset, raw.timestamp, *fields_of(raw.body))


def raw_records(view: BatchView) -> list[RawRecord]:
    """Read a batch's records in order, with undecoded bodies.

    Raises:
        BatchError: the records cannot be decompressed or break the format.
    """
    return read_columns(view).rows()


@dataclass(slots=True)
class RecordColumns:
    """The raw records of one or more batches, by column: a record costs four list slots and no object.

    Offsets are the log's own and ascend; timestamps in ms, LogAppendTime resolved.
    """

    offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    attributes: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.offsets)

    def rows(self) -> list[RawRecord]:
        """The records as rows, in order."""
        columns = zip(self.offsets, self.timestamps, self.attributes, self.bodies, strict=True)
        return list(map(RawRecord._make, columns))

    def extend(self, more: RecordColumns) -> None:
        """Append records that follow in the log."""
        self.offsets += more.offsets
        self.timestamps += more.timestamps
        self.attributes += more.attributes
        self.bodies += more.bodies

    def part(self, start: int, stop: int) -> RecordColumns:
        """The records with index ``start`` up to, but not including, ``stop``."""
        return RecordColumns(
            self.offsets[start:stop],
            self.timestamps[start:stop],
            self.attributes[start:stop],
            self.bodies[start:stop],
        )

    def wanted(self, position: int, without: Collection[int]) -> RecordColumns:
        """The records from offset ``position`` on, except those at the offsets in ``without``."""
        found = self.part(bisect_left(self.offsets, position), len(self))
        if not without:
            return found
        rows = [row for row in found.rows() if row.offset not in without]
        return RecordColumns(*map(list, zip(*rows, strict=True))) if rows else RecordColumns()


def read_columns(view: BatchView) -> RecordColumns:
    """Read a batch's records into columns, with undecoded bodies; raises as `raw_records`."""
    header = view.header
    if header.magic != MAGIC:
        return _old_columns(view)
    if header.record_count > MOST_RECORDS:
        size, limit = f"{header.record_count} records", str(MOST_RECORDS)
        raise LargeBatchError(header.base_offset, size, limit, header.next_offset)
    try:
        columns = _walk(decompress(header.codec, view.records), header)
    except BatchError:
        raise
    except DecodedSizeError as error:
        limit = f"{MOST_BYTES >> 20} MiB"
        raise LargeBatchError(
            header.base_offset, f"records of more than {limit}", limit, header.next_offset
        ) from error
    except Exception as error:
        what = f"the records of the batch at offset {header.base_offset} cannot be decoded"
        raise BatchError(f"{what}: {error}") from error
    if header.is_log_append_time:
        columns.timestamps = [header.max_timestamp] * len(columns)
    return columns


def _old_columns(view: BatchView) -> RecordColumns:
    messages = _decoded(view.memory, view.header.magic)
    return RecordColumns(
        [one.offset for one in messages],
        [one.timestamp for one in messages],
        [0] * len(messages),
        [body_of(one.key, one.value) for one in messages],
    )


def _walk(plain: bytes, header: BatchHeader) -> RecordColumns:
    """Split decompressed records into columns.

    Varints of one and two bytes are read in the loop: a call would cost more than the rest of the record.
    """
    columns = RecordColumns()
    add_offset, add_time = columns.offsets.append, columns.timestamps.append
    add_attributes, add_body = columns.attributes.append, columns.bodies.append
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    at = 0
    for _ in range(header.record_count):
        if (length := plain[at]) < 128:
            at += 1
        elif (high := plain[at + 1]) < 128:
            length += (high << 7) - 128
            at += 2
        else:
            length, at = read_unsigned(plain, at)
        end = at + (length >> 1)
        add_attributes(plain[at])
        if (time := plain[at + 1]) < 128:
            at += 2
        elif (high := plain[at + 2]) < 128:
            time += (high << 7) - 128
            at += 3
        else:
            time, at = read_unsigned(plain, at + 1)
        if (place := plain[at]) < 128:
            at += 1
        elif (high := plain[at + 1]) < 128:
            place += (high << 7) - 128
            at += 2
        else:
            place, at = read_unsigned(plain, at)
        if at >= end or (length | place) & 1:  # too short for a body, or negative
            raise BatchError(f"record {len(columns)} of the batch at offset {base_offset} is broken")
        add_time(base_timestamp + ((time >> 1) ^ -(time & 1)))
        add_offset(base_offset + (place >> 1))
        add_body(plain[at:end])
        at = end
    if at != len(plain):
        raise BatchError(f"the records of the batch at offset {base_offset} end at byte {at} of {len(plain)}")
    columns.timestamps = as_longs(columns.timestamps)
    return columns


def as_longs(numbers: list[int]) -> list[int]:
    """Wrap numbers around as Java's 64-bit arithmetic does."""
    if not numbers or (min(numbers) >= -_INT64 and max(numbers) < _INT64):
        return numbers
    return [(number + _INT64) % (2 * _INT64) - _INT64 for number in numbers]


def read_unsigned(plain: bytes, at: int) -> tuple[int, int]:
    """Read a varint at an index: its bits before zigzag decoding, and the index after it.

    Raises:
        ValueError: the varint has more than 64 bits.
        IndexError: the varint is cut off.
    """
    value = shift = 0
    while True:
        byte = plain[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift >= _LONGEST_VARINT:
            raise ValueError("a number in a record has more than 64 bits")


def fields_of(body: bytes) -> tuple[bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]:
    """Decode a record's body into key, value and headers.

    Raises:
        BatchError: the body breaks the format.
    """
    try:
        key, at = nullable(body, 0)
        value, at = nullable(body, at)
        count, at = _signed(body, at)
        headers = []
        for _ in range(count):
            name, at = nullable(body, at)
            content, at = nullable(body, at)
            headers.append((name or b"", content))
    except IndexError as error:
        raise BatchError("a record ends in the middle of a field") from error
    except ValueError as error:
        raise BatchError(str(error)) from error
    if at != len(body) or count < 0:
        raise BatchError(f"a record's fields end at byte {at} of {len(body)}")
    return key, value, tuple(headers)


def nullable(body: bytes, at: int) -> tuple[bytes | None, int]:
    """The key, value or content of a header at an index of a record's body, and the index behind it.

    Raises:
        IndexError: The body ends before it.
    """
    if (bits := body[at]) < 128:  # a call would cost more than the rest of the field
        at += 1
    else:
        bits, at = read_unsigned(body, at)
    length = (bits >> 1) ^ -(bits & 1)
    if length < 0:
        return None, at
    if at + length > len(body):
        raise IndexError(at)
    return body[at : at + length], at + length


def _signed(body: bytes, at: int) -> tuple[int, int]:
    value, at = read_unsigned(body, at)
    return (value >> 1) ^ -(value & 1), at


def body_of(
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[bytes, bytes | None], ...] = (),
) -> bytes:
    """Encode a record's body from key, value and headers."""
    parts = [varint(len(headers) << 1)]
    for name, content in headers:
        parts += (*_sized(name), *_sized(content))
    return body_with(key, value, b"".join(parts))


def body_with(key: bytes | None, value: bytes | None, headers: bytes) -> bytes:
    """The same with headers that are encoded already, their number first."""
    return b"".join((*_sized(key), *_sized(value), headers))


def _sized(field: bytes | None) -> tuple[bytes, bytes]:
    return (b"\x01", b"") if field is None else (varint(len(field) << 1), field)  # 1 is -1 in zigzag


def varint(value: int) -> bytes:
    """Encode a number, 0 <= value < 2**64, that is zigzag-encoded already, as a varint."""
    return short_varints()[value] if value < TABLED else _varint(value)


TABLED: Final = 1 << 14
"""The first number whose varint is not in the table: its numbers have one or two bytes."""


@cache
def short_varints() -> list[bytes]:
    """The varints of all numbers below `TABLED`."""
    return [_varint(value) for value in range(TABLED)]


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_ABORT: Final = b"\x00\x00"  # the type in a control record's key, behind two bytes of version; COMMIT is 1


class AbortedFilter:
    """Separates data from aborted records, over the batches of one fetch answer, in order.

    The broker lists each aborted transaction that touches the answer by producer id and first offset. From
    that offset on the producer's transactional batches are dropped, until its abort marker. The list is
    complete for one answer and one partition: make a new filter for each.
    """

    __slots__ = ("_aborting", "_coming")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._coming = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        self._aborting: set[int] = set()
        heapify(self._coming)

    def admits(self, view: BatchView) -> bool:
        """Whether a batch holds data of no aborted transaction; control batches never do.

        Raises:
            BatchError: a transaction marker cannot be read.
        """
        header = view.header
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._aborting.add(heappop(self._coming)[1])
        if header.is_control:
            if header.producer_id in self._aborting and is_abort_marker(view):
                self._aborting.discard(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in self._aborting)


def is_abort_marker(view: BatchView) -> bool:
    """Whether a control batch is an abort marker; one that compaction has emptied is not.

    Raises:
        BatchError: a control record has no type.
    """
    first = next(decode(view), None)
    if first is None:
        return False
    if first.key is None or len(first.key) < 4:
        raise BatchError(f"the control batch at offset {view.header.base_offset} has no readable type")
    return first.key[2:4] == _ABORT


def iter_batches(records: memoryview | bytes | bytearray) -> Iterator[BatchView]:
    """The batches in one partition's fetch response, in log order.

    Brokers cut the response at its byte limit, mid-batch: the cut tail is left out. Batches of message format 0
    and 1 come as views that must be rebuilt.

    Raises:
        BatchError: a batch has an impossible length, magic or count.
    """
    memory = memoryview(records)
    end = len(memory)
    start = 0
    unpack, make = HEADER.unpack_from, BatchHeader._make
    while start + HEADER_SIZE <= end:
        fields = unpack(memory, start)
        if fields[3] != MAGIC or fields[1] < SMALLEST_LENGTH[MAGIC]:
            break
        stop = start + LOG_OVERHEAD + fields[1]
        if stop > end:
            return
        header = make(fields)
        if header.record_count < 0 or header.last_offset_delta < 0:
            raise BatchError(
                f"the header of the batch at offset {header.base_offset} contradicts itself:"
                f" {header.record_count} records, last offset delta {header.last_offset_delta}"
            )
        yield BatchView(header, memory[start:stop])
        start = stop
    while (view := _odd_view(memory, start)) is not None:  # old batches, then the cut tail
        yield view
        start += len(view.memory)


def _odd_view(memory: memoryview, start: int) -> BatchView | None:
    """The batch of any format at a byte position, or None at the cut tail."""
    if len(memory) - start <= MAGIC_AT:
        return None
    (length,) = LENGTH_FIELD.unpack_from(memory, start + 8)
    magic = memory[start + MAGIC_AT]
    if magic > MAGIC or length < SMALLEST_LENGTH[magic]:
        raise BatchError(
            f"no record batch starts at byte {start} of the fetch response: length {length}, magic {magic}"
        )
    whole = memory[start : start + LOG_OVERHEAD + length]
    if len(whole) < LOG_OVERHEAD + length:
        return None
    if magic == MAGIC:
        return next(iter_batches(whole))
    return legacy_view(whole)
