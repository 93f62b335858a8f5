"""The partitions fetched over one connection to a source broker: those that it leads and that have room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.wire.fetch import FetchPartition
from mmtool.kafka.wire.fetch_session import FetchSession
from mmtool.plan.records.documents import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.replication.pump.mirror import PartitionMirror
    from mmtool.translation.types import TopicId, UpstreamOffset

FETCH_BYTES = 8 << 20
LEAST_FETCH = 64 << 10
_PARTITION_BYTES = 1 << 20


class FetchSet:
    """Mirrors whose source partitions are fetched over one connection.

    Code that changes a mirror's position or room calls `touch`; no method scans all mirrors for one.

    A. A mirror that is halted or will be, or holds ``hold_limit`` bytes, is not asked for.
    B. While room is scarce, nor is one that holds anything and of which nothing went since it was read last: what the
       target does not take fills no more than ``share`` of each partition then, and others go on.

    Args:
        hold_limit: In bytes.
        share: In bytes: what each partition may have of the room that is left once it is scarce.
    """

    def __init__(self, hold_limit: int, share: int = _PARTITION_BYTES) -> None:
        self.session = FetchSession()
        self._hold_limit = hold_limit
        self._mirrors: set[PartitionMirror] = set()
        self._full: set[PartitionMirror] = set()
        self._each = _PARTITION_BYTES
        self._share = max(share, LEAST_FETCH)
        self._scarce = False
        self._read_at: dict[PartitionMirror, UpstreamOffset] = {}

    @property
    def is_open(self) -> bool:
        """Whether any mirror has room."""
        return len(self.session) > 0

    @property
    def has_full(self) -> bool:
        """Whether any mirror is left out of the fetch only because it is full."""
        return bool(self._full)

    @property
    def least_wanted(self) -> int:
        """Bytes to reserve for a fetch while room is scarce: one share for each mirror with room."""
        return len(self.session) * self._share

    def follow(self, mirrors: Iterable[PartitionMirror]) -> None:
        """Replace the mirrors that are fetched over this connection."""
        now = set(mirrors)
        for mirror in self._mirrors - now:
            self.session.drop(_key(mirror))
            self._full.discard(mirror)
            self._read_at.pop(mirror, None)
        new, self._mirrors = now - self._mirrors, now
        for mirror in sorted(new, key=lambda m: m.name):
            self.touch(mirror)

    def was_read(self, mirror: PartitionMirror) -> None:
        """Note that an answer about ``mirror`` came, and update its entry in the fetch session."""
        self._read_at[mirror] = mirror.frontier
        self.touch(mirror)

    def _is_full(self, mirror: PartitionMirror) -> bool:
        waits = self._scarce and mirror.held_bytes > 0 and self._read_at.get(mirror) == mirror.frontier
        return waits or not mirror.begun or mirror.held_bytes >= self._hold_limit

    def touch(self, mirror: PartitionMirror) -> None:
        """Update or drop the fetch session's entry of ``mirror``: its position, room or state has changed."""
        halted = bool(mirror.then_halt) or mirror.state == State.HALTED
        if mirror not in self._mirrors or halted or self._is_full(mirror):
            self.session.drop(_key(mirror))
            if mirror in self._mirrors and not halted:
                self._full.add(mirror)
            return
        self._full.discard(mirror)
        a = mirror.assignment
        self.session.put(
            FetchPartition(
                a.topic, a.topic_id, a.partition, mirror.fetch_position, self._each, mirror.read_epoch
            )
        )

    def refill(self) -> None:
        """Fetch mirrors again that were full and have room now."""
        for mirror in [m for m in self._full if m.state == State.HALTED or not self._is_full(m)]:
            self._full.discard(mirror)
            self.touch(mirror)

    def allow(self, total: int, *, throttled: bool, scarce: bool = False) -> None:
        """Set how many bytes a fetch of ``total`` bytes may bring of each partition.

        A throttled flow fetches a little of every partition at a time. Otherwise a partition may also use the bytes
        that a small number of partitions leaves unused, so that a single partition fills a long link.
        """
        each = total // max(len(self._mirrors), 1)
        least = LEAST_FETCH if throttled else _PARTITION_BYTES
        each = max(each, least)
        if scarce:
            each = min(each, self._share)
        each = 1 << each.bit_length() - 1  # a power of two: told anew when it really changes
        if (each, scarce) != (self._each, self._scarce):
            self._each, self._scarce = each, scarce
            for mirror in self._mirrors - self._full:
                self.touch(mirror)


def _key(mirror: PartitionMirror) -> tuple[TopicId, int]:
    return mirror.assignment.topic_id, mirror.assignment.partition
