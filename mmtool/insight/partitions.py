"""Facts about each partition of a flow, from both clusters, the stored state and MM2's topics.

`standstill` says where waiting for a mirror does not help.

The order of the requests matters; see `mmtool.insight.translation`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from mmtool.errors import RefusedError
from mmtool.insight.external_mirror import verified_by
from mmtool.kafka.ports import Answers
from mmtool.plan.flow.positions import STILL
from mmtool.plan.groups.offsets import Direction, PartitionFacts
from mmtool.plan.records.documents import State
from mmtool.plan.words import counted, joined
from mmtool.translation.answers import Reason, SourceLog, TargetLog
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from mmtool.insight.flow_now import FlowNow
    from mmtool.kafka.ports import Bounds, ClusterPort
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.plan.groups.offsets import GroupPlan, OffsetVerdict
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.sync_map import SyncMap


def partition_facts(
    flow: FlowNow,
    direction: Direction,
    warnings: list[str] | None = None,
    *,
    topics: Collection[str] | None = None,
    complete: bool = False,
) -> dict[TopicPartition, PartitionFacts]:
    """Facts about every partition of the flow's topics, by partition where commits are read; read commits first.

    Of a chain, only the partitions that all of its flows mirror.

    Args:
        flow: The flow.
        direction: The direction of the translation.
        warnings: Takes sentences about unreadable records.
        topics: Topics whose logs are read, by their names where commits are read; None for all. Both logs of the others
            are unknown.
        complete: A partition whose logs cannot be read raises; else the error is its `PartitionFacts.problem`.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer; with ``complete``, or does not show a part.
        RefusedError: Stored state that cannot be read.
    """
    topics = None if flow.then is not None else topics
    facts = _facts(flow, direction, topics, complete=complete, warnings=[] if warnings is None else warnings)
    if flow.then is not None:
        behind = partition_facts(flow.then, direction, warnings, complete=complete)
        further = {fact.source: fact for fact in behind.values()}
        facts = [replace(fact, then=further[fact.target]) for fact in facts if fact.target in further]
    return {fact.place(direction): fact for fact in facts}


def _facts(
    flow: FlowNow,
    direction: Direction,
    topics: Collection[str] | None,
    *,
    complete: bool,
    warnings: list[str],
) -> list[PartitionFacts]:
    def means(source: TopicPartition, target: TopicPartition | None = None) -> bool:
        """Whether a partition's logs are to be read; in reverse, while ``target`` is unknown, any may be."""
        read_at = source if direction is Direction.FORWARD else target
        return topics is None or read_at is None or read_at.topic in topics

    sources = flow.partitions
    # in reverse with topics, which source logs are to be read is known once the targets are
    at_once = complete and (direction is Direction.FORWARD or topics is None)
    source_logs = _bounds(flow.clusters.source, list(filter(means, sources)), complete=at_once)
    back = _maps_back(flow)
    maps = flow.clusters.state.maps(flow.identity)
    # by topic id: runs of a deleted topic of the same name do not count (KIP-516)
    known = {source: maps.get((flow.topics[source.topic].topic_id, source.partition)) for source in sources}
    synced = _synced(flow, known, warnings)
    targets = {
        # its recorded name, else by the naming policy
        source: TopicPartition(
            flow.remote(source.topic) if (part := known[source]) is None else part.about.target_topic,
            source.partition,
        )
        for source in sources
    }
    wanted = [targets[source] for source in sources if means(source, targets[source])]
    target_logs = _bounds(flow.clusters.target, wanted, complete=complete)
    failed = [error for at, error in source_logs.failed.items() if means(at, targets[at])]
    if complete and failed:
        raise failed[0]
    unknown = [source for source in sources if known[source] is None and source not in synced]
    refused: dict[str, str] = {}
    if any(map(means, unknown)):
        with suppress(RefusedError):  # an answer that needs no control topic is given without one
            refused = refused_topics(flow, flow.clusters.state.control(flow.identity))
    problems = {source: refused[source.topic] for source in unknown if source.topic in refused}
    problems |= _problems(source_logs, target_logs, targets)
    facts = [
        PartitionFacts(
            source,
            targets[source],
            known[source],
            _source_log(source_logs.get(source)),
            target_log(target_logs.get(targets[source]) if flow.holds_mirror(known[source]) else None),
            back.get(source),
            direction in flow.mirrored_to and not flow.clusters.settings.exchanges_all,
            synced.get(source),
            problem=problems.get(source, ""),
        )
        for source in sources
    ]
    return _with_verified(flow, facts) if flow.clusters.settings.is_external else facts


def _with_verified(flow: FlowNow, found: Iterable[PartitionFacts]) -> list[PartitionFacts]:
    """The facts of mirrors that mmtool does not keep, with what an earlier verify has compared."""
    control, accepts = flow.clusters.state.control(flow.identity), flow.clusters.settings.accepts_unverified
    return [
        replace(one, verified=verified_by(control, one, flow.target_topics), accepts_unverified=accepts)
        for one in found
    ]


