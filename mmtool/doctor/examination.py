"""What checks are made of: a cluster, or a flow with the answers of both its clusters.

Answers are cached: each request is sent once, and only when a check needs it. Every request is a batch over all
topics, partitions or groups, so that a flow with thousands of them needs few requests. Metadata requests never create
a topic, and nothing is written or committed.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from mmtool.errors import NotAuthorisedError
from mmtool.insight.flow_now import FlowNow, identify
from mmtool.insight.status import flow_facts
from mmtool.plan.flow.status import standings
from mmtool.plan.groups.facts import OWN_GROUP_PREFIX
from mmtool.plan.records.identity import JOURNAL_TOPIC, PRODUCERS_TOPIC
from mmtool.plan.topics.configs import ConfigOrigin
from mmtool.rights.needs import Resource
from mmtool.rights.scope import resources
from mmtool.runtime.threads import Once
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mmtool.config import ClusterSettings, FlowSettings, Settings
    from mmtool.insight.flow_now import FlowClusters
    from mmtool.kafka.admin.cluster_details import KafkaClusterDetails
    from mmtool.kafka.ports import (
        Answers,
        Bounds,
        ClusterPort,
        FlowWatchPort,
        GroupListing,
        Mm2State,
        StoredCheckpoint,
        StoredCheckpoints,
    )
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.plan.flow.status import PartitionStatus
    from mmtool.plan.groups.facts import Commit
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.topics.configs import ConfigEntry
    from mmtool.plan.topics.facts import TopicFacts
    from mmtool.rights.needs import Side

Configs = dict[str, dict[str, "ConfigEntry"]]
Commits = dict[TopicPartition, "Commit"]


@dataclass(frozen=True)
class ExaminedCluster:
    """A cluster to check.

    Attributes:
        settings: As the properties file has it.
        port: The connection to it.
        details: Its brokers' answers about themselves.
        settings_of_file: The whole file, for checks of its content.
    """

    settings: ClusterSettings
    port: ClusterPort
    details: KafkaClusterDetails
    settings_of_file: Settings

    @property
    def alias(self) -> str:
        return self.settings.alias


class Mm2Traces(NamedTuple):
    """MirrorMaker 2's stored state of a flow, on both clusters.

    Attributes:
        synced: Its offset syncs and checkpoints, joined by the partition on the source.
        held: The last checkpoint of each group and partition.
        positions: Offset of the last record that it has copied, as it has stored it (up to a minute old).
        hidden: Why Connect's topic of these may not be read; None where it was, or does not exist.
    """

    synced: Mm2State
    held: StoredCheckpoints
    positions: Mapping[TopicPartition, int]
    hidden: NotAuthorisedError | None = None

    @property
    def topics(self) -> frozenset[str]:
        """Source topics of which MirrorMaker 2 has copied records."""
        return frozenset(place.topic for place in {*self.synced.maps, *self.positions})

    @property
    def is_empty(self) -> bool:
        """Whether MirrorMaker 2 has stored nothing of the flow."""
        return not self.topics and not self._checkpoints

    @property
    def last_ms(self) -> int:
        """When MirrorMaker 2 last wrote an offset sync or a checkpoint, in ms since 1970; 0 where it wrote none."""
        pairs = [*self.synced.newest.values(), *(told.pair for told in self._checkpoints)]
        return max((pair.timestamp_ms for pair in pairs), default=0)

    @property
    def _checkpoints(self) -> list[StoredCheckpoint]:
        told = (told for of in self.held.checkpoints.values() for told in of.values())
        return [one for one in told if not one.is_ours]


class ExaminedFlow:
    """A flow to check. Every method raises `MmtoolError` when a cluster does not answer, or refuses.

    Attributes:
        settings: As the properties file has it.
        clusters: The connections to both clusters.
        watch: Its stored state.
        source, target: The brokers' answers about themselves, of each side.
        seconds: How long one request may take.
        settings_of_file: The whole file, for checks of its content.
    """

    def __init__(
        self,
        clusters: FlowClusters,
        watch: FlowWatchPort,
        source: KafkaClusterDetails,
        target: KafkaClusterDetails,
        seconds: float,
        settings_of_file: Settings,
    ) -> None:
        """Keep the connections; each request is sent when its answer is first needed."""
        self.settings = settings = clusters.settings
        self.clusters, self.watch = clusters, watch
        self.source, self.target = source, target
        self.seconds = seconds
        self.settings_of_file = settings_of_file
        self.source_topics = Once(lambda: dict(clusters.source.topics()))
        self.target_topics = Once(lambda: dict(clusters.target.topics()))
        self.mirrored = Once(self._mirrored)
        self.identity = Once(lambda: identify(clusters))
        self.control = Once(lambda: clusters.state.control(self.identity()))
        self.other_controls = Once(self._other_controls)
        self.now = Once(self._now)
        self.source_bounds = Once(lambda: self._bounds(clusters.source, self.mirrored(), committed=False))
        self.stable_bounds = Once(lambda: self._bounds(clusters.source, self.mirrored(), committed=True))
        self.source_configs = Once(lambda: _configs(settings.source, self.mirrored()))
        self.target_configs = Once(lambda: _configs(settings.target, self.mirrors()))
        self.blocks = Once(lambda: dict(watch.newest_blocks(self.identity())))
        self.standings = Once(self._standings)
        self.groups: Once[GroupListing] = Once(clusters.source.groups.listing)
        self.target_groups: Once[GroupListing] = Once(clusters.target.groups.listing)
        self.commits = Once(self._commits)
        self.traces = Once(self._traces)

    @property
    def name(self) -> str:
        return self.settings.name

    # --- topics -------------------------------------------------------------------------------------------

    def _mirrored(self) -> dict[str, TopicFacts]:
        """Source topics that the flow's filters accept, by name."""
        means = self.settings.mirrors_topic
        return {name: topic for name, topic in self.source_topics().items() if means(name)}

    def mirror_names(self) -> dict[str, str]:
        """The name of each mirrored topic's mirror, by the source topic's name, in alphabetical order."""
        return {name: self.settings.remote_topic(name) for name in sorted(self.mirrored())}

    def mirrors(self) -> dict[str, TopicFacts]:
        """Target topics that hold the flow's mirrors, by name; mirrors that do not exist yet are left out."""
        there = self.target_topics()
        return {name: there[name] for name in self.mirror_names().values() if name in there}

    def hidden_topics(self) -> dict[str, list[str]]:
        """The topics whose configuration a cluster does not show, by the cluster's alias."""
        return {
            self.settings.source.alias: sorted(self.mirrored().keys() - self.source_configs().keys()),
            self.settings.target.alias: sorted(self.mirrors().keys() - self.target_configs().keys()),
        }

    @staticmethod
    def _bounds(
        cluster: ClusterPort, topics: Mapping[str, TopicFacts], *, committed: bool
    ) -> Answers[TopicPartition, Bounds]:
        places = [TopicPartition(name, n) for name, topic in topics.items() for n in range(topic.partitions)]
        return cluster.bounds_each(places, committed=committed)

    def target_bounds(self, topics: Mapping[str, TopicFacts]) -> Answers[TopicPartition, Bounds]:
        """The log start and end of every partition of the given target topics."""
        return self._bounds(self.clusters.target, topics, committed=False)

    def held_on_target(self, names: Iterable[str]) -> dict[str, int]:
        """The number of offsets that each of these target topics holds; empty and missing topics are left out."""
        there = self.target_topics()
        held: Counter[str] = Counter()
        for place, log in self.target_bounds({name: there[name] for name in names if name in there}).items():
            held[place.topic] += log.log_end - log.log_start
        return {name: offsets for name, offsets in held.items() if offsets}

    # --- what mmtool has stored ---------------------------------------------------------------------------

    def _now(self) -> FlowNow:
        there = self.target_topics()
        return FlowNow(self.clusters, self.identity(), self.mirrored(), target_topics=there)

    def _other_controls(self) -> dict[str, ControlView]:
        """Control topics of mmtool's other flows to this target, by their source's alias."""
        found = self.identity().others(self.target_topics())
        return {alias: self.clusters.state.control(other) for alias, other in found.items()}

    def _standings(self) -> list[PartitionStatus]:
        """The status of every partition; empty where mmtool never ran the flow."""
        control = self.control()
        if control.flow is None:
            return []
        ends = {place: log.log_end for place, log in self.source_bounds().items()}
        facts = flow_facts(self.now(), ends, self.watch.members(self.identity()), control)
        return standings(replace(facts, blocks=self.blocks()))

    # --- groups -------------------------------------------------------------------------------------------

    def accepts_group(self, group: str) -> bool:
        """Whether the flow's ``groups`` and ``groups.exclude`` accept a group; mmtool's own are never accepted."""
        return not group.startswith(OWN_GROUP_PREFIX) and self.settings.groups.accepts(group)

    def accepted_groups(self) -> list[str]:
        """Consumer groups of the source that the flow translates, in alphabetical order."""
        return sorted(filter(self.accepts_group, self.groups().states))

    def _commits(self) -> Answers[str, Commits]:
        """The commits of every consumer group of the source, whether the filters accept it or not; without mmtool's."""
        names = [name for name in self.groups().states if not name.startswith(OWN_GROUP_PREFIX)]
        return self.clusters.source.groups.commits_each(names)

    # --- MirrorMaker 2 ------------------------------------------------------------------------------------

    def _traces(self) -> Mm2Traces:
        from mmtool.kafka.mirror_maker import Mm2Topics, latest_positions

        hidden: NotAuthorisedError | None = None
        try:  # before the syncs, which MM2 sends after it has stored these
            positions = latest_positions(self.settings)
        except NotAuthorisedError as error:
            positions, hidden = {}, error
        synced = Mm2Topics(self.settings)
        with ThreadPoolExecutor(2) as pool:
            maps, held = pool.submit(synced.synced), pool.submit(synced.checkpoints)
            return Mm2Traces(maps.result(), held.result(), positions, hidden)

    def mm2_runs(self) -> bool:
        """Whether MirrorMaker 2 runs this flow, or was the last to run it.

        False where its topics may not be read: brokers deny missing topics as well, and the ``mm2_*`` checks report
        that.
        """
        control = self.control()
        try:
            traces = self.traces()
        except NotAuthorisedError:
            return False
        heard_ms = max((position.observed_ms for position in control.positions.values()), default=0)
        return not traces.is_empty and (control.flow is None or traces.last_ms > heard_ms)


