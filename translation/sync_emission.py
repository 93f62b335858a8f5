"""Decide when MM2 offset syncs are due, by MirrorMaker 2's rules (MirrorSourceTask), a batch at a time.

A sync for a record is due when any holds: 1. none was due before; 2. it is ``offset.lag.max`` + 1 or more
downstream of the last one due (KAFKA-14797); 3. there is a hole before it upstream (KAFKA-12468); 4. it
went backwards downstream. The sync of a record that is not due is delayed, and a tick each second sends the newest
of those, so that a quiet partition is soon mapped to its very end (KAFKA-15906). At most one waits per partition:
the newest replaces the one before.

The records of a batch are contiguous on both sides, so only its first can fall under 1, 3 or 4, and 2 is a
division: the result is the same as record by record, at the cost of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmtool.translation.mm2_records import OffsetSync
from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset


@dataclass(slots=True)
class _Sent:
    """Where the last acked batch ended, and the downstream offset of the last sync that was due."""

    next_upstream: int
    last_downstream: int
    synced_downstream: int


class SyncEmitter:
    """Mutable, one per source partition, not thread-safe.

    Args:
        topic_partition: By its name on the source.
        offset_lag_max: MM2's ``offset.lag.max``: how many records may lie between two syncs.
    """

    __slots__ = ("_delayed", "_pending", "_sent", "_step", "_topic_partition")

    def __init__(self, topic_partition: TopicPartition, *, offset_lag_max: int = 100) -> None:
        self._topic_partition = topic_partition
        self._step = offset_lag_max + 1
        self._sent: _Sent | None = None
        self._pending: OffsetSync | None = None
        self._delayed: OffsetSync | None = None

    def acked(self, upstream_start: UpstreamOffset, downstream_start: DownstreamOffset, count: int) -> None:
        """Note that the target acknowledged ``count`` records, contiguous on both sides."""
        last = downstream_start + count - 1
        synced = self._last_due(upstream_start, downstream_start, last)
        shift = upstream_start - downstream_start
        if synced >= downstream_start:
            self._pending = self._sync(synced + shift, synced)
        self._delayed = None if synced == last else self._sync(last + shift, last)
        self._sent = _Sent(upstream_start + count, last, synced)

    def _last_due(self, upstream_start: int, downstream_start: int, last: int) -> int:
        """Downstream offset of the newest record so far for which a sync was due."""
        synced = downstream_start
        if self._sent is not None and not self._first_is_due(self._sent, upstream_start, downstream_start):
            synced = self._sent.synced_downstream
        return synced + (last - synced) // self._step * self._step

    def _first_is_due(self, sent: _Sent, upstream_start: int, downstream_start: int) -> bool:
        return (
            downstream_start - sent.synced_downstream >= self._step
            or upstream_start != sent.next_upstream
            or downstream_start < sent.last_downstream
        )

    def _sync(self, upstream: int, downstream: int) -> OffsetSync:
        return OffsetSync(self._topic_partition, UpstreamOffset(upstream), DownstreamOffset(downstream))

    def on_tick(self) -> None:
        """Make the newest delayed sync due, as MM2's commit() does once per offset flush."""
        if self._delayed is not None:
            self._pending, self._delayed = self._delayed, None

    def due(self) -> OffsetSync | None:
        """The sync to send now, handed over once; None when none is due."""
        pending, self._pending = self._pending, None
        return pending
