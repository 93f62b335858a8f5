"""Read message formats 0 and 1 (before Kafka 0.11), which brokers still serve from old segments.

Such a "batch" is one message, or one compressed message that wraps many. Its offset field is the *last*
offset inside, its count is known only by decoding: so the header of the view is made from the decoded
records.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from mmtool.kafka.batches.errors import BatchError
from mmtool.kafka.batches.header import CODEC_BITS, NO_PRODUCER, BatchHeader, BatchView

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_TIMESTAMP: Final = -1
"""The timestamp that Kafka gives a message of format 0 when it converts it to a later format."""

_MESSAGE = struct.Struct(">qiIbb")  # offset, length, CRC-32, magic, attributes


def legacy_view(memory: memoryview) -> BatchView:
    """A view of an old message, with the header that the same records would have in format 2.

    Raises:
        BatchError: the message cannot be decoded.
    """
    last_offset, length, crc, magic, attributes = _MESSAGE.unpack_from(memory)
    records = [(record.offset, _timestamp(record)) for record in _decoded(memory, magic)]
    first = records[0][0] if records else last_offset
    times = [timestamp for _, timestamp in records] or [NO_TIMESTAMP]
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
        yield record.offset, _timestamp(record), record.key, record.value


def legacy_crc_fits(view: BatchView) -> bool:
    """Whether the CRC-32 of the outer message fits."""
    return bool(_batch(view.memory, view.header.magic).validate_crc())


def _timestamp(record: Any) -> int:
    return NO_TIMESTAMP if record.timestamp is None else record.timestamp


def _decoded(memory: memoryview, magic: int) -> list[Any]:
    try:
        return list(_batch(memory, magic))
    except Exception as error:
        offset = _MESSAGE.unpack_from(memory)[0]
        raise BatchError(f"the format-{magic} message at offset {offset} cannot be read: {error}") from error


def _batch(memory: memoryview, magic: int) -> Any:
    from aiokafka.record.legacy_records import LegacyRecordBatch  # loads the whole client

    return LegacyRecordBatch(bytes(memory), magic)
