"""Encode raw records as one dense batch, as a producer writes it."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from mmtool.kafka.batches.checksum import crc32c, extend
from mmtool.kafka.batches.compression import compress
from mmtool.kafka.batches.header import (
    CHECKED_FROM,
    CRC_AT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER,
)
from mmtool.kafka.batches.ready import ReadyBatch, Segment
from mmtool.kafka.batches.records import as_longs, varint
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.kafka.batches.header import Codec
    from mmtool.kafka.batches.records import RecordColumns

_TABLED: Final = 1 << 14  # every varint of one or two bytes


def encode(records: RecordColumns, codec: Codec, upstream_next: UpstreamOffset) -> ReadyBatch:
    """Encode records (at least one) as one CreateTime batch with offset deltas 0, 1, 2, ...

    The base timestamp is the first record's, as every producer writes it.
    """
    packed = compress(codec, _section(records))
    payload = bytearray(HEADER_SIZE + len(packed))
    times = records.timestamps
    HEADER.pack_into(
        payload, 0, 0, len(payload) - LOG_OVERHEAD, -1, MAGIC, 0,
        codec, len(records) - 1, times[0], max(times), *NO_PRODUCER, len(records),
    )  # fmt: skip
    crc = extend(crc32c(bytes(payload[CHECKED_FROM:HEADER_SIZE])), packed)
    payload[CRC_AT:CHECKED_FROM] = crc.to_bytes(4, "big")
    payload[HEADER_SIZE:] = packed
    return ReadyBatch(payload, len(records), segments_of(records.offsets), upstream_next)


def _section(records: RecordColumns) -> bytes:
    """Encode the records section of a batch, uncompressed.

    Paid per record: table look-ups, and one join for all copies.
    """
    table, base = _varints(), records.timestamps[0]
    deltas = as_longs([timestamp - base for timestamp in records.timestamps])
    parts: list[bytes] = []
    keep = parts.append
    place = 0  # the offset delta in zigzag: twice the index
    for delta, attributes, body in zip(deltas, records.attributes, records.bodies, strict=True):
        bits = delta << 1 if delta >= 0 else ~(delta << 1)
        time = table[bits] if bits < _TABLED else varint(bits)
        index = table[place] if place < _TABLED else varint(place)
        place += 2
        length = (1 + len(time) + len(index) + len(body)) << 1
        keep(table[length] if length < _TABLED else varint(length))
        keep(table[attributes] if attributes < 128 else bytes((attributes,)))
        keep(time)
        keep(index)
        keep(body)
    return b"".join(parts)


@cache
def _varints() -> list[bytes]:
    return [varint(value) for value in range(_TABLED)]


def segments_of(offsets: Sequence[int]) -> tuple[Segment, ...]:
    """Split ascending source offsets into contiguous ranges."""
    count = len(offsets)
    if offsets[-1] - offsets[0] + 1 == count:
        return (Segment(UpstreamOffset(offsets[0]), count),)
    starts = [0, *(i for i in range(1, count) if offsets[i] != offsets[i - 1] + 1), count]
    return tuple(Segment(UpstreamOffset(offsets[start]), stop - start) for start, stop in pairwise(starts))
