"""Read MirrorMaker 2's progress on a flow from Kafka alone: its topics, and the source's log ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.kafka.ports import LogPart
from mmtool.plan.flow.mirror_maker import MirrorMakerProgress
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.insight.flow_now import FlowNow
    from mmtool.kafka.ports import FlowWatchPort

_MOST_MARKERS = 1_000
"""Up to this lag the source's remaining offsets are read: they may be transaction markers only."""


def mirror_maker_progress(
    flow: FlowNow, watch: FlowWatchPort, ends: Mapping[TopicPartition, int]
) -> MirrorMakerProgress:
    """MM2's progress on the flow's partitions; empty where its topics cannot be read.

    MM2 stores the offset of the last *record*: where only transaction markers follow it, nothing is missing.

    Args:
        flow: The flow.
        watch: Reads MM2's topics.
        ends: The source's log ends, read before this call.
    """
    try:
        found = watch.mirror_maker().of(set(flow.partitions))
    except MmtoolError:
        return MirrorMakerProgress()
    found = found.with_mirrors(
        _mirror_ends(flow, found), exactly_once=flow.clusters.settings.mm2_exactly_once
    )
    near = {at: ends[at] for at, left in found.behind(ends).items() if 0 < left <= _MOST_MARKERS}
    parts = {
        LogPart(at, flow.topics[at.topic].topic_id, range(found.positions[at], end), 1): at
        for at, end in near.items()
    }
    if not parts:
        return found
    committed = flow.clusters.settings.reads_committed
    records = flow.clusters.source.records_each(parts, committed=committed)
    return found.at_end({parts[part]: near[parts[part]] for part, seen in records.items() if not seen})


def _mirror_ends(flow: FlowNow, found: MirrorMakerProgress) -> dict[TopicPartition, int]:
    """The end of each mirror that MM2 has written syncs of, by source partition; read after the syncs."""
    mirrors = {place: TopicPartition(flow.remote(place.topic), place.partition) for place in found.syncs}
    there = {
        place: mirror
        for place, mirror in mirrors.items()
        if mirror.partition < flow.target_partitions.get(mirror.topic, 0)
    }
    bounds = flow.clusters.target.bounds_each(there.values())
    return {place: bounds[mirror].log_end for place, mirror in there.items() if mirror in bounds}
