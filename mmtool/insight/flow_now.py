"""``FlowClusters``: connections to a flow's two clusters. ``FlowNow``: what both have answered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mmtool.errors import MmtoolError, UnreachableError, UsageError, is_away
from mmtool.plan.groups.names import GroupNames
from mmtool.plan.groups.offsets import Direction
from mmtool.plan.records.identity import FlowIdentity
from mmtool.runtime.threads import Unawaited
from mmtool.translation.answers import Sides
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.kafka.ports import ClusterPort, FlowStatePort, LogPart, SyncedPort, TransformsPort
    from mmtool.plan.topics.facts import TopicFacts
    from mmtool.transforms.shipment import Shipment
    from mmtool.translation.partition_map import PartitionMap


F = TypeVar("F")
T = TypeVar("T")


class FlowFailures(NamedTuple):
    """The flows without an answer.

    Attributes:
        warnings: Of flows that have nothing to report, while others have.
        errors: Why the others did not answer.
    """

    warnings: tuple[str, ...]
    errors: tuple[MmtoolError, ...]


def ask_each(flows: Sequence[F], ask: Callable[[F], T]) -> tuple[tuple[T, ...], FlowFailures]:
    """Every flow's answer, asked at the same time; flows without an answer are in the `FlowFailures`."""

    def one(flow: F) -> T | MmtoolError:
        try:
            return ask(flow)
        except MmtoolError as error:
            return error

    with ThreadPoolExecutor(len(flows)) as pool:
        found = list(pool.map(one, flows))
    known = tuple(answer for answer in found if not isinstance(answer, MmtoolError))
    errors = [error for error in found if isinstance(error, MmtoolError)]
    # the way back of an active/passive pair matches no topic, and --topic may be of one flow only
    empty = [error for error in errors if known and error.code == UsageError.code]
    return known, FlowFailures(
        tuple(error.message for error in empty), tuple(error for error in errors if error not in empty)
    )


def worst(errors: Iterable[MmtoolError]) -> MmtoolError | None:
    """The error that ends the command: an unreachable cluster before others; None where there is no error."""
    return min(errors, key=lambda error: not isinstance(error, UnreachableError), default=None)


FIRST_ANSWER = timedelta(seconds=3)
"""For a cluster's first answer, of commands that also help where a cluster is lost."""


@dataclass(frozen=True)  # without slots, for what is read once
class FlowClusters:
    """A flow, with connections to its clusters and its stored state.

    Attributes:
        state: The flow's stored state on its target.
        back: The reverse flow's stored state on the source, where both keep names and so share topics.
        synced: MM2's offset syncs and checkpoints, for callers that translate offsets of a flow that MM2 runs.
        names: The names of its groups on the target.
    """

    settings: FlowSettings
    source: ClusterPort
    target: ClusterPort
    state: FlowStatePort
    back: FlowStatePort | None = None
    synced: SyncedPort | None = None
    names: GroupNames = field(default_factory=GroupNames)

    @cached_property
    def _shipment(self) -> Shipment:
        from mmtool.transforms.shipment import Shipment

        return Shipment(self.settings)

    def part_of(self, known: PartitionMap, offsets: range, most: int) -> LogPart | None:
        """Records of the source as they were mirrored, all by one version of a transform.

        None where the flow has another version now, by which they cannot be made again.
        """
        from mmtool.kafka.ports import LogPart

        about = known.about
        version, stop = known.version_at(offsets.start)
        if version:
            spec = self._shipment.of(about.source_topic)
            if spec is None or not spec.makes(version):
                return None
        offsets = range(offsets.start, min(offsets.stop, stop))
        return LogPart(about.upstream, about.topic_id, offsets, most, version)


def connect(
    flow: FlowSettings,
    timeout: timedelta,
    *,
    beside_mm2: bool = False,
    first: timedelta | None = None,
    back_of: FlowClusters | None = None,
) -> FlowClusters:
    """Connections to a flow's clusters, not used yet; no request takes longer than ``timeout``.

    Args:
        flow: The flow.
        timeout: The time limit of one request.
        beside_mm2: Read MM2's topics too, for what mmtool has not mirrored.
        first: The time limit of a cluster's first answer, where a lost cluster is an answer too; else ``timeout``.
        back_of: The flow whose groups fail back: they have the names of its source on both clusters.
    """
    from mmtool.kafka.admin.cluster_facts import KafkaCluster
    from mmtool.kafka.mirror_maker import Mm2Topics
    from mmtool.kafka.state.flow_state import KafkaFlowState, way_back_state
    from mmtool.kafka.state.journal import group_names

    seconds, probe_seconds = timeout.total_seconds(), None if first is None else first.total_seconds()
    names = group_names(flow, seconds)
    names_back = None if back_of is None else back_of.names
    return FlowClusters(
        flow,
        KafkaCluster(flow.source, seconds, probe_seconds, names_back, lambda: _transforms_of(flow)),
        KafkaCluster(flow.target, seconds, probe_seconds, names if back_of is None else None),
        KafkaFlowState(flow.target, external=flow.is_external),
        way_back_state(flow),
        Mm2Topics(flow) if beside_mm2 else None,
        names,
    )


