"""Claims: InitProducerId (22), AddPartitionsToTxn (24), EndTxn (26), DescribeProducers (61).

A transactional id is used to claim a shard and never to write data: InitProducerId hands out (producer id,
epoch) and bumps the epoch; an empty aborted transaction writes one marker per partition, and each marker
fences every older epoch there.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    from collections.abc import Sequence


class ProducerIdentity(NamedTuple):
    """What InitProducerId answers."""

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
    """What a partition's leader remembers of one producer."""

    producer_id: int
    epoch: int
    last_sequence: int


class DescribedProducers(NamedTuple):
    """All producers that one partition's leader remembers."""

    partition: int
    error_code: int
    producers: list[ProducerState]


@dataclass(frozen=True, slots=True)
class DescribeProducersRequest(WireRequest[list[DescribedProducers]]):
    """Producer states of partitions of one topic (KIP-664); asked of their leader."""

    API_KEY = 61
    VERSIONS = (0,)
    FLEXIBLE_FROM = 0

    topic: str
    partitions: Sequence[int]

    def body(self, version: int) -> bytes:  # noqa: ARG002  both versions are alike
        of = compact_string(self.topic) + compact_array(map(int32, self.partitions)) + NO_TAGS
        return compact_array([of]) + NO_TAGS

    def answer(self, version: int, cursor: Cursor) -> list[DescribedProducers]:  # noqa: ARG002  one version
        cursor.int32()
        described: list[DescribedProducers] = []
        for _ in range(max(cursor.uvarint() - 1, 0)):
            cursor.compact_string()
            described += cursor.compact_array(lambda: _partition(cursor))
            cursor.tags()
        return described


def _partition(cursor: Cursor) -> DescribedProducers:
    partition, error, _message = cursor.int32(), cursor.int16(), cursor.compact_string()
    producers = cursor.compact_array(lambda: _producer(cursor))
    cursor.tags()
    return DescribedProducers(partition, error, producers)


def _producer(cursor: Cursor) -> ProducerState:
    producer_id, epoch, sequence = cursor.int64(), cursor.int32(), cursor.int32()
    cursor.int64(), cursor.int32(), cursor.int64()  # last timestamp, coordinator epoch, open transaction
    cursor.tags()
    return ProducerState(producer_id, epoch, sequence)
