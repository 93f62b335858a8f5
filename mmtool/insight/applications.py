"""The state of Kafka Streams applications among a flow's groups, asked of the cluster where they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.plan.applications import AppState, StateTopic, internal_topics
from mmtool.plan.commit_metadata import is_of_streams
from mmtool.plan.group_facts import ABSENT, Commit, GroupFacts
from mmtool.plan.offsets import Direction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mmtool.config import FlowSettings
    from mmtool.insight.target_alone import TargetNow
    from mmtool.insight.translation import FlowNow
    from mmtool.plan.topics import TopicFacts
    from mmtool.translation.types import TopicPartition


def app_state(flow: FlowNow, groups: Collection[str], *, without: bool) -> AppState:
    """The state of those of ``groups`` that are applications, on their way from the flow's source to its target.

    Args:
        flow: Which flow.
        groups: Whom it is about.
        without: As in `AppState`.

    Raises:
        UnreachableError, NotAuthorisedError: The source does not answer, or does not tell.
    """
    found, topics = _internal(flow, groups, Direction.FORWARD)
    return _state(found, topics, flow.clusters.settings, flow, without=without)


def app_state_back(
    flow: FlowNow, back: FlowNow | None, groups: Collection[str], *, without: bool
) -> AppState:
    """The same on the way back, where the flow ``back`` mirrors; None where nothing is mirrored back.

    Raises:
        UnreachableError, NotAuthorisedError: The flow's target does not answer, or does not tell.
    """
    found, topics = _internal(flow, groups, Direction.REVERSE)
    return _state(found, topics, None if back is None else back.clusters.settings, back, without=without)


def app_state_on_target(now: TargetNow, *, without: bool) -> AppState:
    """The same as the target alone knows it: a topic that was never mirrored is not known there.

    A group that has committed as Kafka Streams does, and of which the target has no internal topic, may have state.
    """
    groups, copies = [group.group for group in now.facts.groups], _copies(now)
    found = internal_topics(groups, copies, now.read_by)
    topics = [
        StateTopic(
            group,
            name,
            now.topics[copies[name]].partitions if copies[name] in now.topics else 0,
            _why_lost_on_target(name, copies[name], now),
        )
        for group, names in sorted(found.items())
        for name in names
    ]
    bare = [
        StateTopic(group.group, f"{group.group}-*-changelog", 0, f"none is on {now.side.target.alias}")
        for group in now.facts.groups
        if group.group not in found and any(is_of_streams(at.metadata) for at in group.commits.values())
    ]
    return AppState((*topics, *bare), without)


def _copies(now: TargetNow) -> dict[str, str]:
    """What the target calls topics of the source, by their names there; of what MM2 has mirrored its names tell."""
    settings = now.side.settings
    found: dict[str, str] = {}
    for name in now.topics:
        upstream = settings.source_topic(name)
        if upstream is not None and settings.remote_topic(upstream) == name:
            found[upstream] = name
    return found | {place.topic: known.target.topic for place, known in now.facts.partitions.items()}


def _why_lost_on_target(name: str, copy: str, now: TargetNow) -> str:
    if copy != name:
        return f"mirrored as {copy}"
    mirrored = any(place.topic == name for place in now.facts.partitions)
    return "" if mirrored else now.side.settings.unmirrored(name)


def _internal(
    flow: FlowNow, groups: Collection[str], direction: Direction
) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, TopicFacts]]:
    cluster = flow.read_at(direction)
    topics = cluster.topics()
    if not internal_topics(groups, topics, ()):
        return {}, topics
    listed = cluster.groups.listing()
    return internal_topics(groups, topics, {*listed.consumers, *listed.others}), topics


def _state(
    found: Mapping[str, Iterable[str]],
    topics: Mapping[str, TopicFacts],
    settings: FlowSettings | None,
    flow: FlowNow | None,
    *,
    without: bool,
) -> AppState:
    return AppState(
        tuple(
            StateTopic(group, name, topics[name].partitions, _why_lost(name, settings, flow))
            for group, names in sorted(found.items())
            for name in names
        ),
        without,
    )


def _why_lost(name: str, settings: FlowSettings | None, flow: FlowNow | None) -> str:
    """Why a flow does not bring a topic to its target under its own name; empty where it does."""
    if settings is None or flow is None:
        return "no flow mirrors it"
    if unmirrored := settings.unmirrored(name):
        return unmirrored
    if flow.remote(name) != name:
        return f"mirrored as {flow.remote(name)}"
    return "" if name in flow.topics else "made a moment ago"


def as_groups(goal: Mapping[TopicPartition, int], topics: Collection[str]) -> list[GroupFacts]:
    """A reader of each state topic that stands where the drain has to get: what it reads next is to be proven."""
    commits = {place: Commit(int(end)) for place, end in goal.items() if place.topic in topics}
    return [GroupFacts("state", commits, {}, ABSENT, ABSENT)] if commits else []