def _bounds(
    cluster: ClusterPort, places: Collection[TopicPartition], *, complete: bool
) -> Answers[TopicPartition, Bounds]:
    return Answers(cluster.bounds(places)) if complete else cluster.bounds_each(places)


def refused_topics(flow: FlowNow, control: ControlView) -> dict[str, str]:
    """Source topics that the flow's owner refuses to mirror, each with the reason as a sentence."""
    name, refused = flow.clusters.settings.name, control.refused_beside(flow.topics)
    return {topic: f"{topic} of {name} is halted: {why}" for topic, why in sorted(refused.items())}


def _problems(
    source_logs: Answers[TopicPartition, Bounds],
    target_logs: Answers[TopicPartition, Bounds],
    targets: Mapping[TopicPartition, TopicPartition],
) -> dict[TopicPartition, str]:
    """Why logs could not be read, by source partition."""
    here = {source: error.message for source, error in source_logs.failed.items()}
    there = {
        source: target_logs.failed[target].message
        for source, target in targets.items()
        if target in target_logs.failed
    }
    return {source: joined(here.get(source, ""), there.get(source, "")) for source in {**here, **there}}


def _synced(
    flow: FlowNow, known: Mapping[TopicPartition, PartitionMap | None], warnings: list[str]
) -> Mapping[TopicPartition, SyncMap]:
    """MM2's offset syncs by source partition; empty where offset runs cover every partition from offset 0."""
    port = flow.clusters.synced
    if port is None or all(part is not None and part.mirror_start.upstream == 0 for part in known.values()):
        return {}
    found = port.synced()
    warnings += passed_over(found.unreadable)
    return found.maps


def passed_over(unreadable: Mapping[str, int]) -> list[str]:
    """A sentence for each of MM2's topics with unreadable records; ``unreadable`` counts them by topic."""
    return [
        f"{topic}: skipped {counted(number, 'record')} that MirrorMaker 2 cannot have written; mmtool uses the others"
        for topic, number in sorted(unreadable.items())
    ]


def _maps_back(flow: FlowNow) -> dict[TopicPartition, PartitionMap]:
    """Offset runs of the reverse flow into this flow's source topics, by source partition."""
    if flow.clusters.back is None:
        return {}
    maps = flow.clusters.back.maps(flow.identity.way_back).values()
    return {
        m.about.downstream: m
        for m in maps
        if m.about.target_topic in flow.topics
        and m.about.target_topic_id == flow.topics[m.about.target_topic].topic_id
        and m.about.source_topic in flow.target_topics
        and m.about.topic_id == flow.target_topics[m.about.source_topic].topic_id
    }


def _source_log(bounds: Bounds | None) -> SourceLog | Unknown:
    if bounds is None:
        return UNKNOWN
    return SourceLog(UpstreamOffset(bounds.log_start), UpstreamOffset(bounds.log_end))


def target_log(bounds: Bounds | None) -> TargetLog | Unknown:
    """A target partition's log bounds for translation; UNKNOWN where the partition does not exist."""
    if bounds is None:
        return UNKNOWN
    return TargetLog(DownstreamOffset(bounds.log_start), DownstreamOffset(bounds.log_end))


_NOT_THERE_YET = frozenset({Reason.NEVER_RAN, Reason.BEYOND_MIRROR})


def standstill(flow: FlowNow, plans: Iterable[GroupPlan]) -> list[str]:
    """A sentence for each partition that is halted, and each refused one that is held or refused by the owner.

    Waiting for their mirror does not help, and a drain of records that they lack is refused.

    Args:
        flow: The flow; of a chain its first one.
        plans: The translations, with their refusals.

    Raises:
        UnreachableError, NotAuthorisedError: The target stopped answering, or denies a part.
    """
    verdicts = [verdict for plan in plans for verdict in plan.verdicts]

    def places(of: Iterable[OffsetVerdict]) -> set[TopicPartition]:
        return {place for verdict in of for place in (verdict.source, verdict.target) if place}

    of_all = places(verdicts)
    refused = places(verdict for verdict in verdicts if verdict.refusal in _NOT_THERE_YET)
    return list(_said(flow, of_all, refused)) if of_all else []


def _said(
    flow: FlowNow, of_all: Collection[TopicPartition], refused: Collection[TopicPartition]
) -> Iterator[str]:
    """Sentences about partitions in every flow of a chain; they are named as on the first and the last cluster."""
    with suppress(RefusedError):  # an answer that needs no control topic is given without one
        control, name = flow.clusters.state.control(flow.identity), flow.clusters.settings.name
        topics = {place.topic for place in refused}
        yield from (said for topic, said in refused_topics(flow, control).items() if topic in topics)
        for _, at in sorted(control.positions.items(), key=lambda item: (item[1].topic, item[1].partition)):
            ends = {TopicPartition(at.topic, at.partition), TopicPartition(at.target_topic, at.partition)}
            if at.state in STILL and not ends.isdisjoint(of_all if at.state == State.HALTED else refused):
                yield f"{at.topic}-{at.partition} of {name} is {at.state}: {at.reason}"
    if flow.then is not None:
        yield from _said(flow.then, of_all, refused)
