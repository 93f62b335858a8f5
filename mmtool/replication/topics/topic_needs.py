"""The topics that flows need on each cluster, as mmtool creates them, compared with those that exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mmtool.config import ClusterSettings, FlowSettings
from mmtool.insight.flow_now import FlowClusters, identify
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.logs.canary import canary_topic
from mmtool.kafka.logs.dead_letters import dead_letter_topic
from mmtool.kafka.mirror_maker import syncs_place
from mmtool.kafka.state.own_log import internal_topics
from mmtool.plan.topics.configs import (
    TIME_BOUNDS,
    ConfigEntry,
    ConfigOrigin,
    ConfigRules,
    SetConfig,
    plan_topic_configs,
)
from mmtool.plan.topics.facts import CLEANUP_POLICY, CreateTopic, TopicFacts, configs_hidden, plan_topics
from mmtool.plan.topics.requirements import NeededTopic
from mmtool.replication.ownership.internal_topics import checkpoints_topic, heartbeats_topic, syncs_topic
from mmtool.translation.types import TopicId

Entries = dict[str, Mapping[str, ConfigEntry]]
"""Configs of topics, by the topic's name."""


def config_rules(flow: FlowSettings) -> ConfigRules:
    """Which topic configs a flow carries over: not those that mmtool sets by itself."""
    own = TIME_BOUNDS if flow.on_timestamp_refused == "raise-limit" else frozenset[str]()
    accepts = flow.config_properties_exclude.accepts
    return ConfigRules(lambda name: name not in own and accepts(name), flow.use_defaults_from)


def filled(flow: FlowSettings, step: CreateTopic, entries: Mapping[str, ConfigEntry]) -> CreateTopic:
    """The mirror to create, with those configs of its source topic that the flow carries over."""
    rules = config_rules(flow)
    steps = plan_topic_configs(entries, {}, rules)
    policy = entries[CLEANUP_POLICY].value if CLEANUP_POLICY in entries else None
    return replace(
        step,
        configs={one.name: one.value for one in steps if isinstance(one, SetConfig)},
        policy=policy if rules.accepts(CLEANUP_POLICY) else None,
    )


def differing_mirrors(
    flow: FlowSettings, source: TopicAdmin, target: TopicAdmin, topics: Sequence[TopicFacts]
) -> dict[str, NeededTopic]:
    """Topics that are to be mirrored for the first time and whose mirrors are not ready, by name.

    A mirror that deletes what its source topic keeps would lose records before its configs are synced. A source topic
    that does not show its configs is left out.
    """
    configs = source.configs([topic.name for topic in topics])
    found = target.compare(topic for topic in _mirrors(flow, topics, configs) if topic.source_topic)
    return {topic.source_topic: topic for topic in found if topic.source_topic and topic.reason}


def _mirrors(
    flow: FlowSettings, topics: Iterable[TopicFacts], configs: Mapping[str, Mapping[str, ConfigEntry]]
) -> Iterator[CreateTopic]:
    """The mirrors of topics whose configs are shown, with dead-letter topics where the flow writes such letters."""
    shown = [topic for topic in topics if topic.name in configs and not flow.is_external]
    for step in plan_topics(shown, {}, flow.remote_topic, flow.replication_factor):
        if isinstance(step, CreateTopic):
            yield filled(flow, step, configs[step.source_topic])
            if flow.on_oversize == "dead-letter":
                yield dead_letter_topic(step.name, step.partitions, flow.replication_factor)


@dataclass(slots=True)
class TopicNeeds:
    """The topics that some flows need.

    Attributes:
        flows: The flows.
        beaten: Pairs of clusters that get heartbeats without a flow.
        canary: Also the canary topics of `mmtool smoke`.
        warnings: Sentences about topics that are left out.
    """

    flows: Sequence[FlowClusters]
    beaten: Sequence[FlowSettings] = ()
    canary: bool = False
    warnings: list[str] = field(default_factory=list)

    def topics(self) -> list[NeededTopic]:
        """The topics, cluster by cluster: internal topics, then mirrors by the source topic's name.

        Mirrors include those of topics that do not exist yet, such as heartbeats and mirrors of mirrors.

        Raises:
            UnreachableError, NotAuthorisedError: a cluster does not answer, or denies a right.
        """
        wanted: dict[str, tuple[ClusterSettings, dict[str, CreateTopic]]] = {}

        def want(cluster: ClusterSettings, topic: CreateTopic) -> None:
            wanted.setdefault(cluster.alias, (cluster, {}))[1].setdefault(topic.name, topic)

        for flow in self.flows:
            for cluster, topic in self._internal(flow):
                want(cluster, topic)
        listed = [self._listed(flow) for flow in self.flows]
        for _ in self.flows:  # a mirror may itself be mirrored by each of the others
            for flow, (topics, configs) in zip(self.flows, listed, strict=True):
                settings = flow.settings
                _, planned = wanted.get(settings.source.alias, (None, {}))
                for name, topic in planned.items():
                    if name not in topics and settings.mirrors_topic(name):
                        topics[name] = TopicFacts(name, TopicId(""), topic.partitions)
                        configs[name] = _entries(topic.configs)
                for topic in _mirrors(settings, topics.values(), configs):
                    want(settings.target, topic)
        found = [
            one for cluster, topics in wanted.values() for one in TopicAdmin(cluster).compare(topics.values())
        ]
        return sorted(found, key=lambda topic: (topic.cluster, topic.source_topic or "", topic.topic))

    def _internal(self, clusters: FlowClusters) -> Iterator[tuple[ClusterSettings, CreateTopic]]:
        flow = clusters.settings
        for topic in internal_topics(identify(clusters), flow.offset_syncs_replication_factor):
            yield flow.target, topic
        if flow.emit_offset_syncs:
            yield syncs_place(flow)[0], syncs_topic(flow)
        if flow.emit_checkpoints:
            yield flow.target, checkpoints_topic(flow)
        if flow.emit_heartbeats:
            yield flow.target, heartbeats_topic(flow)
        for pair in self.beaten:
            if (pair.target.alias, pair.source.alias) == (flow.source.alias, flow.target.alias):
                yield pair.target, heartbeats_topic(pair)
        if self.canary and flow.mirrors_canary:
            yield flow.source, canary_topic(flow)

    def _listed(self, flow: FlowClusters) -> tuple[dict[str, TopicFacts], Entries]:
        """The source topics of a flow, and their configs, as far as they are shown."""
        there, alias = flow.source.topics(), flow.settings.source.alias
        topics = {name: there[name] for name in sorted(filter(flow.settings.mirrors_topic, there))}
        configs: Entries = dict(TopicAdmin(flow.settings.source).configs(topics))
        if hidden := [name for name in topics if name not in configs]:
            self.warnings.append(f"mirrors were left out: {configs_hidden(hidden, alias)}")
        return topics, configs


def _entries(configs: Mapping[str, str]) -> dict[str, ConfigEntry]:
    return {name: ConfigEntry(value, ConfigOrigin.OVERRIDE, on_topic=True) for name, value in configs.items()}
