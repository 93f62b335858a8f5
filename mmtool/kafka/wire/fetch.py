"""Fetch (API 1): record batches as the log holds them, in incremental sessions (KIP-227)."""

from __future__ import annotations

import struct
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.codec import (
    NO_TAGS,
    Cursor,
    array,
    compact_array,
    compact_string,
    int8,
    int32,
    int64,
    string,
    topic_id_to_bytes,
)
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.request import WireRequest
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.translation.types import TopicId

    Key = tuple[TopicId, int]


FETCH_BY_ID = 13
_NO_EPOCH = -1  # Kafka's own value in a request
_DIVERGING_TAG = 0
_PARTITION = struct.Struct(">ihqqq")
"""Partition, error code, high watermark, last stable offset, log start offset."""


class Diverging(NamedTuple):
    """The log no longer has the records that were read: it was truncated (KIP-595).

    Attributes:
        epoch: The last leader epoch that log and reader have in common.
        end: Records below it may still be those that were read; all from it on are gone or replaced.
    """

    epoch: int
    end: int


class FetchPartition(NamedTuple):
    """The offset from which to read one partition, and how many bytes at the most.

    Attributes:
        read_epoch: The leader epoch of the record right below ``offset``: a broker whose log holds another one there
            says so, where topics are named by id (Kafka 3.1). UNKNOWN skips the check.
    """

    topic: str
    topic_id: TopicId
    partition: int
    offset: int
    max_bytes: int
    read_epoch: int | Unknown = UNKNOWN


class FetchedPartition(NamedTuple):
    """One partition's answer. Of ``topic`` and ``topic_id`` the one that the version does not name is empty.

    ``aborted`` lists (producer id, first offset) of transactions aborted in the range; ``records`` is a view
    into the answer and keeps all of it alive. With ``diverging`` there are none.
    """

    topic: str
    topic_id: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    records: memoryview
    diverging: Diverging | None = None


class FetchAnswer(NamedTuple):
    """The answer to one Fetch."""

    throttle_ms: int
    error_code: int
    partitions: list[FetchedPartition]
    session_id: int = 0


class FetchRequest(WireRequest[FetchAnswer], api=1, versions=(10, 11, FETCH_BY_ID), flexible=12):
    """A fetch of ``partitions``, grouped by topic; outside a session, unless one is named (see `FetchSession`).

    Attributes:
        forgotten: Partitions to remove from the session.
        max_bytes: Of the whole answer. The first batch comes whole even where it is larger (KIP-74).
        read_committed: Only up to the last stable offset, with the aborted transactions listed.
        by_name: Topics are named by name: some topic of the session has no id.
    """

    partitions: Sequence[FetchPartition]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool = True
    session_id: int = 0
    session_epoch: int = -1
    forgotten: Sequence[FetchPartition] = ()
    by_name: bool = False

    def usable(self) -> tuple[int, ...]:
        nameless = (p.topic_id == p.topic for p in (*self.partitions, *self.forgotten))
        return self.VERSIONS[:-1] if self.by_name or any(nameless) else self.VERSIONS

    def body(self, version: int) -> bytes:
        head = int32(-1) + int32(self.max_wait_ms) + int32(self.min_bytes) + int32(self.max_bytes)
        session = int8(int(self.read_committed)) + int32(self.session_id) + int32(self.session_epoch)
        read, forgotten = _by_topic(self.partitions), _by_topic(self.forgotten)
        if version >= self.FLEXIBLE_FROM:
            topics = compact_array(map(_topic_by_id, read)) + compact_array(map(_forgotten_by_id, forgotten))
            return head + session + topics + compact_string("") + NO_TAGS
        topics = array(string(of[0].topic) + array(map(_partition, of)) for of in read)
        topics += array(string(of[0].topic) + array(int32(p.partition) for p in of) for of in forgotten)
        return head + session + topics + (string("") if version >= 11 else b"")

    def answer(self, version: int, cursor: Cursor) -> FetchAnswer:
        throttle_ms, error_code, session_id = cursor.int32(), cursor.int16(), cursor.int32()
        partitions: list[FetchedPartition] = []
        for _ in range(cursor.count()):
            by_id = version >= FETCH_BY_ID
            topic, topic_id = ("", cursor.topic_id()) if by_id else (cursor.string() or "", "")
            for _ in range(cursor.count()):
                partition, error, high, stable, start = cursor.fields(_PARTITION)
                aborted = cursor.array(lambda: _aborted(cursor))
                if version >= 11:
                    cursor.int32()  # preferred read replica
                records, tagged = cursor.records(), cursor.tags().get(_DIVERGING_TAG)
                diverging = None if tagged is None else Diverging(tagged.int32(), tagged.int64())
                partitions.append(
                    FetchedPartition(
                        topic, topic_id, partition, error, high, stable, start, aborted, records, diverging
                    )
                )
            cursor.tags()
        return FetchAnswer(throttle_ms, error_code, partitions, session_id)