def _configs(cluster: ClusterSettings, topics: Collection[str]) -> Configs:
    """Each topic's configuration; topics whose configuration is not shown are left out."""
    from mmtool.kafka.admin.topics import TopicAdmin

    return TopicAdmin(cluster).configs(topics)


def reset_by_sync(settings: FlowSettings, entries: Mapping[str, ConfigEntry]) -> frozenset[str]:
    """Properties whose overrides the config sync removes from a mirror, since the source topic has none of its own.

    Args:
        settings: The flow's settings.
        entries: The source topic's properties.
    """
    from mmtool.replication.topics.topic_needs import config_rules

    rules = config_rules(settings)
    if not settings.sync_topic_configs or rules.defaults_from == "source":
        return frozenset()
    return frozenset(
        name
        for name, entry in entries.items()
        if entry.origin is ConfigOrigin.DEFAULT and entry.carried and rules.accepts(name)
    )


def by_config_sync(mirror: str) -> str:
    """The clause that says why a property has to be set on the source topic, and not on its mirror."""
    return (
        f"config sync copies only values that are set on the source topic, and removes others from {mirror}"
    )


def own_topics(identity: FlowIdentity) -> tuple[str, ...]:
    """The names of mmtool's internal topics on the target."""
    return (identity.control_topic, identity.runs_topic, PRODUCERS_TOPIC, JOURNAL_TOPIC)


def mm2_topics(flow: ExaminedFlow, side: Side) -> tuple[str, ...]:
    """MM2's internal topics that the flow writes on one side, as the file switches them on."""
    kinds = (Resource.OFFSET_SYNCS,) if side == "source" else (Resource.OFFSET_SYNCS, Resource.CHECKPOINTS)
    return tuple(name for kind in kinds for name, _ in resources(flow.settings, side, kind))
