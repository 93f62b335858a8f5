"""The periodic tasks that a flow's settings ask for, and the smallest of them: MirrorMaker 2's heartbeats."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.insight.flow_now import FlowClusters, FlowNow
from mmtool.insight.translation import mirrors_others
from mmtool.kafka.admin.cluster_facts import KafkaCluster
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.state.flow_state import FollowedFlowState, way_back_state
from mmtool.kafka.state.own_log import MARK, append_records
from mmtool.plan.groups.offsets import Direction
from mmtool.plan.topics.facts import TopicFacts
from mmtool.replication.background.checkpoints import Checkpoints, GroupOffsets
from mmtool.replication.background.topic_sync import TopicAcls, TopicConfigs
from mmtool.replication.mm2.guard import MirrorMakerGuard, MirrorMakerWatch, writes_same_topics
from mmtool.replication.ownership.internal_topics import mm2_topic
from mmtool.runtime.threads import in_thread
from mmtool.translation.mm2_records import Heartbeat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mmtool.config import FlowSettings
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.background import Duty, ExtraTurn
    from mmtool.replication.driver.flow_run import FlowRun


@dataclass(slots=True)
class Heartbeats:
    """Writes one record per interval into ``heartbeats`` on the target of a pair of clusters.

    Attributes:
        pair: The flow, or a reverse flow.
        target: The pair's target.
    """

    pair: FlowSettings
    target: WireCluster
    name: str = "heartbeats"
    extra: ExtraTurn = "first"
    _is_there: bool = False

    @property
    def seconds(self) -> float:
        return float(self.pair.emit_heartbeats_interval_seconds)

    async def perform(self) -> None:
        topic = self.pair.policy.heartbeats_topic()
        try:
            if not self._is_there:
                wanted = mm2_topic(topic, self.pair.heartbeats_replication_factor)
                await in_thread(TopicAdmin(self.pair.target).create_internal, [wanted])
                await self.target.refresh([topic])
            aliases = self.pair.topic_aliases
            beat = Heartbeat(aliases.source, aliases.target, int(time.time() * 1000))
            await append_records(self.target, topic, [(beat.key(), beat.value())], MARK)
        except BaseException:
            self._is_there = False  # deleted, perhaps: the next turn makes it again
            raise
        self._is_there = True


_SECONDS = 30.0  # for one request


def duties_of(
    run: FlowRun, heartbeats_only: Iterable[FlowSettings], say: Callable[[str], None]
) -> list[Duty]:
    """The periodic tasks of a flow's owner, as its settings ask for them.

    Args:
        run: The flow.
        heartbeats_only: Pairs of clusters that are not enabled as flows but keep their heartbeats, as in MM2: a one-way
            flow carries the heartbeats of the reverse flow to its target, where ``MirrorClient`` counts hops by them.
        say: Called with sentences for the operator.
    """
    flow, here = run.flow, run.flow.settings
    duties: list[Duty] = []
    if here.emit_heartbeats:
        duties.append(Heartbeats(here, flow.target))
    duties += [
        Heartbeats(pair, flow.source)
        for pair in heartbeats_only
        if (pair.source.alias, pair.target.alias) == (here.target.alias, here.source.alias)
    ]
    if here.emit_checkpoints:
        duties += _group_duties(run)
    if here.sync_topic_configs:
        duties.append(TopicConfigs(here, run.topic_names, say, run.config_notices))
    if here.sync_topic_acls:
        duties.append(TopicAcls(here))
    if writes_same_topics(here):
        duties.append(MirrorMakerWatch(MirrorMakerGuard(flow, []), say))
    return duties


def _group_duties(run: FlowRun) -> list[Duty]:
    """Checkpoints, and the group offset sync that commits them; without checkpoints MM2 syncs no offsets either."""
    here = run.flow.settings
    source, target = (KafkaCluster(cluster, _SECONDS) for cluster in (here.source, here.target))
    back = way_back_state(here, FollowedFlowState)
    clusters = FlowClusters(here, source, target, FollowedFlowState(here.target), back)

    def now() -> FlowNow:
        topics = run.view.topics.values()
        return FlowNow(
            clusters,
            run.flow.identity,
            {topic.name: TopicFacts(topic.name, topic.topic_id, topic.partitions) for topic in topics},
            target_topics={
                topic.target_name: TopicFacts(topic.target_name, topic.target_id, topic.partitions)
                for topic in topics
            },
            mirrored_to=frozenset({Direction.FORWARD})
            if mirrors_others(run.flow.source.topics, run.flow.identity.way_back)
            else frozenset(),
        )

    checkpoints = Checkpoints(now, run.flow.target, float(here.emit_checkpoints_interval_seconds))
    if not here.sync_group_offsets:
        return [checkpoints]
    seconds = float(here.sync_group_offsets_interval_seconds)
    return [checkpoints, GroupOffsets(checkpoints, target, seconds, lambda: run.watch.moved)]
