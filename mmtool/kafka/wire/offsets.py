"""ListOffsets (API 2): where a log starts, ends, or stood at a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.codec import Cursor, array, int8, int32, int64, string
from mmtool.kafka.wire.request import WireRequest
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

LATEST = -1
EARLIEST = -2


class ListedOffset(NamedTuple):
    """One answer; ``offset`` is -1 on the wire when no record is as young as the time asked for."""

    error_code: int
    offset: int


@dataclass(frozen=True, slots=True)
class ListOffsetsRequest(WireRequest[dict[TopicPartition, ListedOffset]]):
    """Offsets at ``timestamps`` (ms since 1970, or EARLIEST, LATEST), sorted by partition.

    With ``read_committed`` the end is the last stable offset.
    """

    API_KEY = 2
    VERSIONS = (4, 5)

    timestamps: Mapping[TopicPartition, int]
    read_committed: bool

    def body(self, version: int) -> bytes:  # noqa: ARG002  both versions are alike
        topics = array(
            string(topic) + array(int32(tp.partition) + int32(-1) + int64(when) for tp, when in of)
            for topic, of in groupby(sorted(self.timestamps.items()), key=lambda item: item[0].topic)
        )
        return int32(-1) + int8(int(self.read_committed)) + topics

    def answer(self, version: int, cursor: Cursor) -> dict[TopicPartition, ListedOffset]:  # noqa: ARG002  alike
        cursor.int32()
        listed: dict[TopicPartition, ListedOffset] = {}
        for _ in range(cursor.int32()):
            topic = cursor.string() or ""
            for _ in range(cursor.int32()):
                partition, error = cursor.int32(), cursor.int16()
                cursor.int64()  # timestamp
                listed[TopicPartition(topic, partition)] = ListedOffset(error, cursor.int64())
                cursor.int32()  # leader epoch
        return listed
