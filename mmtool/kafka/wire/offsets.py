"""ListOffsets (API 2): a log's start offset, its end offset, or the offset at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.schema import by_topic, only, row
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

LATEST = -1
EARLIEST = -2


class ListedOffset(NamedTuple):
    """One answer; ``offset`` is -1 on the wire when no record is at or after the requested time."""

    error_code: int
    offset: int


class ListOffsetsRequest(WireRequest[dict[TopicPartition, ListedOffset]], api=2, versions=(4, 5)):
    """Offsets at ``timestamps`` (ms since 1970, or EARLIEST, LATEST), sorted by partition.

    With ``read_committed`` the end is the last stable offset.
    """

    timestamps: Mapping[TopicPartition, int]
    read_committed: bool
    BODY = row(
        "_replica:int32=-1 read_committed:bool timestamps:times",
        times=by_topic("_leader_epoch:int32=-1 timestamp:int64").converted(
            out=lambda timestamps: {place: {"timestamp": when} for place, when in timestamps.items()}
        ),
    )
    ANSWER = row(
        "_throttle:int32 offsets:listed",
        only,
        listed=by_topic("error_code:int16 _timestamp:int64 offset:int64 _leader_epoch:int32", ListedOffset),
    )
