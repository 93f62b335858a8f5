"""Sample the offsets of a partition at which it has no record: markers, aborted and compacted records."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.scan import AtMost, read_range

if TYPE_CHECKING:
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.translation.types import TopicId, TopicPartition

_SAMPLE_BYTES = 1 << 20
_SHORTEST_SECONDS = 0.1


class HoleQuestion(NamedTuple):
    """The part of a log that is sampled, and whether aborted records are holes, too."""

    start: int
    end: int
    read_committed: bool


class HoleSample(NamedTuple):
    """A sample from its first record to its last one.

    Attributes:
        offsets: How many offsets it has.
        missing: How many of them have no record.
        holes: Runs of such offsets; those inside a batch are at most so many.
        seconds: From its first record's timestamp until now.
    """

    offsets: int
    missing: int
    holes: int
    seconds: float


async def sample_holes(
    wire: WireCluster, place: TopicPartition, topic_id: TopicId, question: HoleQuestion
) -> HoleSample:
    """Read up to a megabyte from the start of a range.

    Raises:
        ConnectionLostError: the log cannot be read.
        NotAuthorisedError: without READ on the topic.
    """
    first, last, looked, missing, holes, since_ms = question.start, question.start, 0, 0, 0, 0
    views = read_range(
        wire, *(place.topic, topic_id, place.partition, question.start, AtMost(question.end)),
        read_committed=question.read_committed, fetch_bytes=_SAMPLE_BYTES,
    )  # fmt: skip
    async for view in views:
        header = view.header
        if not looked:
            first, last, since_ms = header.base_offset, header.base_offset, header.max_timestamp
        inside = header.last_offset_delta + 1 - header.record_count
        missing += header.base_offset - last + inside
        holes += (header.base_offset > last) + min(inside, header.record_count + 1)
        last, looked = header.next_offset, looked + len(view.memory)
        if looked >= _SAMPLE_BYTES:
            break
    seconds = max(time.time() - since_ms / 1000, _SHORTEST_SECONDS)
    return HoleSample(last - first, missing, holes, seconds)
