"""The timestamps of the first records that mirrors lack, fetched from many partitions' leaders at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from mmtool.config import ClusterSettings
from mmtool.kafka.batches import NO_TIMESTAMP, AbortedFilter, BatchError, iter_batches, raw_records
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.ports import FirstMissing
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster, by_leader
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchedPartition, FetchPartition, FetchRequest
from mmtool.runtime.threads import run_loop, within

_AT_ONCE = 100
_LEAST_SECONDS = 0.1
_SMALL_BYTES = 32 << 10
"""Bytes that are fetched of each partition: batches of default producers fit (``batch.size`` 16 KiB).

A partition whose first batch is larger may come without records; it is then fetched alone."""
_ANSWER_BYTES = 8 << 20


def first_missing_times(
    cluster: ClusterSettings, places: Collection[FirstMissing], seconds: float, *, read_committed: bool
) -> dict[FirstMissing, int]:
    """Timestamps (ms since 1970, as in the record) of the first records at or after the given offsets.

    Left out are offsets with no such record yet, with one without a timestamp, without READ on the topic, without a
    leader, or without an answer in time.

    Args:
        cluster: The log's cluster.
        places: Partitions and the offset to look from; a partition may be given with several offsets.
        seconds: The time limit of the whole call.
        read_committed: Skip records of aborted transactions.

    Raises:
        UnreachableError, NotAuthorisedError: the cluster does not answer, or denies mmtool.
    """
    if not places:
        return {}
    wire = wire_cluster(cluster, "status", role="consumer")
    until = time.monotonic() + seconds
    found: dict[FirstMissing, int] = {}

    async def ask_leaders() -> None:
        await wire.start()
        try:
            with suppress(ConnectionLostError):  # nobody leads anything then, as far as is known
                await wire.refresh({place.topic for place in places})
            led = by_leader(wire, sorted(places))
            asked = (_Leader(wire, node, until, found, read_committed).ask(of) for node, of in led.items())
            await asyncio.gather(*asked)
        finally:
            await wire.close()

    run_loop(ask_leaders())
    return found


@dataclass(frozen=True, slots=True)
class _Leader:
    """Fetches from one leader: many partitions in a request, and alone those whose first batch is large."""

    cluster: WireCluster
    node: int
    until: float
    found: dict[FirstMissing, int]
    read_committed: bool

    async def ask(self, places: list[FirstMissing]) -> None:
        alone: list[FirstMissing] = []
        while places and time.monotonic() < self.until:
            some: dict[tuple[str, int], FirstMissing] = {}  # each partition once
            for place in places:
                if len(some) < _AT_ONCE:
                    some.setdefault((place.topic, place.partition), place)
            alone += await self._fetch(list(some.values()))
            places = [place for place in places if some.get((place.topic, place.partition)) != place]
        while alone and time.monotonic() < self.until:
            await self._fetch([alone.pop(0)])

    async def _fetch(self, places: list[FirstMissing]) -> list[FirstMissing]:
        """Send one fetch; return the partitions of a fetch of several that came without records."""
        wanted = [FetchPartition(*place, _SMALL_BYTES) for place in places]
        request = FetchRequest(wanted, 0, 0, _ANSWER_BYTES, read_committed=self.read_committed)
        try:
            sent = self.cluster.send(self.node, request, purpose="status")
            answer = await within(max(_LEAST_SECONDS, self.until - time.monotonic()), sent)
        except (ConnectionLostError, TimeoutError):
            return []
        known = {(name, p.partition): p for p in places for name in (p.topic_id, p.topic)}
        empty = []
        for part in answer.partitions:
            place = known.get((part.topic_id or part.topic, part.partition))
            if place is None or part.error_code != Code.NONE:
                continue
            if not part.records:
                empty.append(place)
            elif (first := _first_time(part, place.offset)) is not None:
                self.found[place] = first
        return empty if len(places) > 1 else []


def _first_time(part: FetchedPartition, offset: int) -> int | None:
    """The timestamp of the first fetched record at or after ``offset``; None without a record or a timestamp."""
    admitted = AbortedFilter(part.aborted)
    times = (
        record.timestamp
        for view in iter_batches(part.records)
        if admitted.admits(view) and view.header.next_offset > offset
        for record in raw_records(view)
        if record.offset >= offset
    )
    try:
        first = next(times, NO_TIMESTAMP)
    except BatchError:
        return None  # whoever mirrors it says what is wrong with it
    return None if first == NO_TIMESTAMP else first
