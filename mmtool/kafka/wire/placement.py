"""Topic requests that only `mmtool doctor` uses.

Metadata with replicas (3), some topic properties (32), and the sizes of replicas on the brokers' disks (35).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.codec import NO_TAGS, Cursor, array, compact_array, compact_string, int8, int32, string
from mmtool.kafka.wire.metadata import MetadataRequest
from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.rights import Rights, rights_of
from mmtool.translation.known import UNKNOWN, Unknown
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_TOPIC = 2
_WITH_VOLUMES = 4
_NOT_TOLD = -1


class PlacedPartition(NamedTuple):
    """The leader and replicas of a partition; ``leader`` -1 while there is none."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class PlacedTopic(NamedTuple):
    """One topic, and the client's operations on it where the broker returns them."""

    name: str
    error_code: int
    partitions: tuple[PlacedPartition, ...]
    rights: Rights | Unknown


@dataclass(frozen=True, slots=True)
class PlacementRequest(WireRequest[dict[str, PlacedTopic]]):
    """Replicas of ``topics`` by name, or of every topic that the client may see when it is None."""

    API_KEY = 3
    VERSIONS = (7, 11, 12)
    FLEXIBLE_FROM = 9

    topics: tuple[str, ...] | None = None

    def body(self, version: int) -> bytes:
        return MetadataRequest(self.topics, with_rights=True).body(version)

    def answer(self, version: int, cursor: Cursor) -> dict[str, PlacedTopic]:
        cursor.int32()  # throttle
        read = _topics if version >= self.FLEXIBLE_FROM else _topics_plain
        return {topic.name: topic for topic in read(cursor)}


def _topics(cursor: Cursor) -> list[PlacedTopic]:
    cursor.compact_array(lambda: _passed_broker(cursor))
    cursor.compact_string(), cursor.int32()  # cluster id, controller
    return cursor.compact_array(lambda: _topic(cursor))


def _passed_broker(cursor: Cursor) -> None:
    cursor.int32(), cursor.compact_string(), cursor.int32(), cursor.compact_string()
    cursor.tags()


def _topic(cursor: Cursor) -> PlacedTopic:
    error, name = cursor.int16(), cursor.compact_string() or ""
    cursor.topic_id(), cursor.boolean()
    partitions = tuple(cursor.compact_array(lambda: _partition(cursor)))
    rights = rights_of(cursor)
    cursor.tags()
    return PlacedTopic(name, error, partitions, rights)


def _partition(cursor: Cursor) -> PlacedPartition:
    _error, partition, leader, _epoch = cursor.int16(), cursor.int32(), cursor.int32(), cursor.int32()
    replicas, in_sync, _offline = (tuple(cursor.compact_array(cursor.int32)) for _ in range(3))
    cursor.tags()
    return PlacedPartition(partition, leader, replicas, in_sync)


def _topics_plain(cursor: Cursor) -> list[PlacedTopic]:
    cursor.array(lambda: (cursor.int32(), cursor.string(), cursor.int32(), cursor.string()))
    cursor.string(), cursor.int32()
    return cursor.array(lambda: _topic_plain(cursor))


def _topic_plain(cursor: Cursor) -> PlacedTopic:
    error, name = cursor.int16(), cursor.string() or ""
    cursor.boolean()
    return PlacedTopic(name, error, tuple(cursor.array(lambda: _partition_plain(cursor))), UNKNOWN)


def _partition_plain(cursor: Cursor) -> PlacedPartition:
    _error, partition, leader, _epoch = cursor.int16(), cursor.int32(), cursor.int32(), cursor.int32()
    replicas, in_sync, _offline = (tuple(cursor.array(cursor.int32)) for _ in range(3))
    return PlacedPartition(partition, leader, replicas, in_sync)


class DescribedEntry(NamedTuple):
    """One property of one topic; ``source`` is Kafka's number of where its value comes from (KIP-226)."""

    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool


class DescribedConfig(NamedTuple):
    """The answer about one topic."""

    error_code: int
    entries: dict[str, DescribedEntry]


@dataclass(frozen=True, slots=True)
class DescribeTopicConfigsRequest(WireRequest[dict[str, DescribedConfig]]):
    """Some properties of some topics, by topic; those that a broker does not know are not among them."""

    API_KEY = 32
    VERSIONS = (1,)

    topics: Collection[str]
    names: Collection[str]

    def body(self, version: int) -> bytes:  # noqa: ARG002  one version
        names = array(map(string, self.names))
        return array(int8(_TOPIC) + string(topic) + names for topic in self.topics) + int8(0)

    def answer(self, version: int, cursor: Cursor) -> dict[str, DescribedConfig]:  # noqa: ARG002  one version
        cursor.int32()
        return dict(cursor.array(lambda: _config(cursor)))


