"""Batches of empty records, which move the end of an empty log to an offset, and are deleted at once.

A record has no key, no value and no headers. The batch has no timestamp: that passes every limit of a topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from mmtool.kafka.batches.checksum import crc32c, extend
from mmtool.kafka.batches.compression import compress, decompress
from mmtool.kafka.batches.header import (
    CHECKED_FROM,
    CRC_AT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER,
    Codec,
)
from mmtool.kafka.batches.legacy import NO_TIMESTAMP
from mmtool.kafka.batches.ready import ReadyBatch, Segment
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from mmtool.kafka.batches.header import BatchView

MOST_FILLER: Final = 1_000_000
"""Records of a batch: 9 MB, and 0.76 MB when they are compressed [measured]. The encoding allows for 2^20."""

_HEAD: Final = b"\0\0"  # attributes, timestamp delta
_TAIL: Final = b"\x01\x01\0"  # key and value of length -1, no headers
_BOUNDS: Final = ((0, 1 << 6, 1), (1 << 6, 1 << 13, 2), (1 << 13, 1 << 20, 3))
"""Offset deltas from and below which a varint has so many bytes."""


def filler(count: int) -> ReadyBatch:
    """A batch of ``count`` empty records, at most `MOST_FILLER`, compressed with zstd."""
    packed = compress(Codec.ZSTD, _records(count))
    payload = bytearray(HEADER_SIZE + len(packed))
    HEADER.pack_into(
        payload, 0, 0, len(payload) - LOG_OVERHEAD, -1, MAGIC, 0,
        Codec.ZSTD, count - 1, NO_TIMESTAMP, NO_TIMESTAMP, *NO_PRODUCER, count,
    )  # fmt: skip
    crc = extend(crc32c(bytes(payload[CHECKED_FROM:HEADER_SIZE])), packed)
    payload[CRC_AT:CHECKED_FROM] = crc.to_bytes(4, "big")
    payload[HEADER_SIZE:] = packed
    start = UpstreamOffset(0)
    return ReadyBatch(payload, count, (Segment(start, count),), UpstreamOffset(start + count))


def is_filler(view: BatchView, producer_id: int) -> bool:
    """Whether a batch of a log is one of `filler` that this producer has appended, record by record."""
    header = view.header
    if header.producer_id != producer_id or header.is_control or header.record_count > MOST_FILLER:
        return False
    count = header.last_offset_delta + 1
    return count == header.record_count and decompress(header.codec, view.records) == _records(count)


def _records(count: int) -> bytes:
    """The records section of a batch, uncompressed."""
    parts = []
    for start, stop, width in _BOUNDS:
        deltas = np.arange(start, min(stop, count), dtype=np.int64) << 1
        rows = np.empty((len(deltas), 1 + len(_HEAD) + width + len(_TAIL)), dtype=np.uint8)
        rows[:, 0] = (rows.shape[1] - 1) << 1
        rows[:, 1:3] = np.frombuffer(_HEAD, dtype=np.uint8)
        for at in range(width):
            more = 0x80 if at < width - 1 else 0
            rows[:, 3 + at] = (deltas >> (7 * at) & 0x7F) | more
        rows[:, -len(_TAIL) :] = np.frombuffer(_TAIL, dtype=np.uint8)
        parts.append(rows.tobytes())
    return b"".join(parts)
