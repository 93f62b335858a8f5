"""Raw records -> one dense batch, as a producer writes it."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from mmtool.kafka.batches.checksum import crc32c, extend
from mmtool.kafka.batches.compression import compress
from mmtool.kafka.batches.header import CHECKED_FROM, CRC_AT, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC
from mmtool.kafka.batches.ready import ReadyBatch, Segment
from mmtool.kafka.batches.records import varint
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.kafka.batches.header import Codec
    from mmtool.kafka.batches.records import RawRecord

_LONG: Final = (1 << 64) - 1
_SIGN: Final = 63
_TABLED: Final = 1 << 14  # every varint of one or two bytes
_NO_PRODUCER: Final = (-1, -1, -1)  # Kafka's own values, until the batch is stamped


def encode(records: Sequence[RawRecord], codec: Codec, upstream_next: UpstreamOffset) -> ReadyBatch:
    """One CreateTime batch of these records (at least one), offset deltas 0, 1, 2, ...

    The base timestamp is the first record's, as every producer writes it.
    """
    packed = compress(codec, _section(records))
    payload = bytearray(HEADER_SIZE + len(packed))
    base, times = records[0].timestamp, [record.timestamp for record in records]
    HEADER.pack_into(
        payload, 0, 0, len(payload) - LOG_OVERHEAD, -1, MAGIC, 0,
        codec, len(records) - 1, base, max(times), *_NO_PRODUCER, len(records),
    )  # fmt: skip
    crc = extend(crc32c(bytes(payload[CHECKED_FROM:HEADER_SIZE])), packed)
    payload[CRC_AT:CHECKED_FROM] = crc.to_bytes(4, "big")
    payload[HEADER_SIZE:] = packed
    return ReadyBatch(payload, len(records), segments_of(records), upstream_next)


def _section(records: Sequence[RawRecord]) -> bytes:
    """Record after record. Paid per record: table look-ups, and one join for all copies."""
    table = _varints()
    base = records[0].timestamp
    parts: list[bytes] = []
    keep = parts.append
    for index, (_, timestamp, attributes, body) in enumerate(records):
        delta = timestamp - base
        if delta >> _SIGN not in {0, -1}:
            delta = _wrapped(delta)
        delta = (delta << 1) ^ (delta >> _SIGN)
        time = table[delta] if delta < _TABLED else varint(delta)
        place = table[index << 1] if index << 1 < _TABLED else varint(index << 1)
        length = (1 + len(time) + len(place) + len(body)) << 1
        keep(table[length] if length < _TABLED else varint(length))
        keep(table[attributes] if attributes < 128 else bytes((attributes,)))
        keep(time)
        keep(place)
        keep(body)
    return b"".join(parts)


def _wrapped(delta: int) -> int:
    """As Java's long subtraction: readers add it back with the same overflow."""
    delta &= _LONG
    return delta - (1 << 64) if delta >> _SIGN else delta


@cache
def _varints() -> list[bytes]:
    return [varint(value) for value in range(_TABLED)]


def segments_of(records: Sequence[RawRecord]) -> tuple[Segment, ...]:
    """The contiguous upstream ranges of records in order."""
    first, last, count = records[0].offset, records[-1].offset, len(records)
    if last - first + 1 == count:
        return (Segment(UpstreamOffset(first), count),)
    starts = [0, *(i for i in range(1, count) if records[i].offset != records[i - 1].offset + 1), count]
    return tuple(
        Segment(UpstreamOffset(records[start].offset), stop - start) for start, stop in pairwise(starts)
    )
