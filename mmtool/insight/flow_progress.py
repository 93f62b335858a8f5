"""Measure how far a mirror is behind its source's log ends, MirrorMaker 2's mirrors too."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mmtool.errors import MmtoolError, UnreachableError
from mmtool.insight.flow_now import FlowNow
from mmtool.insight.partitions import partition_facts
from mmtool.insight.translation import refined_plans
from mmtool.kafka.ports import FlowWatchPort, LogPart
from mmtool.plan.flow.mirror_maker import MirrorMakerProgress
from mmtool.plan.groups.facts import ABSENT, Commit, GroupFacts
from mmtool.plan.groups.offsets import Direction, Rules
from mmtool.plan.words import few
from mmtool.translation.answers import Bounded, Exact, SourceLog
from mmtool.translation.types import UNKNOWN, TopicPartition, UpstreamOffset

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
        if mirror.topic in flow.target_topics
        if mirror.partition < flow.target_topics[mirror.topic].partitions
    }
    bounds = flow.clusters.target.bounds_each(there.values())
    return {place: bounds[mirror].log_end for place, mirror in there.items() if mirror in bounds}


_RULES = Rules(Direction.FORWARD)


def log_ends(flow: FlowNow, topics: Collection[str]) -> dict[TopicPartition, SourceLog]:
    """Start and end of each partition's log on the source; under read_committed, the end is the last stable offset.

    Raises:
        UnreachableError, NotAuthorisedError: The source does not show one of the partitions.
    """
    places = [place for place in flow.partitions if place.topic in topics]
    bounds = flow.clusters.source.bounds(places, committed=flow.clusters.settings.reads_committed)
    missing = [place for place in places if place not in bounds]
    if missing:
        raise UnreachableError(
            f"{flow.clusters.source.alias} returns no end offset for partitions that it has just listed:"
            f" {few(missing)}",
            remedy="run the command again: topics that were deleted meanwhile are then left out",
        )
    return {
        place: SourceLog(UpstreamOffset(at.log_start), UpstreamOffset(at.log_end))
        for place, at in bounds.items()
    }


def copied_by_mm2(
    flow: FlowNow, goal: Mapping[TopicPartition, UpstreamOffset]
) -> dict[TopicPartition, UpstreamOffset]:
    """The partitions of a goal that have no offset runs; empty where MM2 copied none of the flow's partitions.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer, or does not show a part.
        RefusedError: Stored state cannot be read.
    """
    if flow.clusters.synced is None or not set(goal).difference(_frontiers(flow, goal)):
        return {}
    partitions = partition_facts(flow, Direction.FORWARD, topics={place.topic for place in goal})
    if not any(facts.synced is not None and facts.map is None for facts in partitions.values()):
        return {}
    return {place: offset for place, offset in goal.items() if partitions[place].map is None}


def short_of(flow: FlowNow, goal: Mapping[TopicPartition, int]) -> int:
    """An upper bound of the records that are not yet copied, up to the goal of each partition.

    Where the flow has offset runs, the offsets from its frontiers on. Where MM2 has copied, the records that a group at
    the goal would read again, by MM2's syncs and the records after the last of them on both sides.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer, or does not show a part.
        RefusedError: Stored state cannot be read.
    """
    frontiers = _frontiers(flow, goal)
    left = {place: end for place, end in goal.items() if place not in frontiers}
    ours = sum(max(0, goal[place] - frontier) for place, frontier in frontiers.items())
    return ours + sum((left if flow.clusters.synced is None else not_copied(flow, left)).values())


def _frontiers(flow: FlowNow, goal: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    maps = flow.clusters.state.maps(flow.identity)
    return {
        place: maps[flow.topics[place.topic].topic_id, place.partition].upstream_frontier
        for place in goal
        if (flow.topics[place.topic].topic_id, place.partition) in maps
    }


def not_copied(flow: FlowNow, goal: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """As `short_of`, by partition that MM2 copies: the records that a group at the goal would read again.

    Raises:
        As `short_of`.
    """
    if not goal:
        return {}
    partitions = partition_facts(flow, Direction.FORWARD, topics={place.topic for place in goal})
    commits = {place: Commit(int(end)) for place, end in goal.items()}
    stands_there = [GroupFacts("goal", commits, {}, ABSENT, ABSENT)]
    _, (plan,) = refined_plans(flow, stands_there, partitions, _RULES, [])
    told = {verdict.source: verdict.answer for verdict in plan.verdicts}
    left: dict[TopicPartition, int] = {}
    for place, end in goal.items():
        answer = told.get(place)
        bound = answer.reread_max if isinstance(answer, Bounded) else UNKNOWN
        left[place] = 0 if isinstance(answer, Exact) else int(end) if bound is UNKNOWN else bound
    return left
