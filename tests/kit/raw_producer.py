"""Batches that no client would write, appended to a real broker byte for byte."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from mmtool.kafka.wire.cluster import WireCluster, retrying
from mmtool.kafka.wire.produce import ProducePartition, ProduceRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kit.batches import PlainBatch

_TIMEOUT_MS = 10_000


def append_batches(bootstrap: str, topic: str, partition: int, batches: Iterable[PlainBatch]) -> None:
    """Appends to one partition, in order; the broker checks them as it checks every client's.

    Raises:
        AssertionError: The broker refused one; the message holds its error code.
    """
    asyncio.run(_append(bootstrap, topic, partition, batches))


async def _append(bootstrap: str, topic: str, partition: int, batches: Iterable[PlainBatch]) -> None:
    cluster = WireCluster(
        {"bootstrap_servers": bootstrap.split(",")}, alias="lab", client_id="mmtool-lab-raw"
    )
    await cluster.start()
    try:
        for batch in batches:
            attempt = partial(_attempt, cluster, topic, partition, batch.write())
            code, message = await retrying(attempt, what=topic, alias=cluster.alias)
            assert code == 0, f"{topic}-{partition}: error {code} {message}"
    finally:
        await cluster.close()


async def _attempt(cluster: WireCluster, topic: str, partition: int, batch: bytes) -> tuple[int, str]:
    """A topic that was just made has no leader for a moment."""
    topic_id = (await cluster.refresh([topic]))[topic].topic_id
    request = ProduceRequest([ProducePartition(topic, topic_id, partition, batch)], _TIMEOUT_MS)
    (answer,) = (await cluster.send_to_leader(topic, partition, request)).partitions
    return answer.error_code, answer.message
