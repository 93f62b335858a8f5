"""How far a mirror is from where the source ends, asked of living clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.translation.answers import SourceLog
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mmtool.insight.translation import FlowNow
    from mmtool.translation.types import TopicPartition


def log_ends(flow: FlowNow, topics: Collection[str]) -> dict[TopicPartition, SourceLog]:
    """The source's logs of some topics of a flow; what is uncommitted is no record yet under read_committed."""
    places = [place for place in flow.partitions if place.topic in topics]
    bounds = flow.clusters.source.bounds(places, committed=flow.clusters.settings.reads_committed)
    return {
        place: SourceLog(UpstreamOffset(at.log_start), UpstreamOffset(at.log_end))
        for place, at in bounds.items()
    }


def short_of(flow: FlowNow, goal: Mapping[TopicPartition, int]) -> int:
    """How many offsets lie between the mirror's frontiers and a goal: an upper bound of the records."""
    maps = flow.clusters.state.maps(flow.identity)
    frontiers = {
        place: maps[flow.topics[place.topic].topic_id, place.partition].upstream_frontier
        for place in goal
        if (flow.topics[place.topic].topic_id, place.partition) in maps
    }
    return sum(max(0, end - frontiers.get(place, 0)) for place, end in goal.items())
