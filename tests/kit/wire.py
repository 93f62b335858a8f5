"""Real partitions on the batch wire, for tests: what a broker answers to any bytes, and what its log holds."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from kit.batches import PlainRecord, batch_of
from mmtool.config import load_settings
from mmtool.kafka.batches import Record, decode, iter_batches
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchPartition, FetchRequest
from mmtool.kafka.wire.metadata import EARLIEST, LATEST
from mmtool.kafka.wire.produce import ProducePartition, ProduceRequest
from mmtool.kafka.wire.scan import list_offsets
from mmtool.kafka.wire.transactions import DescribeProducersRequest
from mmtool.translation.types import TopicId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

    from mmtool.config import ClusterSettings, Settings
    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.fetch import FetchedPartition
    from mmtool.kafka.wire.produce import ProducedPartition
    from mmtool.lab.fleet import Fleet

_FETCH_BYTES = 32 << 20
_LOOK_SECONDS = 0.02
_LOOKS = 100
_PAUSE_SECONDS = 0.05

NOW_MS = int(time.time() * 1000) - 60_000
"""A minute ago: brokers soon delete what is older than their retention, and refuse what is far ahead."""


class Remembered(NamedTuple):
    """A producer as a partition's leader remembers it."""

    producer_id: int
    epoch: int
    last_sequence: int


class Producer(NamedTuple):
    """Who signs a batch."""

    producer_id: int
    epoch: int


NOBODY = Producer(-1, -1)
"""Kafka's own values for a batch without a producer."""


def signed(values: Iterable[bytes], producer: Producer = NOBODY, sequence: int = -1, **batch: Any) -> bytes:
    """A batch of plain records as a producer writes it, under ``producer`` from ``sequence`` on."""
    records = [PlainRecord(at, NOW_MS + at, b"k%d" % at, value) for at, value in enumerate(values)]
    return batch_of(records, producer=(*producer, sequence), **batch).write()


def settings_of(fleet: Fleet, directory: Path, extra: Mapping[str, str] | None = None) -> Settings:
    """What mmtool makes of the fleet's own properties file."""
    path = directory / "connect-mirror-maker.properties"
    path.write_text(fleet.properties((), **(extra or {})), encoding="utf-8")
    return load_settings(path, {})


@dataclass
class Wire:
    """One real cluster, connected when it is first used; `on_loop` closes it."""

    settings: ClusterSettings
    bootstrap: str
    _opened: list[WireCluster] = field(default_factory=list)

    async def open(self) -> WireCluster:
        """A connection of one's own: another process, as far as the cluster can tell."""
        cluster = wire_cluster(self.settings, "test")
        await cluster.start()
        self._opened.append(cluster)
        return cluster

    async def cluster(self) -> WireCluster:
        """The test's own connection."""
        return self._opened[0] if self._opened else await self.open()

    async def log(self, topic: str, partition: int = 0) -> RealLog:
        """One partition of a topic that exists."""
        cluster = await self.cluster()
        for _ in range(_LOOKS):
            found = (await cluster.refresh([topic]))[topic]
            if found.error_code == Code.NONE and cluster.leader(topic, partition) is not None:
                log = RealLog(cluster, topic, found.topic_id, partition)
                if (await log.fetch()).error_code in {Code.NONE, Code.OFFSET_OUT_OF_RANGE}:
                    return log  # the broker knows by now that it leads
            await asyncio.sleep(_PAUSE_SECONDS)
        raise ConnectionLostError(f"{topic}-{partition} has no leader")

    async def close(self) -> None:
        for cluster in self._opened:
            await cluster.close()
        self._opened.clear()


@dataclass(frozen=True)
class RealLog:
    """One partition of a real cluster."""

    cluster: WireCluster
    topic: str
    topic_id: TopicId
    partition: int = 0

    def holding(self, batch: bytes) -> ProducePartition:
        """The batch, addressed to this partition."""
        return ProducePartition(self.topic, self.topic_id, self.partition, batch)

    async def produce(self, batch: bytes) -> ProducedPartition:
        """The broker's answer to one batch."""
        request = ProduceRequest([self.holding(batch)], 15_000)
        answer = await self.cluster.send_to_leader(self.topic, self.partition, request, purpose="produce")
        return answer.partitions[0]

    async def fetch(self, offset: int = 0, *, read_committed: bool = False) -> FetchedPartition:
        """What the leader has from ``offset`` on, at once."""
        place = FetchPartition(self.topic, self.topic_id, self.partition, offset, _FETCH_BYTES)
        request = FetchRequest([place], 0, 0, _FETCH_BYTES, read_committed=read_committed)
        answer = await self.cluster.send_to_leader(self.topic, self.partition, request, purpose="fetch")
        return answer.partitions[0]

    async def settled(self) -> FetchedPartition:
        """What a reader of committed records has, once every transaction is over.

        A broker says that one is ended before its marker is in the log.
        """
        while True:
            answer = await self.fetch(read_committed=True)
            if answer.last_stable_offset == answer.high_watermark:
                return answer
            await asyncio.sleep(_LOOK_SECONDS)

    async def batches(self) -> list[BatchView]:
        """Everything that the log holds, markers included."""
        start, end = await self.bounds()
        views: list[BatchView] = []
        while start < end:
            views += iter_batches((await self.fetch(start)).records)
            start = views[-1].header.next_offset
        return views

    async def records(self) -> list[Record]:
        """The data records, whether committed or not."""
        return [r for view in await self.batches() if not view.header.is_control for r in decode(view)]

    async def bounds(self) -> tuple[int, int]:
        """Log start and log end."""
        place = TopicPartition(self.topic, self.partition)
        ends = [
            await list_offsets(self.cluster, {place: when}, read_committed=False)
            for when in (EARLIEST, LATEST)
        ]
        return ends[0][place], ends[1][place]

    async def producers(self) -> list[Remembered]:
        """What the leader remembers of who wrote here."""
        place = TopicPartition(self.topic, self.partition)
        request = DescribeProducersRequest([place])
        described = await self.cluster.send_to_leader(self.topic, self.partition, request)
        return [Remembered(*state[:3]) for state in described[place].producers]


def on_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """An async test in an event loop of its own; the `Wire`s that it was given are closed behind it."""

    async def closing(fixtures: Mapping[str, Any]) -> None:
        try:
            await test(**fixtures)
        finally:
            for wire in fixtures.values():
                if isinstance(wire, Wire):
                    await wire.close()

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(closing(fixtures))

    return run
