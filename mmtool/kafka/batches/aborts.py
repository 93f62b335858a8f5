"""The read_committed filter for fetched batches, by the rule of Kafka's own consumer (KIP-98)."""

from __future__ import annotations

from heapq import heapify, heappop
from typing import TYPE_CHECKING, Final

from mmtool.kafka.batches.errors import BatchError
from mmtool.kafka.batches.records import decode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.kafka.batches.header import BatchView

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
