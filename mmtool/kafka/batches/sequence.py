"""Iterate over the batches of a fetch answer, of any message format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.batches.errors import BatchError
from mmtool.kafka.batches.header import (
    HEADER,
    HEADER_SIZE,
    LENGTH_FIELD,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    SMALLEST_LENGTH,
    BatchHeader,
    BatchView,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


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
            raise _bad_counts(header)
        yield BatchView(header, memory[start:stop])
        start = stop
    yield from _carefully(memory, start)


def _carefully(memory: memoryview, start: int) -> Iterator[BatchView]:
    """The batches after the first one that is not a whole batch of format 2: old batches, then the cut tail.

    Raises:
        BatchError: the bytes are no batch.
    """
    while (view := _odd_view(memory, start)) is not None:
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
    from mmtool.kafka.batches.legacy import legacy_view  # loads aiokafka, rarely needed

    return legacy_view(whole)


def _bad_counts(header: BatchHeader) -> BatchError:
    return BatchError(
        f"the header of the batch at offset {header.base_offset} contradicts itself:"
        f" {header.record_count} records, last offset delta {header.last_offset_delta}"
    )
