"""The producers that a partition's leader remembers (DescribeProducers, KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.request import UnsupportedByBrokerError
from mmtool.kafka.wire.transactions import DescribeProducersRequest
from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.transactions import ProducerState
    from mmtool.translation.types import TopicPartition


async def active_producers(
    cluster: WireCluster, place: TopicPartition, *, purpose: str
) -> Sequence[ProducerState] | Unknown:
    """UNKNOWN where the leader is away or does not tell: brokers before 2.8, or READ on the topic is missing."""
    try:
        answers = await cluster.send_to_leader(*place, DescribeProducersRequest([place]), purpose=purpose)
    except (ConnectionLostError, UnsupportedByBrokerError):
        return UNKNOWN
    found = answers.get(place)
    return UNKNOWN if found is None or found.error_code != Code.NONE else found.producers
