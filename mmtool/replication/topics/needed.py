"""The topics that flows need on each cluster, as mmtool creates them, compared with those that exist."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

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
from mmtool.plan.topics.facts import CreateTopic, TopicFacts, configs_hidden, plan_topics
from mmtool.plan.topics.needed import CLEANUP_POLICY, NeededTopic
from mmtool.replication.ownership.internal_topics import checkpoints_topic, heartbeats_topic, syncs_topic
from mmtool.translation.types import TopicId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mmtool.config import ClusterSettings, FlowSettings
    from mmtool.insight.flow_now import FlowClusters
    from mmtool.plan.records.identity import FlowIdentity


def config_rules(flow: FlowSettings) -> ConfigRules:
    """Which topic configs a flow carries over: not those that mmtool sets by itself."""
    own = TIME_BOUNDS if flow.on_timestamp_refused == "raise-limit" else frozenset[str]()
    accepts = flow.config_properties_exclude.accepts
    return ConfigRules(lambda name: name not in own and accepts(name), flow.use_defaults_from)


def carried_configs(flow: FlowSettings, entries: Mapping[str, ConfigEntry]) -> dict[str, str]:
    """The configs with which a mirror is created: those of its source topic that the flow carries over."""
    steps = plan_topic_configs(entries, {}, config_rules(flow))
    return {step.name: step.value for step in steps if isinstance(step, SetConfig)}


def carried_policy(flow: FlowSettings, entries: Mapping[str, ConfigEntry]) -> str | None:
    """The ``cleanup.policy`` that a mirror needs: its source topic's, also where that is the default.

    None where the flow does not carry it over.
    """
    entry = entries.get(CLEANUP_POLICY)
    return entry.value if entry is not None and config_rules(flow).accepts(CLEANUP_POLICY) else None


def differing_mirrors(
    flow: FlowSettings, source: TopicAdmin, target: TopicAdmin, topics: Iterable[TopicFacts]
) -> dict[str, NeededTopic]:
    """Topics that are to be mirrored for the first time and whose mirrors are not ready, by name.

    A mirror that deletes what its source topic keeps would lose records before its configs are synced. A source topic
    that does not show its configs is left out.
    """
    by_name = {topic.name: topic for topic in topics}
    configs = source.configs(by_name)
    shown = [topic for name, topic in by_name.items() if name in configs]
    wanted = [topic for topic in _mirrors(flow, shown, configs) if topic.source_topic]
    policies = {topic.name: carried_policy(flow, configs[topic.source_topic]) for topic in wanted}
    found = target.compare(wanted, {name: policy for name, policy in policies.items() if policy})
    return {topic.source_topic: topic for topic in found if topic.source_topic and topic.reason}


def _mirrors(
    flow: FlowSettings, topics: Iterable[TopicFacts], configs: Mapping[str, Mapping[str, ConfigEntry]]
) -> Iterator[CreateTopic]:
    """The mirrors of topics, with their dead-letter topics where the flow writes such letters."""
    factor = flow.replication_factor
    for step in plan_topics(topics, {}, flow.remote_topic, factor):
        if isinstance(step, CreateTopic):
            yield replace(step, configs=carried_configs(flow, configs[step.source_topic]))
            if flow.on_oversize == "dead-letter":
                yield dead_letter_topic(step.name, step.partitions, factor)


class _Wanted(NamedTuple):
    cluster: ClusterSettings
    topic: CreateTopic
    policy: str | None = None


@dataclass(slots=True)
class TopicNeeds:
    """The topics that some flows need.

    Attributes:
        flows: The flows, each with its identity.
        beaten: Pairs of clusters that get heartbeats without a flow.
        canary: Also the canary topics of `mmtool smoke`.
        warnings: Sentences about topics that are left out.
    """

    flows: Sequence[tuple[FlowClusters, FlowIdentity]]
    beaten: Sequence[FlowSettings] = ()
    canary: bool = False
    warnings: list[str] = field(default_factory=list)
    _wanted: dict[tuple[str, str], _Wanted] = field(default_factory=dict)

    def topics(self) -> list[NeededTopic]:
        """The topics, cluster by cluster: internal topics, then mirrors by name.

        Mirrors include those of topics that do not exist yet, such as heartbeats and mirrors of mirrors.

        Raises:
            UnreachableError, NotAuthorisedError: a cluster does not answer, or denies a right.
        """
        for flow, identity in self.flows:
            for cluster, topic in self._internal(flow.settings, identity):
                self._want(cluster, topic)
        listed = {flow.settings.name: self._listed(flow) for flow, _ in self.flows}
        for _ in self.flows:  # a mirror may itself be mirrored by each of the others
            for flow, _ in self.flows:
                self._add_mirrors(flow.settings, *listed[flow.settings.name])
        ordered = sorted(self._wanted.values(), key=lambda one: one.cluster.alias)
        found: list[NeededTopic] = []
        for _, of in groupby(ordered, key=lambda one: one.cluster.alias):
            some = list(of)
            policies = {one.topic.name: one.policy for one in some if one.policy}
            found += TopicAdmin(some[0].cluster).compare([one.topic for one in some], policies)
        return sorted(found, key=lambda topic: (topic.cluster, topic.source_topic or "", topic.topic))

    def _want(self, cluster: ClusterSettings, topic: CreateTopic, policy: str | None = None) -> None:
        self._wanted.setdefault((cluster.alias, topic.name), _Wanted(cluster, topic, policy))

    def _internal(
        self, flow: FlowSettings, identity: FlowIdentity
    ) -> Iterator[tuple[ClusterSettings, CreateTopic]]:
        for topic in internal_topics(identity, flow.offset_syncs_replication_factor):
            yield flow.target, topic
        if flow.emit_offset_syncs:
            yield syncs_place(flow)[0], syncs_topic(flow)
        if flow.emit_checkpoints:
            yield flow.target, checkpoints_topic(flow)
        backward = (flow.target.alias, flow.source.alias)
        beaten = [pair for pair in self.beaten if (pair.source.alias, pair.target.alias) == backward]
        for pair in [*([flow] if flow.emit_heartbeats else []), *beaten]:
            yield pair.target, heartbeats_topic(pair)
        if self.canary and flow.mirrors_canary:
            yield flow.source, canary_topic(flow)

    def _listed(self, flow: FlowClusters) -> tuple[list[TopicFacts], dict[str, Mapping[str, ConfigEntry]]]:
        """The source topics of a flow that exist and show their configs, and these configs."""
        there = flow.source.topics()
        names = sorted(filter(flow.settings.mirrors_topic, there))
        configs = TopicAdmin(flow.settings.source).configs(names)
        if hidden := [name for name in names if name not in configs]:
            why = configs_hidden(hidden, flow.settings.source.alias)
            self.warnings.append(f"mirrors were left out: {why}")
        return [there[name] for name in names if name in configs], dict(configs)

    def _add_mirrors(
        self,
        flow: FlowSettings,
        topics: Sequence[TopicFacts],
        configs: Mapping[str, Mapping[str, ConfigEntry]],
    ) -> None:
        alias, known = flow.source.alias, {topic.name for topic in topics}
        planned = {
            name: one.topic
            for (cluster, name), one in self._wanted.items()
            if cluster == alias and name not in known and flow.mirrors_topic(name)
        }
        facts = [TopicFacts(name, TopicId(""), topic.partitions) for name, topic in planned.items()]
        entries = {**configs, **{name: _entries(topic.configs) for name, topic in planned.items()}}
        for topic in _mirrors(flow, [*topics, *facts], entries):
            policy = carried_policy(flow, entries.get(topic.source_topic, {}))
            self._want(flow.target, topic, policy)


def _entries(configs: Mapping[str, str]) -> dict[str, ConfigEntry]:
    return {name: ConfigEntry(value, ConfigOrigin.OVERRIDE, on_topic=True) for name, value in configs.items()}
