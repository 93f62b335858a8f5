"""Requests of claims and transactions: InitProducerId (22), AddPartitionsToTxn (24), EndTxn (26).

And of other producers: DescribeProducers (61), DescribeTransactions (65), ListTransactions (66), all of KIP-664.
A transactional id is used to claim a shard and never to write data: InitProducerId hands out (producer id,
epoch) and bumps the epoch; an empty aborted transaction writes one marker per partition, and each marker
fences every older epoch there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.schema import by_key, by_topic, only, row
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


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
