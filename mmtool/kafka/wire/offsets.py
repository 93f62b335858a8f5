"""ListOffsets (API 2): a log's start offset, its end offset, or the offset at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.codec import Cursor, by_topic, int8, int32, int64
from mmtool.kafka.wire.request import WireRequest
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

LATEST = -1
EARLIEST = -2
_NO_LEADER_EPOCH = int32(-1)


class ListedOffset(NamedTuple):
    """One answer; ``offset`` is -1 on the wire when no record is at or after the requested time."""

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
        topics = by_topic(self.timestamps, lambda when: _NO_LEADER_EPOCH + int64(when))
        return int32(-1) + int8(int(self.read_committed)) + topics

    def answer(self, version: int, cursor: Cursor) -> dict[TopicPartition, ListedOffset]:  # noqa: ARG002  alike
        cursor.int32()
        return cursor.by_topic(lambda: _listed(cursor))


def _listed(cursor: Cursor) -> ListedOffset:
    error = cursor.int16()
    cursor.int64()  # timestamp
    listed = ListedOffset(error, cursor.int64())
    cursor.int32()  # leader epoch
    return listed
