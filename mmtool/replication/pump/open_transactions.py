"""Find the open transaction that holds back a partition's last stable offset, for the operator (KIP-664)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.kafka.wire.scan import active_producers
from mmtool.plan.records.documents import State
from mmtool.plan.words import moment
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.fetch import FetchedPartition
    from mmtool.kafka.wire.transactions import ProducerState
    from mmtool.replication.pump.mirror import PartitionMirror
    from mmtool.translation.types import TopicPartition

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
            self._let_go(mirror, held)
            held = None
        if held is None and 0 <= at < fetched.high_watermark:
            self._held[mirror] = _Held(at, now_ms, now_ms + _FIRST_LOOK_MS)

    def _let_go(self, mirror: PartitionMirror, held: _Held) -> None:
        del self._held[mirror]
        if held.said and mirror.state != State.HALTED:  # that has a reason of its own
            note(mirror, "")

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
            note(mirror, _sentence(mirror.assignment.place, held.at, holder))

    async def _holder(self, mirror: PartitionMirror, at: int) -> ProducerState | None:
        """The producer whose open transaction starts at offset ``at``; None if the leader names none."""
        producers = await active_producers(self._cluster, mirror.assignment.place, purpose="metadata")
        if producers is UNKNOWN:
            return None
        return next((producer for producer in producers if producer.open_from == at), None)


def note(mirror: PartitionMirror, reason: str) -> None:
    """Set the reason shown for a partition that is still mirrored; an empty reason withdraws it."""
    mirror.reason, mirror.dirty = reason, True


def _sentence(place: TopicPartition, at: int, holder: ProducerState | None) -> str:
    who = (
        "a producer"
        if holder is None
        else f"producer {holder.producer_id}, which wrote last at {moment(holder.last_timestamp)},"
    )
    return (
        f"held at offset {at}: {who} has an open transaction on the source; later records follow when the"
        " transaction ends; if the producer no longer runs, abort the transaction: `kafka-transactions.sh"
        f" --bootstrap-server HOST:PORT abort --topic {place.topic} --partition {place.partition} --start-offset {at}`"
    )
