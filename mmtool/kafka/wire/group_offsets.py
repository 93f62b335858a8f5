"""Group offset requests to the coordinator: OffsetCommit (8), OffsetFetch (9) and OffsetDelete (47)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.codec import (
    NO_TAGS,
    Cursor,
    by_topic,
    compact_array,
    compact_string,
    int8,
    int32,
    int64,
    string,
    uvarint,
)
from mmtool.kafka.wire.request import WireRequest
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_FETCHED = struct.Struct(">iqi")  # partition, offset, leader epoch
_ALL_TOPICS = -1
_NO_GENERATION = -1
_NO_EPOCH = int32(-1)
_WITH_STABLE = 7  # of OffsetFetch (KIP-447); the version before is the first flexible one
_WITH_EPOCH = 6  # of OffsetCommit (KIP-320); with the next one it has a group instance id (KIP-345)


class FetchedOffset(NamedTuple):
    """One partition's commit; ``offset`` is -1 on the wire without a commit."""

    offset: int
    metadata: str
    error_code: int


class FetchedOffsets(NamedTuple):
    """All commits of one group."""

    error_code: int
    partitions: dict[TopicPartition, FetchedOffset]


@dataclass(frozen=True, slots=True)
class OffsetFetchRequest(WireRequest[FetchedOffsets]):
    """All commits of ``group``.

    With ``stable`` a partition under an open transaction is refused (UNSTABLE_OFFSET_COMMIT); brokers before 2.5
    cannot say so, and answer what was committed before it.
    """

    API_KEY = 9
    VERSIONS = (5, 7)
    FLEXIBLE_FROM = 6

    group: str
    stable: bool

    def body(self, version: int) -> bytes:
        if version < _WITH_STABLE:
            return string(self.group) + int32(_ALL_TOPICS)
        return compact_string(self.group) + uvarint(0) + int8(int(self.stable)) + NO_TAGS

    def answer(self, version: int, cursor: Cursor) -> FetchedOffsets:
        cursor.int32()
        found: dict[TopicPartition, FetchedOffset] = {}
        topics = cursor.compact_array if version >= _WITH_STABLE else cursor.array
        topics(lambda: _fetched(version, cursor, found))
        return FetchedOffsets(cursor.int16(), found)


@dataclass(frozen=True, slots=True)
class OffsetFetchOfGroupsRequest(WireRequest[dict[str, FetchedOffsets]]):
    """All commits of many ``groups`` of one coordinator, by group (KIP-709: Kafka 3.0).

    ``stable`` as in `OffsetFetchRequest`.
    """

    API_KEY = 9
    VERSIONS = (8,)
    FLEXIBLE_FROM = 6

    groups: Collection[str]
    stable: bool

    def body(self, version: int) -> bytes:  # noqa: ARG002  one version
        every_topic = uvarint(0) + NO_TAGS
        groups = compact_array(compact_string(group) + every_topic for group in self.groups)
        return groups + int8(int(self.stable)) + NO_TAGS

    def answer(self, version: int, cursor: Cursor) -> dict[str, FetchedOffsets]:
        cursor.int32()
        found = dict(cursor.compact_array(lambda: _fetched_group(version, cursor)))
        cursor.tags()
        return found


def _fetched_group(version: int, cursor: Cursor) -> tuple[str, FetchedOffsets]:
    group = cursor.compact_string() or ""
    found: dict[TopicPartition, FetchedOffset] = {}
    cursor.compact_array(lambda: _fetched(version, cursor, found))
    answer = FetchedOffsets(cursor.int16(), found)
    cursor.tags()
    return group, answer


def _fetched(version: int, cursor: Cursor, found: dict[TopicPartition, FetchedOffset]) -> None:
    flexible = version >= _WITH_STABLE
    text = cursor.compact_string if flexible else cursor.string
    topic = text() or ""

    def partition() -> None:
        number, offset, _epoch = cursor.fields(_FETCHED)
        found[TopicPartition(topic, number)] = FetchedOffset(offset, text() or "", cursor.int16())
        if flexible:
            cursor.tags()

    (cursor.compact_array if flexible else cursor.array)(partition)
    if flexible:
        cursor.tags()


@dataclass(frozen=True, slots=True)
class OffsetCommitRequest(WireRequest[dict[TopicPartition, int]]):
    """Commits for a group without members; the answer is an error code for each partition.

    Never with a leader epoch: consumers would wait without end for an epoch of another cluster (KIP-320).
    """

    API_KEY = 8
    VERSIONS = (5, 7)

    group: str
    offsets: Mapping[TopicPartition, tuple[int, str]]

    def body(self, version: int) -> bytes:
        later = version >= _WITH_EPOCH
        epoch, instance = (_NO_EPOCH, string(None)) if later else (b"", b"")
        topics = by_topic(self.offsets, lambda of: int64(of[0]) + epoch + string(of[1]))
        return string(self.group) + int32(_NO_GENERATION) + string("") + instance + topics

    def answer(self, version: int, cursor: Cursor) -> dict[TopicPartition, int]:  # noqa: ARG002  both are alike
        cursor.int32()
        return cursor.by_topic(cursor.int16)


class DeletedOffsets(NamedTuple):
    """The result of a deletion: of the whole request, and of each partition."""

    error_code: int
    partitions: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequest(WireRequest[DeletedOffsets]):
    """Deletes a memberless group's commits of some partitions (KIP-496)."""

    API_KEY = 47
    VERSIONS = (0, 0)

    group: str
    places: Collection[TopicPartition]

    def body(self, version: int) -> bytes:  # noqa: ARG002  there is one
        return string(self.group) + by_topic(dict.fromkeys(self.places), lambda _: b"")

    def answer(self, version: int, cursor: Cursor) -> DeletedOffsets:  # noqa: ARG002  there is one
        error = cursor.int16()
        cursor.int32()
        return DeletedOffsets(error, cursor.by_topic(cursor.int16))
