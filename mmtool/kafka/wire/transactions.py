"""Requests of claims and transactions: InitProducerId, AddPartitionsToTxn, EndTxn, WriteTxnMarkers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from mmtool.errors import NotAuthorisedError, RefusedError
from mmtool.kafka.wire.cluster import WireCluster, by_leader, retrying
from mmtool.kafka.wire.codes import DENIED, Code, name_of
from mmtool.kafka.wire.request import UnsupportedByBrokerError, WireRequest
from mmtool.kafka.wire.schema import by_key, by_topic, only, row
from mmtool.translation.types import TopicPartition


class ProducerIdentity(NamedTuple):
    """The answer to InitProducerId."""

    error_code: int
    producer_id: int
    epoch: int


class InitProducerIdRequest(WireRequest[ProducerIdentity], api=22, versions=(0, 1)):
    """Claims a transactional id: the same producer id with the next epoch, a new one after epoch 32,766.

    Without an id it asks for a new producer id, of epoch 0.
    """

    transactional_id: str | None
    transaction_timeout_ms: int
    BODY = row("transactional_id:nullable transaction_timeout_ms:int32")
    ANSWER = row("_throttle:int32 error_code:int16 producer_id:int64 epoch:int16", ProducerIdentity)


def claim_trial(transactional_id: str) -> InitProducerIdRequest:
    """A claim with timeout 0, which brokers refuse; the error code shows WRITE on the transactional id."""
    return InitProducerIdRequest(transactional_id, transaction_timeout_ms=0)


class AddPartitionsToTxnRequest(WireRequest[dict[TopicPartition, int]], api=24, versions=(0, 1)):
    """Opens the fencing transaction over ``partitions``; the answer is an error code for each."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: Sequence[TopicPartition]
    BODY = row("transactional_id:string producer_id:int64 epoch:int16 partitions:places")
    ANSWER = row("_throttle:int32 partitions:errors", only)


class EndTxnRequest(WireRequest[int], api=26, versions=(0, 1)):
    """Aborts the fencing transaction. Version 1 is the old protocol: it leaves the epoch as it is (KIP-890)."""

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool = False
    BODY = row("transactional_id:string producer_id:int64 epoch:int16 commit:bool")
    ANSWER = row("_throttle:int32 error_code:int16", only)


class ProducerState(NamedTuple):
    """A partition leader's state of one producer, in Kafka's own numbers: -1 stands for none."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    open_from: int


class DescribedProducers(NamedTuple):
    """All producers that one partition's leader has state of."""

    error_code: int
    producers: list[ProducerState]


class DescribeProducersRequest(
    WireRequest[dict[TopicPartition, DescribedProducers]], api=61, versions=(0,), flexible=0
):
    """Producer states of partitions (KIP-664: Kafka 2.8); sent to their leader."""

    places: Collection[TopicPartition]
    BODY = row("places:places")
    ANSWER = row(
        "_throttle:int32 partitions:partitions",
        only,
        partitions=by_topic(
            "error_code:int16 _message:string producers:[producer]",
            DescribedProducers,
            producer=row(
                "producer_id:int64 epoch:int32 last_sequence:int32 last_timestamp:int64"
                " coordinator_epoch:int32 open_from:int64",
                ProducerState,
            ),
        ),
    )


class ListedTransaction(NamedTuple):
    """One transactional id that a broker coordinates."""

    transactional_id: str
    producer_id: int
    state: str


class ListedTransactions(NamedTuple):
    """A broker's answer; without the ids that the client may not DESCRIBE."""

    error_code: int
    transactions: list[ListedTransaction]


class ListTransactionsRequest(WireRequest[ListedTransactions], api=66, versions=(0,), flexible=0):
    """The transactional ids of some producer ids (KIP-664); sent to every broker, each returns its own."""

    producer_ids: Collection[int]
    BODY = row("_states:[string]=empty producer_ids:[int64]")
    ANSWER = row(
        "_throttle:int32 error_code:int16 _unknown_states:[string] transactions:[listed]",
        ListedTransactions,
        listed=row("transactional_id:string producer_id:int64 state:string", ListedTransaction),
    )


class DescribedTransaction(NamedTuple):
    """A transactional id's transaction; ``started_ms`` is -1 without one."""

    error_code: int
    producer_id: int
    timeout_ms: int
    started_ms: int


class DescribeTransactionsRequest(
    WireRequest[dict[str, DescribedTransaction]], api=65, versions=(0,), flexible=0
):
    """Transactions by their transactional id (KIP-664); sent to their coordinator."""

    transactional_ids: Collection[str]
    BODY = row("transactional_ids:[string]")
    ANSWER = row(
        "_throttle:int32 described:described",
        only,
        described=by_key(
            "error_code:int16 key:string _state:string timeout_ms:int32 started_ms:int64 producer_id:int64"
            " _epoch:int16 _topics:places",
            DescribedTransaction,
        ),
    )


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
