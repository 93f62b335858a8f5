"""Watch both logs for what no answer to a fetch or a produce request tells.

On the source an open transaction may hold back a partition's last stable offset (KIP-664): the operator learns whose.
On the target foreign records may follow the flow's last record, with which the offset runs end. They could hide a
record of the flow that is not yet recorded, as far as a reader of the runs knows. So the worker reads the log's end
while it has nothing in flight, and stores that offset. Where no other producer may write, the foreign records are
reported.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster
from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import active_producers, offsets_now
from mmtool.plan.records.documents import State
from mmtool.plan.words import moment
from mmtool.runtime.threads import within
from mmtool.translation.types import UNKNOWN, DownstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mmtool.kafka.wire.fetch import FetchedPartition
    from mmtool.kafka.wire.transactions import ProducerState
    from mmtool.replication.pump.mirror import PartitionMirror

LONG_MS = 60_000
"""Age in milliseconds from which an open transaction is reported.

Kafka's producers end theirs within a minute (transaction.timeout.ms)."""

_FIRST_LOOK_MS = 5_000
_LOOK_AGAIN_MS = 10_000
_PAUSE_SECONDS = 0.5


@dataclass(slots=True)
class _Held:
    at: int
    since_ms: int
    next_look_ms: int
    said: bool = False


class OpenTransactionWatch:
    """Watches the last stable offsets of the partitions that one reader fetches.

    A. The notice about a partition is withdrawn when its last stable offset moves.
    """

    def __init__(self, cluster: WireCluster) -> None:
        self._cluster = cluster
        self._held: dict[PartitionMirror, _Held] = {}

    def saw(self, mirror: PartitionMirror, fetched: FetchedPartition, now_ms: int) -> None:
        """Note the last stable offset in a fetch answer about ``mirror``."""
        held, at = self._held.get(mirror), fetched.last_stable_offset
        if held is not None and held.at != at:
            del self._held[mirror]
            if held.said and mirror.state != State.HALTED:  # that has a reason of its own
                note(mirror, "")
            held = None
        if held is None and 0 <= at < fetched.high_watermark:
            self._held[mirror] = _Held(at, now_ms, now_ms + _FIRST_LOOK_MS)

    async def run(self) -> None:
        """Call `look` every half second until cancelled."""
        while True:
            await self.look(int(time.time() * 1000))
            await asyncio.sleep(_PAUSE_SECONDS)

    async def look(self, now_ms: int) -> None:
        """Find the open transactions of partitions whose last stable offset has not moved for a while."""
        for mirror, held in list(self._held.items()):
            if now_ms >= held.next_look_ms and not held.said and mirror.state != State.HALTED:
                held.next_look_ms = now_ms + _LOOK_AGAIN_MS
                await self._ask(mirror, held, now_ms)

    async def _ask(self, mirror: PartitionMirror, held: _Held, now_ms: int) -> None:
        holder = await self._holder(mirror, held.at)
        wrote_ms = now_ms if holder is None else holder.last_timestamp
        if now_ms - min(held.since_ms, wrote_ms) >= LONG_MS and self._held.get(mirror) is held:
            held.said = True
            place = mirror.assignment.place
            who = (
                "a producer"
                if holder is None
                else f"producer {holder.producer_id}, which wrote last at {moment(holder.last_timestamp)},"
            )
            note(
                mirror,
                f"held at offset {held.at}: {who} has an open transaction on the source; later records follow when the"
                " transaction ends; if the producer no longer runs, abort the transaction: `kafka-transactions.sh"
                f" --bootstrap-server HOST:PORT abort --topic {place.topic} --partition {place.partition}"
                f" --start-offset {held.at}`",
            )

    async def _holder(self, mirror: PartitionMirror, at: int) -> ProducerState | None:
        """The producer whose open transaction starts at offset ``at``; None if the leader names none."""
        producers = await active_producers(self._cluster, mirror.assignment.place, purpose="metadata")
        if producers is UNKNOWN:
            return None
        return next((producer for producer in producers if producer.open_from == at), None)


def note(mirror: PartitionMirror, reason: str) -> None:
    """Set the reason shown for a partition that is still mirrored; an empty reason withdraws it."""
    mirror.reason, mirror.dirty = reason, True


_PATIENCE_SECONDS = 2.0
_PARTITIONS_A_SECOND = 500  # more are looked at less often than each second


class TargetEnds:
    """Reads the log ends of partitions that have nothing in flight.

    Args:
        cluster: The target.
        mirrors: Whose logs.
        every_seconds: How often, at the most.
        freed: Called with the bytes that a mirror held whose log was cut.
    """

    def __init__(
        self,
        cluster: WireCluster,
        mirrors: Iterable[PartitionMirror],
        every_seconds: float,
        freed: Callable[[int], None],
    ) -> None:
        self._cluster = cluster
        self._mirrors = list(mirrors)
        self._every = every_seconds
        self._freed = freed
        self._next = 0.0

    async def look(self) -> None:
        """Read the log ends of all partitions with nothing in flight, and hand them to their mirrors.

        Does nothing if the last call was too recent. A partition whose leader does not answer soon is left to a later
        call.
        """
        now = time.monotonic()
        if now < self._next:
            return
        resting = {
            m.assignment.block.about.downstream: (m, mark)
            for m in self._mirrors
            if (mark := m.mark) is not None
        }
        self._next = now + max(self._every, len(resting) / _PARTITIONS_A_SECOND)
        ends = await offsets_now(self._cluster, dict.fromkeys(resting, LATEST), _PATIENCE_SECONDS)
        unclear = {
            place.topic
            for place, (mirror, _) in resting.items()
            if place not in ends or ends[place] < mirror.downstream_end
        }
        if unclear:
            await self._look_up(unclear)
        for place, end in ends.items():
            mirror, mark = resting[place]
            if self._cluster.topic_id(place.topic) == mirror.assignment.target_topic_id:
                before = mirror.held_bytes
                mirror.looked(mark, DownstreamOffset(end))
                if mirror.held_bytes < before:
                    self._freed(before - mirror.held_bytes)

    async def _look_up(self, topics: Iterable[str]) -> None:
        """Refresh the leaders and topic ids of ``topics``.

        No batch is sent to a partition at rest, so no produce answer would show that its leader or its topic changed.
        """
        with suppress(ConnectionLostError, TimeoutError):
            await within(_PATIENCE_SECONDS, self._cluster.refresh(topics))
