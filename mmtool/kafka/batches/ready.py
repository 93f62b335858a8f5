"""A batch ready to be produced, and the batches of empty records that move an empty log's end."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import numpy as np

from mmtool.kafka.batches.checksum import crc32c, extend, push
from mmtool.kafka.batches.compression import compress, decompress
from mmtool.kafka.batches.header import (
    CHECKED_FROM,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER,
    TRANSACTIONAL_BIT,
    BatchError,
    BatchView,
    Codec,
)
from mmtool.kafka.batches.records import NO_TIMESTAMP
from mmtool.translation.types import UNKNOWN, Unknown, UpstreamOffset

_KEPT_BITS: Final = ~(TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT)
_NO_LEADER_EPOCH: Final = -1  # Kafka's own value in a produce request; the broker writes its epoch over it

_ADDRESS = struct.Struct(">qii")  # base offset, length, leader epoch
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")  # producer id, producer epoch, base sequence
_PRODUCER_AT = 43
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_AT = 35


class Segment(NamedTuple):
    """Records of a batch that are contiguous on the source: ``count`` of them from ``upstream_start`` on."""

    upstream_start: UpstreamOffset
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks of a segment


class ReadyBatch:
    """One batch for one produce request.

    Invariants (the tests state them again, by letter):

    A. The segments' counts add up to ``record_count``, which is above 0.
    B. The batch is dense: offset deltas are 0, 1, 2, ... (brokers refuse anything else, error 87).
    C. The checksum fits the bytes exactly when it did at the source: `stamp` carries it over and never
       recomputes it, so a bit that flipped between the source's disk and here is refused by the target's
       broker.
    D. Records are in upstream order, and segments ascend without overlap.
    E. Stamping with equal values gives equal bytes: a retry is byte for byte the first try.

    Attributes:
        payload: The whole batch, header included.
        record_count: Records in it; the next sequence is this much higher.
        segments: Where the records come from.
        upstream_next: The frontier once this batch is acknowledged: everything below is mapped or known
        absent.
    """

    __slots__ = ("payload", "record_count", "segments", "upstream_next")

    def __init__(
        self,
        payload: bytearray,
        record_count: int,
        segments: tuple[Segment, ...],
        upstream_next: UpstreamOffset,
    ) -> None:
        self.payload = payload
        self.record_count = record_count
        self.segments = segments
        self.upstream_next = upstream_next

    @property
    def upstream_start(self) -> UpstreamOffset:
        """The first record's source offset."""
        return self.segments[0].upstream_start

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return len(self.payload)

    @property
    def max_timestamp_ms(self) -> int | Unknown:
        """The newest record's timestamp, in ms since 1970; UNKNOWN where the records carry none."""
        (stated,) = _MAX_TIMESTAMP.unpack_from(self.payload, _MAX_TIMESTAMP_AT)
        return UNKNOWN if stated == NO_TIMESTAMP else int(stated)

    def stamp(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Write base offset 0, no leader epoch, producer id, epoch and sequence into the header (KIP-98).

        The transactional, control and delete-horizon bits are cleared. Costs the same for any size.
        """
        payload = self.payload
        before = bytes(payload[CHECKED_FROM:HEADER_SIZE])
        (attributes,) = _ATTRIBUTES.unpack_from(before)
        (crc,) = _CRC.unpack_from(payload, CRC_AT)
        _ADDRESS.pack_into(payload, 0, 0, len(payload) - LOG_OVERHEAD, _NO_LEADER_EPOCH)
        _ATTRIBUTES.pack_into(payload, CHECKED_FROM, attributes & _KEPT_BITS)
        _PRODUCER.pack_into(payload, _PRODUCER_AT, producer_id, epoch, sequence)
        difference = crc32c(before) ^ crc32c(bytes(payload[CHECKED_FROM:HEADER_SIZE]))
        _CRC.pack_into(payload, CRC_AT, crc ^ push(difference, len(payload) - HEADER_SIZE))


def as_is(view: BatchView) -> ReadyBatch:
    """Copy a source batch unchanged into a batch to produce, where `rebuild_reason` gives None.

    Raises:
        BatchError: the batch is a control batch or of an old format: neither can be produced.
    """
    header = view.header
    if header.magic != MAGIC or header.is_control:
        raise BatchError(f"the batch at offset {header.base_offset} cannot be moved as it is")
    segment = Segment(UpstreamOffset(header.base_offset), header.record_count)
    return ReadyBatch(
        bytearray(view.memory), header.record_count, (segment,), UpstreamOffset(header.next_offset)
    )


def sealed(packed: bytes, codec: Codec, count: int, base_ms: int, max_ms: int) -> bytearray:
    """A dense batch of no producer around ``count`` records, which are compressed already; times in ms since 1970."""
    payload = bytearray(HEADER_SIZE + len(packed))
    HEADER.pack_into(
        payload, 0, 0, len(payload) - LOG_OVERHEAD, -1, MAGIC, 0,
        codec, count - 1, base_ms, max_ms, *NO_PRODUCER, count,
    )  # fmt: skip
    crc = extend(crc32c(bytes(payload[CHECKED_FROM:HEADER_SIZE])), packed)
    payload[CRC_AT:CHECKED_FROM] = crc.to_bytes(4, "big")
    payload[HEADER_SIZE:] = packed
    return payload


MOST_FILLER: Final = 1_000_000
"""Records of a batch: 9 MB, and 0.76 MB when they are compressed [measured]. The encoding allows for 2^20."""

_HEAD: Final = b"\0\0"  # attributes, timestamp delta
_TAIL: Final = b"\x01\x01\0"  # key and value of length -1, no headers
_BOUNDS: Final = ((0, 1 << 6, 1), (1 << 6, 1 << 13, 2), (1 << 13, 1 << 20, 3))
"""Offset deltas from and below which a varint has so many bytes."""


def filler(count: int) -> ReadyBatch:
    """A batch of ``count`` empty records, at most `MOST_FILLER`, compressed with zstd."""
    packed = compress(Codec.ZSTD, _records(count))
    payload = sealed(packed, Codec.ZSTD, count, NO_TIMESTAMP, NO_TIMESTAMP)
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
