"""Requests of claims and transactions: InitProducerId (22), AddPartitionsToTxn (24), EndTxn (26).

And of other producers: DescribeProducers (61), DescribeTransactions (65), ListTransactions (66), all of KIP-664.
A transactional id is used to claim a shard and never to write data: InitProducerId hands out (producer id,
epoch) and bumps the epoch; an empty aborted transaction writes one marker per partition, and each marker
fences every older epoch there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.codec import (
    NO_TAGS,
    Cursor,
    by_topic,
    compact_array,
    compact_string,
    int8,
    int16,
    int32,
    int64,
    string,
)
from mmtool.kafka.wire.request import WireRequest
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


class ProducerIdentity(NamedTuple):
    """The answer to InitProducerId."""

    error_code: int
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class InitProducerIdRequest(WireRequest[ProducerIdentity]):
    """Claims a transactional id: the same producer id with the next epoch, a new one after epoch 32,766."""

    API_KEY = 22
    VERSIONS = (0, 1)

    transactional_id: str
    transaction_timeout_ms: int

    def body(self, version: int) -> bytes:  # noqa: ARG002  both versions are alike
        return string(self.transactional_id) + int32(self.transaction_timeout_ms)

    def answer(self, version: int, cursor: Cursor) -> ProducerIdentity:  # noqa: ARG002  both versions are alike
        cursor.int32()
        return ProducerIdentity(cursor.int16(), cursor.int64(), cursor.int16())


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxnRequest(WireRequest[dict[TopicPartition, int]]):
    """Opens the fencing transaction over ``partitions``; the answer is an error code for each."""

    API_KEY = 24
    VERSIONS = (0, 1)

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: Sequence[TopicPartition]

    def body(self, version: int) -> bytes:  # noqa: ARG002  both versions are alike
        topics = by_topic(dict.fromkeys(self.partitions), lambda _: b"")
        return string(self.transactional_id) + int64(self.producer_id) + int16(self.epoch) + topics

    def answer(self, version: int, cursor: Cursor) -> dict[TopicPartition, int]:  # noqa: ARG002  alike
        cursor.int32()
        return cursor.by_topic(cursor.int16)


@dataclass(frozen=True, slots=True)
class EndTxnRequest(WireRequest[int]):
    """Aborts the fencing transaction. Version 1 is the old protocol: it leaves the epoch as it is (KIP-890)."""

    API_KEY = 26
    VERSIONS = (0, 1)

    transactional_id: str
    producer_id: int
    epoch: int
    commit: bool = False

    def body(self, version: int) -> bytes:  # noqa: ARG002  both versions are alike
        ids = string(self.transactional_id) + int64(self.producer_id) + int16(self.epoch)
        return ids + int8(int(self.commit))

    def answer(self, version: int, cursor: Cursor) -> int:  # noqa: ARG002  both versions are alike
        cursor.int32()
        return cursor.int16()


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


@dataclass(frozen=True, slots=True)
class DescribeProducersRequest(WireRequest[dict[TopicPartition, DescribedProducers]]):
    """Producer states of partitions (KIP-664: Kafka 2.8); sent to their leader."""

    API_KEY = 61
    VERSIONS = (0,)
    FLEXIBLE_FROM = 0

    places: Collection[TopicPartition]

    def body(self, version: int) -> bytes:  # noqa: ARG002  one version
        topics = groupby(sorted(self.places), key=lambda place: place.topic)
        return compact_array(_asked(topic, places) for topic, places in topics) + NO_TAGS

    def answer(self, version: int, cursor: Cursor) -> dict[TopicPartition, DescribedProducers]:  # noqa: ARG002  one version
        cursor.int32()
        described: dict[TopicPartition, DescribedProducers] = {}
        for _ in range(max(cursor.uvarint() - 1, 0)):
            topic = cursor.compact_string() or ""
            for partition, producers in cursor.compact_array(lambda: _partition(cursor)):
                described[TopicPartition(topic, partition)] = producers
            cursor.tags()
        return described


def _asked(topic: str, places: Iterable[TopicPartition]) -> bytes:
    numbers = compact_array(int32(place.partition) for place in places)
    return compact_string(topic) + numbers + NO_TAGS


def _partition(cursor: Cursor) -> tuple[int, DescribedProducers]:
    partition, error, _message = cursor.int32(), cursor.int16(), cursor.compact_string()
    producers = cursor.compact_array(lambda: _producer(cursor))
    cursor.tags()
    return partition, DescribedProducers(error, producers)


def _producer(cursor: Cursor) -> ProducerState:
    producer_id, epoch, sequence = cursor.int64(), cursor.int32(), cursor.int32()
    timestamp, coordinator_epoch, open_from = cursor.int64(), cursor.int32(), cursor.int64()
    cursor.tags()
    return ProducerState(producer_id, epoch, sequence, timestamp, coordinator_epoch, open_from)


class ListedTransaction(NamedTuple):
    """One transactional id that a broker coordinates."""

    transactional_id: str
    producer_id: int
    state: str


class ListedTransactions(NamedTuple):
    """A broker's answer; without the ids that the client may not DESCRIBE."""

    error_code: int
    transactions: list[ListedTransaction]


