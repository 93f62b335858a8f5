"""Sample parts of a partition's log: records too large for a target batch, and offsets without a record."""

from __future__ import annotations

import time
from typing import NamedTuple

from mmtool.kafka.batches import OversizeRecordError
from mmtool.kafka.batches.rebuild import rebuild
from mmtool.kafka.wire.cluster import WireCluster
from mmtool.kafka.wire.scan import AtMost, read_range
from mmtool.translation.types import TopicId, TopicPartition, UpstreamOffset

_SIZES_BYTES = 8 << 20
"""Bytes that are read from each of the two parts of a log: its start and its newest records."""
_NEWEST = 500
"""Offsets before the log end where the second part begins."""
_FETCH_BYTES = 2 << 20


class SizeQuestion(NamedTuple):
    """The records of a partition whose size is to be checked.

    Attributes:
        start, end: Their offsets.
        limit: Bytes that a batch may have.
    """

    start: int
    end: int
    limit: int


class SizeSample(NamedTuple):
    """The result of a sample of a partition.

    Attributes:
        looked_bytes: The size of the batches that were read.
        read_to: The offset behind the last of them.
        is_whole: They cover the whole requested range.
        offset: Of the first record that fits no batch; None where none was found.
        size: Bytes that it needs.
    """

    looked_bytes: int
    read_to: int
    is_whole: bool
    offset: int | None = None
    size: int = 0


async def sample_sizes(
    wire: WireCluster, place: TopicPartition, topic_id: TopicId, question: SizeQuestion
) -> SizeSample:
    """Sample the start and the newest records of a range; find the first record above the size limit.

    Batches are rebuilt as `replicate` would rebuild them.

    Raises:
        ConnectionLostError: the log cannot be read.
        NotAuthorisedError: without READ on the topic.
    """
    first = await _read(wire, place, topic_id, question, question.start)
    newest = max(first.read_to, question.end - _NEWEST)
    if first.offset is not None or newest >= question.end:
        return first
    last = await _read(wire, place, topic_id, question, newest)
    whole = first.is_whole and newest == first.read_to and last.is_whole
    return last._replace(looked_bytes=first.looked_bytes + last.looked_bytes, is_whole=whole)


async def _read(
    wire: WireCluster, place: TopicPartition, topic_id: TopicId, question: SizeQuestion, start: int
) -> SizeSample:
    looked, read_to = 0, start
    views = read_range(
        wire, *(place.topic, topic_id, place.partition, start, AtMost(question.end)),
        read_committed=False, fetch_bytes=_FETCH_BYTES,
    )  # fmt: skip
    async for view in views:
        looked, read_to = looked + len(view.memory), view.header.next_offset
        if len(view.memory) > question.limit and not view.header.is_control:
            try:
                rebuild([view], position=UpstreamOffset(start), max_batch_bytes=question.limit)
            except OversizeRecordError as large:
                return SizeSample(looked, read_to, False, large.upstream_offset, large.size)
        if looked >= _SIZES_BYTES:
            break
    return SizeSample(looked, read_to, read_to >= question.end)


_HOLES_BYTES = 1 << 20
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
        read_committed=question.read_committed, fetch_bytes=_HOLES_BYTES,
    )  # fmt: skip
    async for view in views:
        header = view.header
        if not looked:
            first, last, since_ms = header.base_offset, header.base_offset, header.max_timestamp
        inside = header.last_offset_delta + 1 - header.record_count
        missing += header.base_offset - last + inside
        holes += (header.base_offset > last) + min(inside, header.record_count + 1)
        last, looked = header.next_offset, looked + len(view.memory)
        if looked >= _HOLES_BYTES:
            break
    seconds = max(time.time() - since_ms / 1000, _SHORTEST_SECONDS)
    return HoleSample(last - first, missing, holes, seconds)
