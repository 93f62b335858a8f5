"""Partition maps and their blocks, written down as runs: what a mirror would have stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kit.runs import ORDERS
from mmtool.plan.records.documents import PositionRecord
from mmtool.translation.blocks import MirrorStart, SeenOffset, WriterState
from mmtool.translation.partition_map import PartitionMap, join_blocks
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.types import DownstreamOffset, TopicId, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.plan.records.documents import State
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.translation.blocks import Block, MirroredPartition


def about_of(
    identity: FlowIdentity,
    topic_id: TopicId,
    source: TopicPartition,
    target_topic: str,
    target_topic_id: TopicId,
) -> MirroredPartition:
    """Which partition of which flow."""
    return replace(
        ORDERS,
        source_cluster_id=identity.source_id,
        target_cluster_id=identity.target_id,
        topic_id=topic_id,
        partition=source.partition,
        source_topic=source.topic,
        target_topic=target_topic,
        target_topic_id=target_topic_id,
    )


def blocks_of(
    about: MirroredPartition,
    runs: Iterable[tuple[int, int, int]],
    frontier: int,
    *,
    start: tuple[int, int] = (0, 0),
    source_end: int | None = None,
    seen_ms: int = 0,
    same: bool = False,
) -> list[Block]:
    """The blocks of a mirror that shipped ``runs`` (upstream, downstream, count) and stands at ``frontier``.

    ``start`` is where it began, upstream and downstream; ``source_end`` was seen last, by default the frontier, at
    ``seen_ms``; ``same`` says that its records have the source's own offsets.
    """
    recorder = MapRecorder.begin(about, MirrorStart(UpstreamOffset(start[0]), DownstreamOffset(start[1])))
    recorder.same_offsets = same
    end = frontier if source_end is None else source_end
    recorder.saw_source(SeenOffset(UpstreamOffset(end), seen_ms), SeenOffset(UpstreamOffset(start[0]), 0))
    for upstream, downstream, count in runs:
        recorder.appended(
            UpstreamOffset(upstream), DownstreamOffset(downstream), count, writer=WriterState(9, 0, 0)
        )
    recorder.passed(UpstreamOffset(frontier))
    return list(recorder.take())


def begun() -> MapRecorder:
    """The books of a mirror that begins at both logs' beginning."""
    return MapRecorder.begin(ORDERS, MirrorStart(UpstreamOffset(0), DownstreamOffset(0)))


def map_of(
    about: MirroredPartition, runs: Iterable[tuple[int, int, int]], frontier: int, **options: Any
) -> PartitionMap:
    """`blocks_of`, joined."""
    return join_blocks(blocks_of(about, runs, frontier, **options))


def position_of(
    place: TopicPartition, topic_id: str, at: int, source_end: int, state: State, **changes: Any
) -> PositionRecord:
    """What a pump has written last of a partition, some reason with it; ``changes``: its other fields."""
    told = PositionRecord(
        owner="pump-1",
        topic=place.topic,
        topic_id=topic_id,
        partition=place.partition,
        target_topic=f"east.{place.topic}",
        upstream_position=at,
        downstream_position=at,
        source_end=source_end,
        source_log_start=0,
        records=0,
        mirrored_bytes=0,
        state=state,
        reason="a record is too large",
        observed_ms=1,
        behind_since_ms=0,
    )
    return replace(told, **changes)
