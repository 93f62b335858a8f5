"""Sample a partition's next and newest records for one that is too large for a target batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.admin.details import SizeSample
from mmtool.kafka.batches import OversizeRecordError
from mmtool.kafka.batches.rebuild import rebuild
from mmtool.kafka.wire.scan import AtMost, read_range
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from mmtool.kafka.admin.details import SizeQuestion
    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.translation.types import TopicId, TopicPartition

_SAMPLE_BYTES = 8 << 20
"""Bytes that are read from each of the two parts of a log: its start and its newest records."""
_NEWEST = 500
"""Offsets before the log end where the second part begins."""
_FETCH_BYTES = 2 << 20


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
        found = _oversize(view, start, question.limit)
        if found is not None:
            return SizeSample(looked, read_to, False, found.upstream_offset, found.size)
        if looked >= _SAMPLE_BYTES:
            break
    return SizeSample(looked, read_to, read_to >= question.end)


def _oversize(view: BatchView, start: int, limit: int) -> OversizeRecordError | None:
    if len(view.memory) <= limit or view.header.is_control:
        return None
    try:
        rebuild([view], position=UpstreamOffset(start), max_batch_bytes=limit)
    except OversizeRecordError as error:
        return error
    return None
