"""Batches that no client would write, appended to a real broker byte for byte."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from mmtool.kafka.wire.cluster import WireCluster, retrying
from mmtool.kafka.wire.produce import ProducePartition, ProduceRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from kit.batches import PlainBatch

T = TypeVar("T")
_TIMEOUT_MS = 10_000


def append_batches(bootstrap: str, topic: str, partition: int, batches: Iterable[PlainBatch]) -> None:
    """Appends to one partition, in order; the broker checks them as it checks every client's.

    Raises:
        AssertionError: The broker refused one; the message holds its error code.
    """
    asked(bootstrap, lambda wire: _append(wire, topic, partition, batches))


def asked(bootstrap: str, question: Callable[[WireCluster], Awaitable[T]]) -> T:
    """What a question to a cluster finds, on connections of its own."""
    return asyncio.run(_with_wire(bootstrap, question))


async def _with_wire(bootstrap: str, question: Callable[[WireCluster], Awaitable[T]]) -> T:
    wire = WireCluster({"bootstrap_servers": bootstrap.split(",")}, alias="lab", client_id="mmtool-lab-raw")
    await wire.start()
    try:
        return await question(wire)
    finally:
        await wire.close()


async def _append(wire: WireCluster, topic: str, partition: int, batches: Iterable[PlainBatch]) -> None:
    for batch in batches:
        attempt = partial(_attempt, wire, topic, partition, batch.write())
        code, message = await retrying(attempt, what=topic, alias=wire.alias)
        assert code == 0, f"{topic}-{partition}: error {code} {message}"


async def _attempt(cluster: WireCluster, topic: str, partition: int, batch: bytes) -> tuple[int, str]:
    """A topic that was just made has no leader for a moment."""
    topic_id = (await cluster.refresh([topic]))[topic].topic_id
    request = ProduceRequest([ProducePartition(topic, topic_id, partition, batch)], _TIMEOUT_MS)
    (answer,) = (await cluster.send_to_leader(topic, partition, request)).partitions
    return answer.error_code, answer.message
