"""Read the state topics of Kafka Streams applications among a flow's groups, from the cluster where they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.insight.partitions import partition_facts
from mmtool.plan.flow.moves import by_other_system
from mmtool.plan.groups.applications import AppState, StateLoss, StateTopic, internal_topics, is_application
from mmtool.plan.groups.facts import ABSENT, Commit, GroupFacts
from mmtool.plan.groups.offsets import Direction
from mmtool.plan.groups.outside_offsets import is_of_streams
from mmtool.plan.words import AGAIN
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mmtool.config import FlowSettings
    from mmtool.insight.flow_now import FlowNow
    from mmtool.insight.target_only import TargetNow
    from mmtool.plan.groups.offsets import PartitionFacts
    from mmtool.translation.types import TopicPartition

_MIRROR_BACK = (
    "let the reverse flow mirror {group}-.*-(changelog|repartition|topic) and the application's input topics with"
    " IdentityReplicationPolicy: check `enabled` and `topics` of the reverse flow, and keep `mmtool replicate`"
    " running for it"
)


def app_state(
    flow: FlowNow, groups: Collection[str], *, without: bool, back: FlowNow | None = None
) -> AppState:
    """The Kafka Streams applications among ``groups``, with the state topics that have to be mirrored for them.

    Args:
        flow: The flow.
        groups: The consumer groups to check: on the source, or with ``back`` on the target.
        without: As in `AppState`.
        back: The flow that mirrors in reverse, for groups that move back; it has no topic where none does.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer, or denies a request.
        RefusedError: Stored state cannot be read.
    """
    mirroring = flow if back is None else back
    cluster = flow.read_at(Direction.FORWARD if back is None else Direction.REVERSE)
    topics = cluster.topics()
    if not internal_topics(groups, topics, ()):
        return AppState((), without)
    listed = cluster.groups.listing()
    named = internal_topics(groups, topics, {*listed.states, *listed.others})
    standing, commits = cluster.groups.describe_each(named), cluster.groups.commits_each(named)
    unread = {*standing.failed, *commits.failed}
    found = {
        group: names
        for group, names in named.items()
        if group in unread or is_application(GroupFacts(group, commits[group], here=standing[group]), names)
    }
    kept = {name for names in found.values() for name in names}
    is_mirrored = not mirroring.topics.keys().isdisjoint(kept)
    copies = partition_facts(mirroring.narrowed_to(kept), Direction.FORWARD) if is_mirrored else {}
    return AppState(
        tuple(
            StateTopic(group, name, topics[name].partitions, _why_lost(name, mirroring, copies.values()))
            for group, names in sorted(found.items())
            for name in names
        ),
        without,
    )


def app_state_on_target(now: TargetNow, *, without: bool) -> AppState:
    """As `app_state`, from the target alone; state topics that were never mirrored are missing.

    A group that committed as Kafka Streams does, and has no internal topic on the target, may have state on the source.
    """
    copies = _copies(now)
    named = internal_topics([group.group for group in now.facts.groups], copies, now.read_by)
    found = {
        group.group: named[group.group]
        for group in now.facts.groups
        if group.group in named and is_application(group, named[group.group])
    }
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
    source, target = now.side.settings.source.alias, now.side.target.alias
    bare = [
        StateTopic(
            group.group,
            f"{group.group}-*-changelog",
            0,
            _if_source_answers(StateLoss(f"{target} has no such topic"), source),
        )
        for group in now.facts.groups
        if group.group not in found and any(is_of_streams(at.metadata) for at in group.commits.values())
    ]
    return AppState((*topics, *bare), without)


def _copies(now: TargetNow) -> dict[str, str]:
    """The mirror of each source topic, as far as the target knows: by its recorded name, else by the naming policy."""
    settings = now.side.settings
    found: dict[str, str] = {}
    for name in now.topics:
        upstream = settings.source_topic(name)
        if upstream is not None and settings.remote_topic(upstream) == name:
            found[upstream] = name
    return found | {place.topic: known.target.topic for place, known in now.facts.partitions.items()}


def _why_lost_on_target(name: str, copy: str, now: TargetNow) -> StateLoss | None:
    settings = now.side.settings
    mirrored = [known for place, known in now.facts.partitions.items() if place.topic == name]
    if copy != name:
        loss: StateLoss | None = StateLoss(f"mirrored as {copy}")
    elif mirrored:
        loss = _first_loss(mirrored, settings)
    else:
        unmirrored = settings.unmirrored(name)
        loss = StateLoss(unmirrored) if unmirrored else None
    return None if loss is None else _if_source_answers(loss, settings.source.alias)


def _if_source_answers(loss: StateLoss, source: str) -> StateLoss:
    """The loss with a remedy that says that it needs the source: nothing can be mirrored from a lost one."""
    return loss if loss.repeats else loss._replace(source=source)


def _why_lost(name: str, flow: FlowNow, copies: Iterable[PartitionFacts]) -> StateLoss | None:
    """Why a flow does not mirror a topic under the same name, or has lost its copy; None where neither."""
    settings = flow.clusters.settings
    if not flow.topics:
        return StateLoss("no flow mirrors it back", _MIRROR_BACK)
    if unmirrored := settings.unmirrored(name):
        return StateLoss(unmirrored)
    if flow.remote(name) != name:
        return StateLoss(f"mirrored as {flow.remote(name)}")
    if name not in flow.topics:
        return StateLoss.again("created after mmtool listed the topics")
    return _first_loss([known for known in copies if known.source.topic == name], settings)


def _first_loss(copies: Iterable[PartitionFacts], flow: FlowSettings) -> StateLoss | None:
    """Why the target's copy of a topic is incomplete, for its first such partition; None where none is."""
    return next((loss for known in copies if (loss := copy_loss(known, flow))), None)


