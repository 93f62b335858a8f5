"""Where the mirror of a partition begins: the first fetch position, and the target's log end then."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from mmtool.kafka.wire.offsets import EARLIEST, LATEST
from mmtool.kafka.wire.scan import list_offsets
from mmtool.translation.blocks import MirroredPartition, MirrorStart
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mmtool.config.values import Start
    from mmtool.replication.context import FlowContext
    from mmtool.replication.mirror_topics import MirroredTopic
    from mmtool.translation.blocks import Block
    from mmtool.translation.types import TopicId


_NOWHERE_ELSE: Mapping[TopicPartition, MirrorStart] = MappingProxyType({})


async def first_blocks(
    flow: FlowContext,
    unknown: Collection[tuple[MirroredTopic, int]],
    mirrored: Collection[TopicId],
    elsewhere: Mapping[TopicPartition, MirrorStart] = _NOWHERE_ELSE,
) -> list[tuple[MirroredTopic, int, Block]]:
    """The first block of each partition that was never mirrored, not yet stored.

    Partitions without a leader on either side are left out: the next refresh looks again.

    Args:
        flow: Whose partitions.
        unknown: Topic and partition number.
        mirrored: Topics that the flow mirrors already: a partition that is added to one is mirrored whole,
            wherever ``mmtool.start`` lets a topic begin.
        elsewhere: Partitions of the source that begin at neither, and where.
    """
    if not unknown:
        return []
    grown = {TopicPartition(t.name, p) for t, p in unknown if t.topic_id in mirrored}
    grown -= elsewhere.keys()
    new = {TopicPartition(t.name, p) for t, p in unknown} - grown - elsewhere.keys()
    starts = await starts_at(flow, new, flow.settings.start) | await _list(flow, grown, EARLIEST)
    downs = {TopicPartition(t.target_name, p) for t, p in unknown}
    ends = await list_offsets(flow.target, dict.fromkeys(downs, LATEST), read_committed=False)
    found = []
    for topic, partition in unknown:
        up, down = TopicPartition(topic.name, partition), TopicPartition(topic.target_name, partition)
        start = elsewhere.get(up)
        if start is None and up in starts and down in ends:
            start = MirrorStart(UpstreamOffset(starts[up]), DownstreamOffset(ends[down]))
        if start is not None:
            block = MapRecorder.begin(partition_of(flow, topic, partition), start).take()[0]
            found.append((topic, partition, block))
    return found


async def starts_at(
    flow: FlowContext, ups: Collection[TopicPartition], start: Start
) -> dict[TopicPartition, int]:
    """The offsets that ``mmtool.start`` would mean; a time that no record has reached yet means the end.

    Partitions without a leader are left out.
    """
    if start == "earliest":
        return await _list(flow, ups, EARLIEST)
    ends = await _list(flow, ups, LATEST)
    if start == "latest":
        return ends
    return ends | await _list(flow, ups, int(start.timestamp() * 1000))


async def _list(flow: FlowContext, ups: Collection[TopicPartition], when: int) -> dict[TopicPartition, int]:
    return await list_offsets(flow.source, dict.fromkeys(ups, when), read_committed=False)


def partition_of(flow: FlowContext, topic: MirroredTopic, partition: int) -> MirroredPartition:
    """What the books say a partition's map is about."""
    return MirroredPartition(
        flow.identity.source_id,
        flow.identity.target_id,
        topic.topic_id,
        partition,
        topic.name,
        topic.target_name,
        topic.target_id,
    )