@dataclass(frozen=True, slots=True)
class ListTransactionsRequest(WireRequest[ListedTransactions]):
    """The transactional ids of some producer ids (KIP-664); sent to every broker, each returns its own."""

    API_KEY = 66
    VERSIONS = (0,)
    FLEXIBLE_FROM = 0

    producer_ids: Collection[int]

    def body(self, version: int) -> bytes:  # noqa: ARG002  one version
        return compact_array(()) + compact_array(map(int64, self.producer_ids)) + NO_TAGS

    def answer(self, version: int, cursor: Cursor) -> ListedTransactions:  # noqa: ARG002  one version
        cursor.int32()
        error = cursor.int16()
        cursor.compact_array(cursor.compact_string)  # states that it does not know
        return ListedTransactions(error, cursor.compact_array(lambda: _listed(cursor)))


def _listed(cursor: Cursor) -> ListedTransaction:
    name, producer_id, state = cursor.compact_string() or "", cursor.int64(), cursor.compact_string() or ""
    cursor.tags()
    return ListedTransaction(name, producer_id, state)


class DescribedTransaction(NamedTuple):
    """A transactional id's transaction; ``started_ms`` is -1 without one."""

    error_code: int
    producer_id: int
    timeout_ms: int
    started_ms: int


@dataclass(frozen=True, slots=True)
class DescribeTransactionsRequest(WireRequest[dict[str, DescribedTransaction]]):
    """Transactions by their transactional id (KIP-664); sent to their coordinator."""

    API_KEY = 65
    VERSIONS = (0,)
    FLEXIBLE_FROM = 0

    transactional_ids: Collection[str]

    def body(self, version: int) -> bytes:  # noqa: ARG002  one version
        return compact_array(map(compact_string, self.transactional_ids)) + NO_TAGS

    def answer(self, version: int, cursor: Cursor) -> dict[str, DescribedTransaction]:  # noqa: ARG002  one version
        cursor.int32()
        return dict(cursor.compact_array(lambda: _transaction(cursor)))


def _transaction(cursor: Cursor) -> tuple[str, DescribedTransaction]:
    error, name, _state = cursor.int16(), cursor.compact_string() or "", cursor.compact_string()
    timeout_ms, started_ms, producer_id = cursor.int32(), cursor.int64(), cursor.int64()
    cursor.int16()  # epoch
    cursor.compact_array(lambda: _topic(cursor))
    cursor.tags()
    return name, DescribedTransaction(error, producer_id, timeout_ms, started_ms)


def _topic(cursor: Cursor) -> None:
    cursor.compact_string(), cursor.compact_array(cursor.int32)
    cursor.tags()