def copy_loss(known: PartitionFacts, flow: FlowSettings) -> StateLoss | None:
    """Why the target's copy of a partition is incomplete; None where it is complete.

    A mirror continues after what it has copied: records that the target has lost are not mirrored again.
    """
    if known.problem:
        return unread(known, known.problem)
    copied_to = _copied_to(known)
    if copied_to is None:
        return None
    cluster = flow.target.alias
    copy = f"the copy of partition {known.source.partition} on {cluster}"
    if known.target_log is UNKNOWN:
        return mirror_again(known, flow, f"{copy} was deleted or recreated")
    end = known.target_log.log_end
    if copied_to <= end:
        return None
    why = f"{copy} ends at offset {end:,}, but had been mirrored up to offset {copied_to:,}: {cluster} has lost records"
    return mirror_again(known, flow, why)


def unread(known: PartitionFacts, why: str) -> StateLoss:
    """The loss of a topic that the flow's owner refuses to mirror, or whose logs cannot be read."""
    topic = known.source.topic
    if known.map is None and known.synced is None:
        return StateLoss(
            why, f"remove this cause (`mmtool status -c FILE --topic {topic}` shows the topic's state)"
        )
    leaders = f"check that every partition of {topic} has a leader on both clusters"
    return StateLoss.again(why, f"{leaders}, and mmtool's rights on the topic; then {AGAIN}")


def mirror_again(known: PartitionFacts, flow: FlowSettings, why: str) -> StateLoss:
    """The loss of a topic that has to be mirrored again; where MM2 made the copy, mmtool has no state to delete.

    The copy is deleted before: the flow would append to it, and the application would read each record twice. Where
    the reverse flow mirrors the topic as well, the copy may hold records that only the target has, and that are not
    mirrored again: then the application must never have run there.
    """
    again = f"mirror {known.source.topic} again: {steps_to_mirror_again(known, flow)}"
    if flow.keeps_names and flow.way_back is not None:
        return StateLoss(why, again, condition=f"the application has never run on {flow.target.alias}")
    return StateLoss(why, again)


def steps_to_mirror_again(known: PartitionFacts, flow: FlowSettings, *, deletes: bool = True) -> str:
    """The steps that mirror a topic from its first record again.

    Args:
        known: A partition of the topic.
        flow: The flow that mirrors it.
        deletes: The mirror is deleted first: else the flow appends to it.
    """
    topic, cluster = known.source.topic, flow.target.alias
    if flow.is_external:
        return by_other_system(topic, cluster)
    delete = f"delete {known.target.topic} on {cluster} if it exists, " if deletes else ""
    starts = "" if flow.start == "earliest" else f"set {flow.name}.mmtool.start = earliest, "
    forget = f"run `mmtool flow forget -c FILE -s {flow.source.alias} -t {cluster} --topic {topic} --execute`"
    if known.map is None:
        return f"stop MirrorMaker 2, {delete}delete MirrorMaker 2's stored offsets of {topic}, and start MirrorMaker 2"
    return f"stop `mmtool replicate`, {delete}{starts}{forget}, and start `mmtool replicate`"


def _copied_to(known: PartitionFacts) -> int | None:
    """The target offset after the last record that was copied; None where nothing is known about copies."""
    if known.map is not None:
        return int(known.map.tail.downstream_end.position)
    if known.synced is not None:
        return known.synced.copies[-1].downstream + 1 if known.synced.copies else 0
    return None


def as_groups(goal: Mapping[TopicPartition, int], topics: Collection[str]) -> list[GroupFacts]:
    """A pretended group at the end offsets ``goal`` of the state topics: its exact translation proves the copy."""
    commits = {place: Commit(int(end)) for place, end in goal.items() if place.topic in topics}
    return [GroupFacts("state", commits, {}, ABSENT, ABSENT)] if commits else []
