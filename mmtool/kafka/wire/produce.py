"""Produce (API 0): finished batches, one per partition, as Kafka requires them (magic 2, base offset 0).

Version 13 names topics by id, so nothing is ever appended to a recreated topic. Versions 7 and 8 name them
by name; 7 is the first that allows zstd.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from mmtool.kafka.wire.codec import (
    NO_TAGS,
    Cursor,
    compact_string,
    int16,
    int32,
    string,
    topic_id_to_bytes,
    uvarint,
)
from mmtool.kafka.wire.request import WireRequest
from mmtool.translation.types import TopicId

PRODUCE_BY_ID = 13
ACKS_ALL = -1
_PARTITION = struct.Struct(">ihqqq")
"""Partition, error code, base offset, log append time, log start offset."""


class ProducePartition(NamedTuple):
    """One stamped batch for one partition."""

    topic: str
    topic_id: TopicId
    partition: int
    batch: bytes | bytearray


class ProducedPartition(NamedTuple):
    """One partition's answer; ``base_offset`` is valid only where ``error_code`` is 0."""

    topic: str
    topic_id: str
    partition: int
    error_code: int
    base_offset: int
    log_start_offset: int
    message: str


class ProduceAnswer(NamedTuple):
    """The answer to one Produce; ``throttle_ms`` is how long a quota delays the client (KIP-219)."""

    partitions: list[ProducedPartition]
    throttle_ms: int


class ProduceRequest(WireRequest[ProduceAnswer], api=0, versions=(7, 8, PRODUCE_BY_ID), flexible=9):
    """Batches for different partitions, sorted by topic, acks=all.

    Two batches for one partition in one request are refused by the broker with error 87.
    """

    partitions: Sequence[ProducePartition]
    timeout_ms: int

    def usable(self) -> tuple[int, ...]:
        return self.VERSIONS[:-1] if any(p.topic_id == p.topic for p in self.partitions) else self.VERSIONS

    def body(self, version: int) -> bytes:
        return b"".join(self.pieces(version))

    def pieces(self, version: int) -> list[bytes | bytearray]:
        by_topic = [list(of) for _, of in groupby(self.partitions, key=lambda p: p.topic)]
        parts: list[bytes | bytearray]
        if version >= self.FLEXIBLE_FROM:
            parts = [
                compact_string(None),
                int16(ACKS_ALL),
                int32(self.timeout_ms),
                uvarint(len(by_topic) + 1),
            ]
            for of in by_topic:
                _topic_by_id(of, parts)
            parts.append(NO_TAGS)
        else:
            parts = [string(None), int16(ACKS_ALL), int32(self.timeout_ms), int32(len(by_topic))]
            for of in by_topic:
                _topic_by_name(of, parts)
        return parts

    def answer(self, version: int, cursor: Cursor) -> ProduceAnswer:
        answers: list[ProducedPartition] = []
        for _ in range(cursor.count()):
            by_id = version >= PRODUCE_BY_ID
            topic, topic_id = ("", cursor.topic_id()) if by_id else (cursor.string() or "", "")
            for _ in range(cursor.count()):
                partition, error, base, _append_time, start = cursor.fields(_PARTITION)
                message = ""
                if version >= 8:
                    cursor.array(lambda: (cursor.int32(), cursor.string(), cursor.tags()))
                    message = cursor.string() or ""
                cursor.tags()
                answers.append(ProducedPartition(topic, topic_id, partition, error, base, start, message))
            cursor.tags()
        return ProduceAnswer(answers, cursor.int32())


def _topic_by_id(of: list[ProducePartition], parts: list[bytes | bytearray]) -> None:
    parts += [topic_id_to_bytes(of[0].topic_id), uvarint(len(of) + 1)]
    for p in of:
        parts += [int32(p.partition), uvarint(len(p.batch) + 1), p.batch, NO_TAGS]
    parts.append(NO_TAGS)


def _topic_by_name(of: list[ProducePartition], parts: list[bytes | bytearray]) -> None:
    parts += [string(of[0].topic), int32(len(of))]
    for p in of:
        parts += [int32(p.partition), int32(len(p.batch)), p.batch]