def _by_topic(partitions: Sequence[FetchPartition]) -> list[list[FetchPartition]]:
    return [list(of) for _, of in groupby(partitions, key=lambda p: p.topic)]


def _topic_by_id(partitions: list[FetchPartition]) -> bytes:
    of = compact_array(_partition_flexible(p) for p in partitions)
    return topic_id_to_bytes(partitions[0].topic_id) + of + NO_TAGS


def _forgotten_by_id(partitions: list[FetchPartition]) -> bytes:
    numbers = compact_array(int32(p.partition) for p in partitions)
    return topic_id_to_bytes(partitions[0].topic_id) + numbers + NO_TAGS


def _partition_flexible(p: FetchPartition) -> bytes:
    # the current leader epoch is not told: a leader that is none any more says so by itself
    read_epoch = _NO_EPOCH if p.read_epoch is UNKNOWN else p.read_epoch
    fixed = int32(p.partition) + int32(_NO_EPOCH) + int64(p.offset) + int32(read_epoch)
    return fixed + int64(-1) + int32(p.max_bytes) + NO_TAGS


def _partition(p: FetchPartition) -> bytes:
    return int32(p.partition) + int32(-1) + int64(p.offset) + int64(-1) + int32(p.max_bytes)


def _aborted(cursor: Cursor) -> tuple[int, int]:
    pair = cursor.int64(), cursor.int64()
    cursor.tags()
    return pair


_NO_SESSION = 0
_FULL = 0
_LAST_EPOCH = (1 << 31) - 1
_SESSION_ERRORS = (
    Code.FETCH_SESSION_ID_NOT_FOUND,
    Code.INVALID_FETCH_SESSION_EPOCH,
    Code.FETCH_SESSION_TOPIC_ID_ERROR,
)


class FetchSession:
    """The partitions that are read from one broker over one connection, one request at a time.

    A. Once the broker has answered a request, its session holds exactly the partitions that were put and not dropped
       before that request was made.
    B. After a missing answer, or one that refuses the session, the next request names all partitions again.
    C. To a broker that gives no session each request names all partitions, the one that was put last at the end.
    """

    def __init__(self) -> None:
        self._places: dict[Key, FetchPartition] = {}
        self._untold: dict[Key, None] = {}
        self._dropped: dict[Key, FetchPartition] = {}
        self._without_id: set[Key] = set()
        self._id = _NO_SESSION
        self._epoch = _FULL

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: Key) -> bool:
        return key in self._places

    def put(self, place: FetchPartition) -> None:
        """Add a partition to the session, or change the offset of one."""
        key = (place.topic_id, place.partition)
        self._places.pop(
            key, None
        )  # to the end: where there is no session, the first places are served first
        self._places[key] = place
        self._untold[key] = None
        self._dropped.pop(key, None)
        if place.topic_id == place.topic:
            self._without_id.add(key)

    def drop(self, key: Key) -> None:
        """Remove a partition from the session."""
        place = self._places.pop(key, None)
        if place is not None:
            self._untold.pop(key, None)
            self._without_id.discard(key)
            self._dropped[key] = place

    def request(self, *, max_wait_ms: int, max_bytes: int, read_committed: bool) -> FetchRequest:
        """The next request; `answered` or `lost` must follow before the next call."""
        full = self._epoch == _FULL
        told = list(self._places.values()) if full else [self._places[key] for key in self._untold]
        dropped = [] if full else list(self._dropped.values())
        self._untold.clear()
        self._dropped.clear()
        return FetchRequest(
            _neighbours(told),
            max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            read_committed=read_committed,
            session_id=self._id,
            session_epoch=self._epoch,
            forgotten=_neighbours(dropped),
            by_name=bool(self._without_id),
        )

    def answered(self, answer: FetchAnswer) -> bool:
        """Note the answer to the last request; False when the broker refused it, so that nothing was fetched."""
        if answer.error_code in _SESSION_ERRORS:
            self._id, self._epoch = _NO_SESSION, _FULL
            return False
        if answer.error_code != Code.NONE:
            self.lost()
            return False
        self._id = answer.session_id
        if self._id == _NO_SESSION:
            self._epoch = _FULL
        else:
            self._epoch = self._epoch + 1 if self._epoch < _LAST_EPOCH else 1
        return True

    def lost(self) -> None:
        """Note that no answer came: the broker may have missed changes, so the next request sends all partitions."""
        self._epoch = _FULL


def _neighbours(places: list[FetchPartition]) -> list[FetchPartition]:
    """Sort partitions by topic, which a request names once; topics stay in the order of their first partition."""
    rank: dict[str, int] = {}
    for place in places:
        rank.setdefault(place.topic, len(rank))
    return sorted(places, key=lambda place: rank[place.topic])