def _transforms_of(flow: FlowSettings) -> TransformsPort:
    from mmtool.transforms.source import SourceTransforms

    return SourceTransforms.of(flow)


def identify(clusters: FlowClusters) -> FlowIdentity:
    """The flow's identity, by the ids that both clusters report, asked at the same time.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer, or denies the request.
        RefusedError: A cluster has another id than ``mmtool.cluster.id`` says.
    """
    source, target = clusters.source, clusters.target
    with Unawaited() as pool:
        source_id, target_id = pool.map(lambda cluster: cluster.probe(), (source, target))
    return FlowIdentity(source_id, target_id, source.alias, target.alias)


def identify_pair(clusters: FlowClusters) -> FlowIdentity:
    """As `identify`, of two different clusters.

    Raises:
        ConfigError: Both aliases are one cluster.
    """
    from mmtool.kafka.admin.cluster_facts import check_distinct

    found = identify(clusters)
    check_distinct(found)
    return found


class Outages(NamedTuple):
    """Why a flow's clusters do not answer; None where they do."""

    source: UnreachableError | None
    target: UnreachableError | None


def outages(clusters: FlowClusters) -> Outages:
    """Ask both clusters, at the same time, for their ids.

    Raises:
        UnreachableError: Neither answers.
        NotAuthorisedError, RefusedError: One denies the request, or has another id than ``mmtool.cluster.id`` says.
    """
    with Unawaited() as pool:
        source, target = pool.map(_outage, (clusters.source, clusters.target))
    if source is not None and target is not None:
        raise source
    if source is not None:
        flow = clusters.settings
        emergency = (
            f"`mmtool failover emergency -c FILE -s {flow.source.alias} -t {flow.target.alias} --all-groups`"
        )
        remedy = f"if {flow.source.alias} is lost, {emergency} shows how its groups can move to {flow.target.alias}"
        source.remedy = f"{source.remedy}; {remedy}" if source.remedy else remedy
    return Outages(source, target)


def _outage(cluster: ClusterPort) -> UnreachableError | None:
    try:
        cluster.probe()
    except UnreachableError as error:
        if is_away(error):
            return error
        raise
    return None


@dataclass(frozen=True, slots=True)
class FlowNow:
    """A flow whose clusters have answered.

    Attributes:
        topics: The source's topics that the flow mirrors, by name; those of ``--topic`` where it was given.
        narrowed: ``--topic`` was given: commits of other topics are not reported.
        target_topics: The target's topics, by name.
        mirrored_to: Directions in which commits are read from a cluster that flows other than the reverse flow mirror
            to as well.
        then: The next flow of a chain, whose source is this one's target.
    """

    clusters: FlowClusters
    identity: FlowIdentity
    topics: Mapping[str, TopicFacts]
    narrowed: bool = False
    target_topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    mirrored_to: frozenset[Direction] = frozenset()
    then: FlowNow | None = None

    @property
    def end(self) -> FlowNow:
        """The last flow of a chain; the flow itself where there is no chain."""
        return self if self.then is None else self.then.end

    @property
    def renames_groups(self) -> bool:
        """Whether a flow of the chain gives groups other names on its target."""
        return bool(self.clusters.names.pairs) or (self.then is not None and self.then.renames_groups)

    def read_at(self, direction: Direction) -> ClusterPort:
        """The cluster whose commits are translated: the source, in reverse the target."""
        return self.clusters.source if direction is Direction.FORWARD else self.end.clusters.target

    def written_at(self, direction: Direction) -> ClusterPort:
        """The cluster where the translated offsets would be committed."""
        return self.end.clusters.target if direction is Direction.FORWARD else self.clusters.source

    def sides(self, direction: Direction) -> Sides:
        """The aliases of the clusters where commits are read and written, for messages."""
        read, written = self.read_at(direction), self.written_at(direction)
        return Sides(read.alias, written.alias, direction is Direction.REVERSE)

    @property
    def partitions(self) -> list[TopicPartition]:
        """Every partition of the topics, on the source."""
        return [
            TopicPartition(name, n) for name, topic in self.topics.items() for n in range(topic.partitions)
        ]

    def remote(self, topic: str) -> str:
        """The name of a source topic's mirror on the target."""
        return self.clusters.settings.remote_topic(topic)

    def narrowed_to(self, topics: Collection[str]) -> FlowNow:
        """The same flow, narrowed to the given topics."""
        return replace(
            self, topics={name: topic for name, topic in self.topics.items() if name in topics}, narrowed=True
        )

    def holds_mirror(self, known: PartitionMap | None) -> bool:
        """Whether the target's topic is the one that was mirrored to, and not another one under its name (KIP-516)."""
        if known is None:
            return True
        there = self.target_topics.get(known.about.target_topic)
        return there is None or there.topic_id == known.about.target_topic_id
