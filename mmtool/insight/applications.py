"""Read the state topics of Kafka Streams applications among a flow's groups, from the cluster where they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.insight.partitions import partition_facts
from mmtool.plan.groups.applications import AppState, StateTopic, internal_topics
from mmtool.plan.groups.commit_metadata import is_of_streams
from mmtool.plan.groups.facts import ABSENT, Commit, GroupFacts
from mmtool.plan.groups.offsets import Direction
from mmtool.plan.words import joined
from mmtool.translation.known import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mmtool.config import FlowSettings
    from mmtool.insight.flow_now import FlowNow
    from mmtool.insight.target_only import TargetNow
    from mmtool.plan.groups.offsets import PartitionFacts
    from mmtool.plan.topics.facts import TopicFacts
    from mmtool.translation.types import TopicPartition


def app_state(flow: FlowNow, groups: Collection[str], *, without: bool) -> AppState:
    """The state of those of ``groups`` that are applications, on their way from the flow's source to its target.

    Args:
        flow: Which flow.
        groups: Whom it is about.
        without: As in `AppState`.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer, or the source does not tell.
        RefusedError: Stored state cannot be read.
    """
    found, topics = _internal(flow, groups, Direction.FORWARD)
    return _state(found, topics, flow.clusters.settings, flow, without=without)


def app_state_back(
    flow: FlowNow, back: FlowNow | None, groups: Collection[str], *, without: bool
) -> AppState:
    """The same on the way back, where the flow ``back`` mirrors; None where nothing is mirrored back.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer, or the flow's target does not tell.
        RefusedError: Stored state cannot be read.
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
        StateTopic(group.group, f"{group.group}-*-changelog", 0, f"{now.side.target.alias} has no such topic")
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
    mirrored = [known for place, known in now.facts.partitions.items() if place.topic == name]
    settings = now.side.settings
    return _first_loss(mirrored, settings) if mirrored else settings.unmirrored(name)


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
    copies = _copies_of(flow, {name for names in found.values() for name in names})
    return AppState(
        tuple(
            StateTopic(group, name, topics[name].partitions, _why_lost(name, settings, flow, copies))
            for group, names in sorted(found.items())
            for name in names
        ),
        without,
    )


def _copies_of(flow: FlowNow | None, names: Collection[str]) -> list[PartitionFacts]:
    """Every partition of those of these topics that the flow mirrors, with the target's log of it."""
    if flow is None or not flow.topics.keys() & set(names):
        return []
    return list(partition_facts(flow.narrowed_to(names), Direction.FORWARD).values())


def _why_lost(
    name: str, settings: FlowSettings | None, flow: FlowNow | None, copies: Iterable[PartitionFacts]
) -> str:
    """Why a flow does not bring a topic to its target under its own name; empty where it does."""
    if settings is None or flow is None:
        return "no flow mirrors it back"
    if unmirrored := settings.unmirrored(name):
        return unmirrored
    if flow.remote(name) != name:
        return f"mirrored as {flow.remote(name)}"
    if name not in flow.topics:
        return "created after mmtool listed the topics: run the command again"
    return _first_loss([known for known in copies if known.source.topic == name], settings)


def _first_loss(copies: Iterable[PartitionFacts], flow: FlowSettings) -> str:
    """Why the first partition that has lost its copy on the flow's target has none; empty where none has."""
    return next((why for known in copies if (why := _why_copy_lost(known, flow))), "")


def _why_copy_lost(known: PartitionFacts, flow: FlowSettings) -> str:
    """A mirror goes on behind what it has copied: what the target has deleted of that does not come again."""
    if known.problem:
        return known.problem
    copied_to = _copied_to(known)
    if copied_to is None:
        return ""
    cluster = flow.target.alias
    copy, again = f"the copy of partition {known.source.partition} on {cluster}", _mirror_again(known, flow)
    if known.target_log is UNKNOWN:
        return joined(f"{copy} was deleted or recreated", again)
    end = known.target_log.log_end
    if copied_to <= end:
        return ""
    return joined(
        f"{copy} ends at offset {end:,}, but had been mirrored up to offset {copied_to:,}: {cluster} has lost records",
        again,
    )


def _mirror_again(known: PartitionFacts, flow: FlowSettings) -> str:
    """What the operator can do; empty where MM2 made the copy: mmtool has no state to delete then."""
    if known.map is None:
        return ""
    return (
        "to mirror the topic again, stop `mmtool replicate`, run `mmtool flow forget -c FILE"
        f" -s {flow.source.alias} -t {flow.target.alias} --topic {known.source.topic} --execute`, then start `mmtool"
        " replicate`"
    )


def _copied_to(known: PartitionFacts) -> int | None:
    """Behind the last record that is known to have been copied, on the target; None where none was yet."""
    if known.map is not None:
        return int(known.map.tail.downstream_end.position)
    if known.synced is not None:
        return known.synced.copies[-1].downstream + 1 if known.synced.copies else 0
    return None


def as_groups(goal: Mapping[TopicPartition, int], topics: Collection[str]) -> list[GroupFacts]:
    """A reader of each state topic that stands where the drain has to get: what it reads next is to be proven."""
    commits = {place: Commit(int(end)) for place, end in goal.items() if place.topic in topics}
    return [GroupFacts("state", commits, {}, ABSENT, ABSENT)] if commits else []
