"""The records inside a batch: as raw parts, or decoded to keys, values and headers.

A record is: length varint, attributes i8, timestamp delta varlong, offset delta varint, then key, value and
headers. Everything from the key on is the *body*: it depends on nothing outside and is copied as bytes, so
null and empty, the order of headers, and header names that are no UTF-8 survive whatever happens to the
numbers. (aiokafka's own reader decodes header names to str, and raises on the last.)
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from mmtool.kafka.batches.compression import MOST_BYTES, DecodedSizeError, decompress
from mmtool.kafka.batches.errors import BatchError, LargeBatchError
from mmtool.kafka.batches.header import MAGIC, MOST_RECORDS
from mmtool.kafka.batches.legacy import legacy_records

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from mmtool.kafka.batches.header import BatchHeader, BatchView

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
    columns = RecordColumns()
    for offset, timestamp, key, value in legacy_records(view):
        columns.offsets.append(offset)
        columns.timestamps.append(timestamp)
        columns.attributes.append(0)
        columns.bodies.append(body_of(key, value))
    return columns


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
        key, at = _nullable(body, 0)
        value, at = _nullable(body, at)
        count, at = _signed(body, at)
        headers = []
        for _ in range(count):
            name, at = _nullable(body, at)
            content, at = _nullable(body, at)
            headers.append((name or b"", content))
    except IndexError as error:
        raise BatchError("a record ends in the middle of a field") from error
    except ValueError as error:
        raise BatchError(str(error)) from error
    if at != len(body) or count < 0:
        raise BatchError(f"a record's fields end at byte {at} of {len(body)}")
    return key, value, tuple(headers)


def _nullable(body: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _signed(body, at)
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
    parts = [*_sized(key), *_sized(value), varint(len(headers) << 1)]
    for name, content in headers:
        parts += (*_sized(name), *_sized(content))
    return b"".join(parts)


def _sized(field: bytes | None) -> tuple[bytes, bytes]:
    return (b"\x01", b"") if field is None else (varint(len(field) << 1), field)  # 1 is -1 in zigzag


def varint(value: int) -> bytes:
    """Encode a number, 0 <= value < 2**64, that is zigzag-encoded already, as a varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
