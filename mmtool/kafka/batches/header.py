"""The 61-byte header of a record batch, and the errors of batches, without the topic, which the caller adds.

Layout (message format 2, KIP-98): base offset i64, length i32, leader epoch i32, magic i8, CRC u32; then,
under the CRC: attributes i16, last offset delta i32, base timestamp i64, max timestamp i64, producer id
i64, producer epoch i16, base sequence i32, record count i32, records.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from mmtool.errors import MmtoolError
from mmtool.translation.types import UpstreamOffset

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size  # 61
LOG_OVERHEAD: Final = 12  # base offset and length: the bytes that "length" does not count
MAGIC: Final = 2

CRC_AT: Final = 17
CHECKED_FROM: Final = 21  # the CRC covers everything from the attributes on

CODEC_BITS: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

NO_PRODUCER: Final = (-1, -1, -1)
"""Kafka's producer id, epoch and base sequence of a batch that no idempotent producer wrote."""

NO_PRODUCER_ID: Final = NO_PRODUCER[0]

SEQUENCES: Final = 1 << 31
"""Size of the range of a producer's sequence numbers in a partition; the next one after the last is 0 (KIP-98)."""

MOST_RECORDS: Final = 1 << 22
"""Records that mmtool decodes from one batch; in memory each takes some hundred bytes, and seven in the batch."""

MAGIC_AT = 16
_PRODUCER_ID_AT = 43
LENGTH_FIELD = struct.Struct(">i")
_PRODUCER_ID = struct.Struct(">q")
SMALLEST_LENGTH = (14, 22, HEADER_SIZE - LOG_OVERHEAD)  # by magic: an empty v0 message, v1 message, v2 batch


OTHER_LEADER = "make another replica the leader of the source partition"
"""What a running flow needs where one replica's bytes are damaged."""


class BatchError(MmtoolError):
    """Bytes that are no record batch, or a batch that breaks Kafka's format."""

    code = "bad_batch"


class CorruptBatchError(BatchError):
    """The checksum of a batch does not fit its bytes (Kafka's CORRUPT_MESSAGE).

    Attributes:
        next_offset: The first offset after the batch.
    """

    code = "corrupt_batch"

    def __init__(self, message: str, next_offset: int) -> None:
        super().__init__(message)
        self.next_offset = next_offset


class LargeBatchError(BatchError):
    """A batch of more records or bytes than mmtool decodes; it is intact, and can be copied as it is.

    Attributes:
        next_offset: The first offset after the batch.
    """

    code = "bad_batch"

    def __init__(self, base_offset: int, size: str, limit: str, next_offset: int) -> None:
        super().__init__(
            f"the batch at offset {base_offset} has {size}; mmtool decodes at most {limit} of one batch",
            remedy="the batch is intact: read its records with another client, such as kafka-console-consumer.sh",
        )
        self.next_offset = next_offset


class OversizeRecordError(BatchError):
    """One record alone is larger than the target accepts (Kafka's MESSAGE_TOO_LARGE).

    Attributes:
        upstream_offset: The record's offset on the source.
        size: Bytes of the smallest batch that can hold it, header included.
        limit: Bytes that a batch may have.
    """

    code = "oversize_record"

    def __init__(self, upstream_offset: UpstreamOffset, size: int, limit: int) -> None:
        super().__init__(
            f"the record at source offset {upstream_offset} needs a batch of {size} bytes; "
            f"the target topic takes {limit}",
            remedy="raise max.message.bytes on the target topic",
        )
        self.upstream_offset = upstream_offset
        self.size = size
        self.limit = limit


class Codec(IntEnum):
    """How the records of a batch are compressed; the numbers are Kafka's."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(NamedTuple):
    """One batch's header, field by field as on the wire (Kafka's own -1 for "no producer" included).

    A named tuple because one is made for every batch that moves: the struct's answer *is* the header.
    Timestamps are milliseconds since 1970; ``length`` counts the bytes behind itself.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def codec(self) -> Codec:
        """The compression codec of the records.

        Raises:
            BatchError: Kafka has no codec with the header's number.
        """
        try:
            return Codec(self.attributes & CODEC_BITS)
        except ValueError as error:
            raise BatchError(f"the batch at offset {self.base_offset}: {error}") from error

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record's timestamp is the batch's max timestamp, in place of its own."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a transaction marker or another control record, and no data."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is the deletion time that the log cleaner stored (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def is_empty(self) -> bool:
        """Whether compaction removed every record and kept the header for the producer's state."""
        return self.record_count == 0

    @property
    def last_offset(self) -> int:
        """The last offset that the batch covers; compaction may have removed its record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch's last one."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.length + LOG_OVERHEAD


class BatchView(NamedTuple):
    """A batch inside the fetch answer, without a copy.

    ``memory`` is the whole batch. It keeps the whole answer alive, so views must not outlive their round of
    work.
    """

    header: BatchHeader
    memory: memoryview

    @property
    def records(self) -> memoryview:
        """The batch's records section, still compressed."""
        return self.memory[HEADER_SIZE:]


def producer_ids(records: memoryview | bytes | bytearray) -> set[int]:
    """The producer ids in the headers of one partition's fetch response.

    Ends at the first incomplete batch; `iter_batches` tells a cut tail from garbage.
    """
    found: set[int] = set()
    start, end = 0, len(records)
    while start + HEADER_SIZE <= end:
        (length,) = LENGTH_FIELD.unpack_from(records, start + 8)
        stop = start + LOG_OVERHEAD + length
        if length <= 0 or stop > end:
            break
        if records[start + MAGIC_AT] == MAGIC:
            found.add(_PRODUCER_ID.unpack_from(records, start + _PRODUCER_ID_AT)[0])
        start = stop
    return found


def view_of(batch: bytes | bytearray) -> BatchView:
    """A view of one whole batch of format 2, given as bytes."""
    memory = memoryview(batch)
    return BatchView(BatchHeader._make(HEADER.unpack_from(memory)), memory)
