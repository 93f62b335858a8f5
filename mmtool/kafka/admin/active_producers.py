"""Read the producers that a partition's leader has state of (DescribeProducers, KIP-664)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mmtool.kafka.wire.cluster import ConnectionLostError, by_leader
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.request import UnsupportedByBrokerError
from mmtool.kafka.wire.transactions import DescribeProducersRequest
from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.transactions import ProducerState
    from mmtool.translation.types import TopicPartition


async def active_producers(
    cluster: WireCluster, place: TopicPartition, *, purpose: str
) -> Sequence[ProducerState] | Unknown:
    """List the producers that a partition's leader remembers (DescribeProducers), or UNKNOWN.

    UNKNOWN where the leader is unreachable, is older than 2.8, or denies READ on the topic.
    """
    try:
        answers = await cluster.send_to_leader(*place, DescribeProducersRequest([place]), purpose=purpose)
    except (ConnectionLostError, UnsupportedByBrokerError):
        return UNKNOWN
    found = answers.get(place)
    return UNKNOWN if found is None or found.error_code != Code.NONE else found.producers


async def active_producers_of_all(
    cluster: WireCluster, places: Collection[TopicPartition], *, purpose: str
) -> dict[TopicPartition, Sequence[ProducerState]]:
    """List the producers of many partitions, with one request for each leader, as `active_producers` does for one.

    Partitions for which a leader gives no answer are left out.
    """
    led = by_leader(cluster, places)
    asked = [cluster.send(node, DescribeProducersRequest(of), purpose=purpose) for node, of in led.items()]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    found: dict[TopicPartition, Sequence[ProducerState]] = {}
    for answer in answers:
        if isinstance(answer, dict):
            found |= {place: one.producers for place, one in answer.items() if one.error_code == Code.NONE}
        elif not isinstance(answer, (ConnectionLostError, UnsupportedByBrokerError)):
            raise answer
    return found
