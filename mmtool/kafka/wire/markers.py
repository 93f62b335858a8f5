"""WriteTxnMarkers (27): control batches that no consumer is given, of one offset each.

They fill the offsets at which a source has no record for a mirror with the source's own offsets. See
docs/decisions/0035.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.errors import NotAuthorisedError, RefusedError
from mmtool.kafka.wire.cluster import by_leader, retrying
from mmtool.kafka.wire.codes import DENIED, Code, name_of
from mmtool.kafka.wire.request import UnsupportedByBrokerError, WireRequest
from mmtool.kafka.wire.schema import only, row
from mmtool.kafka.wire.transactions import DescribeProducersRequest
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mmtool.kafka.wire.cluster import WireCluster

REQUESTS = 2
"""How many requests `check_markers` sends, one after the other."""
_NOWHERE = TopicPartition("mmtool:none", 0)
"""A partition that no broker has: topic names cannot contain a colon."""


class Marker(NamedTuple):
    """One marker for each of ``places``.

    Attributes:
        epoch: An epoch below the producer id's current one is refused (INVALID_PRODUCER_EPOCH).
        generation: Kafka's coordinator epoch: one below that of the producer id's last marker in a partition is refused
            (TRANSACTION_COORDINATOR_FENCED).
    """

    producer_id: int
    epoch: int
    generation: int
    places: Collection[TopicPartition]


class WriteTxnMarkersRequest(
    WireRequest[list[dict[TopicPartition, int]]], api=27, versions=(0, 1), flexible=1
):
    """Appends markers; sent to the leader of their partitions. The answer has a list of error codes by partition.

    Answered once all in-sync replicas have the markers. The answer has one entry for each producer id, whatever its
    number of markers. It needs ALTER on the cluster since Kafka 3.8 (KIP-1037), CLUSTER_ACTION before. A refusal is an
    error of each partition, so a refused request without markers looks like an allowed one.
    """

    markers: Sequence[Marker]
    BODY = row(
        "markers:[marker]",
        marker=row("producer_id:int64 epoch:int16 _commit:bool=0 places:places generation:int32").converted(
            out=Marker._asdict
        ),
    )
    ANSWER = row("markers:[marker]", only, marker=row("_producer_id:int64 places:errors", only))


def markers_denied(alias: str) -> NotAuthorisedError:
    """The error of a cluster that does not let mmtool write markers."""
    return NotAuthorisedError(
        f"cluster {alias} denies ALTER on the cluster, by which mmtool writes the markers of mmtool.offsets = same",
        remedy="grant ALTER on the cluster to mmtool's principal (CLUSTER_ACTION on brokers before Kafka 3.8; its"
        " holder can also create ACLs), or set mmtool.offsets = translated",
    )


async def check_markers(cluster: WireCluster) -> None:
    """Check that a cluster has what mirrors with the source's own offsets need; changes nothing.

    One marker is sent for a partition that does not exist: an allowed request answers that there is none.

    Raises:
        NotAuthorisedError: The cluster does not let mmtool write markers.
        UnsupportedByBrokerError: A broker lacks an API.
        ConnectionLostError: No broker answers.
    """
    try:
        answers = await cluster.ask_any(WriteTxnMarkersRequest([Marker(0, 0, 0, [_NOWHERE])]))
        await cluster.ask_any(DescribeProducersRequest([_NOWHERE]))
    except UnsupportedByBrokerError as error:
        raise UnsupportedByBrokerError(
            f"mmtool.offsets = same: {error.message}",
            remedy=f"upgrade the brokers of {cluster.alias} to Kafka 2.8 or later, or, if they are a service without"
            " this API, set mmtool.offsets = translated",
        ) from error
    if any(code in DENIED for answer in answers for code in answer.values()):
        raise markers_denied(cluster.alias)


async def write_markers(cluster: WireCluster, marker: Marker) -> None:
    """Write a marker into each of its partitions; where the answer is lost it is written again, and may be there twice.

    Raises:
        UnreachableError: A leader does not answer, or its in-sync replicas do not.
        NotAuthorisedError: ALTER on the cluster is denied.
    """
    left = set(marker.places)

    async def attempt() -> tuple[int, None]:
        await cluster.refresh({place.topic for place in left})
        codes: dict[TopicPartition, int] = dict.fromkeys(left, Code.LEADER_NOT_AVAILABLE)
        for leader, places in by_leader(cluster, left).items():
            request = WriteTxnMarkersRequest([marker._replace(places=places)])
            for answer in await cluster.send(leader, request, purpose="fill"):
                codes |= answer
        for place, code in codes.items():
            if code in DENIED:
                raise markers_denied(cluster.alias)
            if code == Code.NONE:
                left.discard(place)
        return next((codes[place] for place in sorted(left)), Code.NONE), None

    code, _ = await retrying(attempt, what="writing markers", alias=cluster.alias)
    if code != Code.NONE:
        raise RefusedError(f"{cluster.alias} refuses markers: {name_of(code)}", code="refused")