def _config(cursor: Cursor) -> tuple[str, DescribedConfig]:
    error, _message, _type, topic = cursor.int16(), cursor.string(), cursor.int8(), cursor.string() or ""
    return topic, DescribedConfig(error, dict(cursor.array(lambda: _entry(cursor))))


def _entry(cursor: Cursor) -> tuple[str, DescribedEntry]:
    name, value, is_read_only = cursor.string() or "", cursor.string(), cursor.boolean()
    entry = DescribedEntry(value, cursor.int8(), is_read_only, cursor.boolean())
    cursor.array(lambda: (cursor.string(), cursor.string(), cursor.int8()))  # synonyms
    return name, entry


class DescribedLogDir(NamedTuple):
    """One log directory of the broker that answered.

    Attributes:
        total, usable: Bytes of its volume (KIP-827); UNKNOWN from brokers before 3.3.
        sizes: Bytes of the requested partitions, future replicas left out.
    """

    error_code: int
    path: str
    sizes: dict[TopicPartition, int]
    total: int | Unknown
    usable: int | Unknown


class DescribedLogDirs(NamedTuple):
    """A broker's answer. Before version 3 a missing right gives an empty list of directories."""

    error_code: int
    directories: list[DescribedLogDir]


@dataclass(frozen=True, slots=True)
class DescribeLogDirsRequest(WireRequest[DescribedLogDirs]):
    """The broker's log directories, with the sizes of its replicas of some topics."""

    API_KEY = 35
    VERSIONS = (1, 3, 4)
    FLEXIBLE_FROM = 2

    topics: Mapping[str, int]

    def body(self, version: int) -> bytes:
        if version < self.FLEXIBLE_FROM:
            return array(string(name) + array(map(int32, range(n))) for name, n in self.topics.items())
        listed = compact_array(
            compact_string(name) + compact_array(map(int32, range(n))) + NO_TAGS
            for name, n in self.topics.items()
        )
        return listed + NO_TAGS

    def answer(self, version: int, cursor: Cursor) -> DescribedLogDirs:
        cursor.int32()
        if version < self.FLEXIBLE_FROM:
            return DescribedLogDirs(0, cursor.array(lambda: _directory_plain(cursor)))
        return DescribedLogDirs(cursor.int16(), cursor.compact_array(lambda: _directory(cursor, version)))


def _directory_plain(cursor: Cursor) -> DescribedLogDir:
    error, path = cursor.int16(), cursor.string() or ""
    sizes: dict[TopicPartition, int] = {}

    def topic() -> None:
        name = cursor.string() or ""
        sizes.update(_sizes(name, cursor.array(lambda: _replica(cursor))))

    cursor.array(topic)
    return DescribedLogDir(error, path, sizes, UNKNOWN, UNKNOWN)


def _directory(cursor: Cursor, version: int) -> DescribedLogDir:
    error, path = cursor.int16(), cursor.compact_string() or ""
    sizes: dict[TopicPartition, int] = {}

    def topic() -> None:
        name = cursor.compact_string() or ""
        sizes.update(_sizes(name, cursor.compact_array(lambda: _tagged_replica(cursor))))
        cursor.tags()

    cursor.compact_array(topic)
    total, usable = (cursor.int64(), cursor.int64()) if version >= _WITH_VOLUMES else (_NOT_TOLD, _NOT_TOLD)
    cursor.tags()
    return DescribedLogDir(error, path, sizes, _told(total), _told(usable))


def _tagged_replica(cursor: Cursor) -> tuple[int, int, bool]:
    found = _replica(cursor)
    cursor.tags()
    return found


def _replica(cursor: Cursor) -> tuple[int, int, bool]:
    partition, size, _lag = cursor.int32(), cursor.int64(), cursor.int64()
    return partition, size, cursor.boolean()


def _sizes(name: str, replicas: list[tuple[int, int, bool]]) -> dict[TopicPartition, int]:
    return {TopicPartition(name, number): size for number, size, is_future in replicas if not is_future}


def _told(number: int) -> int | Unknown:
    return UNKNOWN if number == _NOT_TOLD else number
