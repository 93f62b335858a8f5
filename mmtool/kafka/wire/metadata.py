"""Metadata (API 3): brokers, and each partition's leader, with topic ids where the broker has them (KIP-516)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.codec import (
    NO_TAGS,
    Cursor,
    array,
    compact_array,
    compact_string,
    int8,
    int32,
    known_as,
    string,
    uvarint,
)
from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.rights import Rights, rights_of
from mmtool.translation.known import UNKNOWN, Unknown
from mmtool.translation.types import TopicId

if TYPE_CHECKING:
    from collections.abc import Sequence

_NO_ID = b"\x00" * 16


class BrokerAddress(NamedTuple):
    """One broker, as its cluster advertises it."""

    node: int
    host: str
    port: int


class PartitionLeader(NamedTuple):
    """The leader of a partition; ``error_code`` 5 while there is none."""

    partition: int
    error_code: int
    leader: int
    leader_epoch: int


class TopicMetadata(NamedTuple):
    """One topic; where it has no id its name takes the id's place (see `known_as`).

    Attributes:
        rights: The client's operations on it, where they were requested and the broker returns them.
    """

    name: str
    topic_id: TopicId
    error_code: int
    partitions: list[PartitionLeader]
    rights: Rights | Unknown = UNKNOWN


class MetadataAnswer(NamedTuple):
    """A cluster as one broker sees it."""

    cluster_id: str
    brokers: list[BrokerAddress]
    topics: list[TopicMetadata]


@dataclass(frozen=True, slots=True)
class MetadataRequest(WireRequest[MetadataAnswer]):
    """Metadata of ``topics``, or of every topic that the client may see when it is None; never creates one.

    ``with_rights``: and what we may do with them (KIP-430).
    """

    API_KEY = 3
    VERSIONS = (7, 11, 12)
    FLEXIBLE_FROM = 9

    topics: Sequence[str] | None
    with_rights: bool = False

    def body(self, version: int) -> bytes:
        never_create = int8(0)
        if version < self.FLEXIBLE_FROM:
            wanted = int32(-1) if self.topics is None else array(map(string, self.topics))
            return wanted + never_create
        if self.topics is None:
            wanted = uvarint(0)
        else:
            wanted = compact_array(_NO_ID + compact_string(t) + NO_TAGS for t in self.topics)
        return wanted + never_create + int8(self.with_rights) + NO_TAGS

    def answer(self, version: int, cursor: Cursor) -> MetadataAnswer:
        cursor.int32()  # throttle
        return _flexible(cursor) if version >= self.FLEXIBLE_FROM else _plain(cursor)


def _flexible(cursor: Cursor) -> MetadataAnswer:
    brokers = cursor.compact_array(lambda: _broker_flexible(cursor))
    cluster_id = cursor.compact_string() or ""
    cursor.int32()  # controller
    return MetadataAnswer(cluster_id, brokers, cursor.compact_array(lambda: _topic_flexible(cursor)))


def _broker_flexible(cursor: Cursor) -> BrokerAddress:
    broker = BrokerAddress(cursor.int32(), cursor.compact_string() or "", cursor.int32())
    cursor.compact_string()  # rack
    cursor.tags()
    return broker


def _topic_flexible(cursor: Cursor) -> TopicMetadata:
    error, name, topic_id = cursor.int16(), cursor.compact_string() or "", cursor.topic_id()
    cursor.boolean()  # internal
    partitions = cursor.compact_array(lambda: _partition_flexible(cursor))
    rights = rights_of(cursor)
    cursor.tags()
    return TopicMetadata(name, known_as(name, topic_id), error, partitions, rights)


def _partition_flexible(cursor: Cursor) -> PartitionLeader:
    error, partition, leader, epoch = cursor.int16(), cursor.int32(), cursor.int32(), cursor.int32()
    for _ in range(3):  # replicas, in-sync replicas, offline replicas
        cursor.compact_array(cursor.int32)
    cursor.tags()
    return PartitionLeader(partition, error, leader, epoch)


def _plain(cursor: Cursor) -> MetadataAnswer:
    brokers = cursor.array(lambda: _broker(cursor))
    cluster_id = cursor.string() or ""
    cursor.int32()
    return MetadataAnswer(cluster_id, brokers, cursor.array(lambda: _topic(cursor)))


def _broker(cursor: Cursor) -> BrokerAddress:
    broker = BrokerAddress(cursor.int32(), cursor.string() or "", cursor.int32())
    cursor.string()
    return broker


def _topic(cursor: Cursor) -> TopicMetadata:
    error, name = cursor.int16(), cursor.string() or ""
    cursor.boolean()
    # without ids a name is all that identifies a topic
    return TopicMetadata(name, TopicId(name), error, cursor.array(lambda: _partition(cursor)))


def _partition(cursor: Cursor) -> PartitionLeader:
    error, partition, leader, epoch = cursor.int16(), cursor.int32(), cursor.int32(), cursor.int32()
    for _ in range(3):
        cursor.array(cursor.int32)
    return PartitionLeader(partition, error, leader, epoch)
