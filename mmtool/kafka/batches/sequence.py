"""Iterate over the batches of a fetch answer, of any message format, and tell which of them are committed data."""

from __future__ import annotations

from heapq import heapify, heappop
from typing import TYPE_CHECKING, Final

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
from mmtool.kafka.batches.records import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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
    from mmtool.kafka.batches.records import legacy_view  # loads aiokafka, rarely needed

    return legacy_view(whole)


def _bad_counts(header: BatchHeader) -> BatchError:
    return BatchError(
        f"the header of the batch at offset {header.base_offset} contradicts itself:"
        f" {header.record_count} records, last offset delta {header.last_offset_delta}"
    )
