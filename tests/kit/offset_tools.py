"""One partition of three brokers, and what mmtool asks its leader for a mirror with the source's own offsets."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeVar

from kit.batches import PlainRecord, batch_of
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster
from mmtool.kafka.wire.codes import RETRY_AFTER_METADATA, Code
from mmtool.kafka.wire.metadata import LATEST, NO_REPLICA, ListOffsetsRequest
from mmtool.kafka.wire.produce import ProducePartition, ProduceRequest
from mmtool.kafka.wire.transactions import (
    DescribeProducersRequest,
    InitProducerIdRequest,
    Marker,
    WriteTxnMarkersRequest,
)
from mmtool.lab.topics import create_topic
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mmtool.lab.cluster import Cluster

T = TypeVar("T")

PAUSE_SECONDS, PATIENCE_SECONDS = 0.2, 40.0


@dataclass
class OnePartition:
    """A topic of one partition that is created here. An async context manager."""

    cluster: Cluster
    topic: str
    wire: WireCluster = field(init=False)

    async def __aenter__(self) -> Self:
        settings = {"min.insync.replicas": "2"}
        create_topic(self.cluster.bootstrap, self.topic, 1, self.cluster.shape.brokers, **settings)
        self.wire = WireCluster(
            {"bootstrap_servers": self.cluster.bootstrap.split(",")}, alias="lab", client_id="offset-tools"
        )
        await self.wire.start()
        await self.leader()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.wire.close()

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    async def leader(self, other_than: int | None = None) -> int:
        async def asked() -> int | None:
            await self.wire.refresh([self.topic])
            leader = self.wire.leader(*self.place)
            return None if leader == other_than else leader

        return await self._until_there(asked)

    async def new_id(self) -> int:
        async def asked() -> int | None:
            answer = await self.wire.ask_any(InitProducerIdRequest(None, 0))
            return answer.producer_id if answer.error_code == Code.NONE else None

        return await self._until_there(asked)

    async def _until_there(self, ask: Callable[[], Awaitable[T | None]]) -> T:
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            with suppress(ConnectionLostError):
                found = await ask()
                if found is not None:
                    return found
            await asyncio.sleep(PAUSE_SECONDS)
        raise AssertionError(f"no answer about {self.place}")

    async def mark(self, producer_id: int, epochs: Sequence[int], generation: int) -> int:
        """Write a marker for each epoch; the code of the answer, which has one for all of them."""

        async def asked() -> int | None:
            markers = [Marker(producer_id, epoch, generation, [self.place]) for epoch in epochs]
            (answer,) = await self.wire.send_to_leader(*self.place, WriteTxnMarkersRequest(markers))
            code = answer[self.place]
            return None if code in RETRY_AFTER_METADATA else code

        return await self._until_there(asked)

    async def append(
        self,
        producer_id: int,
        sequence: int,
        count: int = 10,
        *,
        epoch: int = 0,
        at_ms: int | None = None,
        timeout_ms: int = 10_000,
    ) -> tuple[int, int]:
        """Append a batch whose values name its sequence numbers; the code, and the base offset (-1 for none)."""
        at_ms = int(time.time() * 1000) if at_ms is None else at_ms
        records = [PlainRecord(n, at_ms, b"k", b"v%d" % (sequence + n)) for n in range(count)]
        batch = batch_of(records, producer=(producer_id, epoch, sequence)).write()

        async def asked() -> tuple[int, int] | None:
            topic_id = self.wire.topic_id(self.topic)
            assert topic_id is not None
            entry = ProducePartition(self.topic, topic_id, 0, batch)
            answer = await self.wire.send_to_leader(*self.place, ProduceRequest([entry], timeout_ms))
            (told,) = answer.partitions
            return None if told.error_code in RETRY_AFTER_METADATA else (told.error_code, told.base_offset)

        return await self._until_there(asked)

    async def known(self) -> dict[int, tuple[int, int, int]]:
        """What the leader remembers of each producer id: epoch, last sequence number and generation."""

        async def asked() -> dict[int, tuple[int, int, int]]:
            answer = await self.wire.send_to_leader(*self.place, DescribeProducersRequest([self.place]))
            return {
                one.producer_id: (one.epoch, one.last_sequence, one.coordinator_epoch)
                for one in answer[self.place].producers
            }

        return await self._until_there(asked)

    async def ends(self) -> tuple[int, int]:
        """The high watermark, and the end of the leader's log."""

        async def asked(request: ListOffsetsRequest) -> int | None:
            told = (await self.wire.send_to_leader(*self.place, request))[self.place]
            return told.offset if told.error_code == Code.NONE else None

        latest = {self.place: LATEST}
        mark = await self._until_there(lambda: asked(ListOffsetsRequest(latest, read_committed=False)))
        whole = ListOffsetsRequest(latest, read_committed=False, replica=NO_REPLICA)
        return mark, await self._until_there(lambda: asked(whole))
