"""Real clusters asked by mmtool's own ways, from a bootstrap address or a properties file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.config import ClusterSettings, load_settings
from mmtool.insight.flow_now import FlowClusters, FlowNow
from mmtool.insight.partitions import partition_facts
from mmtool.insight.translation import look
from mmtool.kafka.admin.cluster_facts import KafkaCluster
from mmtool.kafka.groups.groups import KafkaGroups
from mmtool.kafka.logs.log_parts import KafkaBatches
from mmtool.kafka.state.flow_state import KafkaFlowState, way_back_state
from mmtool.plan.groups.facts import Commit
from mmtool.plan.groups.offsets import Direction
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from mmtool.config import FlowSettings
    from mmtool.plan.groups.offsets import PartitionFacts

_SECONDS = 20.0


def groups_of(bootstrap: str) -> KafkaGroups:
    """The consumer groups of the cluster at an address."""
    return KafkaGroups(ClusterSettings(alias="lab", bootstrap_servers=bootstrap), _SECONDS)


def commit(bootstrap: str, group: str, topic: str, *offsets: int | None) -> None:
    """Commits for a group on the cluster at an address, partition by partition; None leaves one out."""
    places = {TopicPartition(topic, n): Commit(at) for n, at in enumerate(offsets) if at is not None}
    assert groups_of(bootstrap).alter(group, places) == {}


def committed(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """A group's offsets on the cluster at an address, by topic and partition."""
    commits = groups_of(bootstrap).commits([group])[group]
    return {(place.topic, place.partition): commit.offset for place, commit in commits.items()}


def flow_now(flow: FlowSettings, topics: Collection[str] = ()) -> FlowNow:
    """A flow whose clusters have answered."""
    here, there = (KafkaCluster(side, _SECONDS) for side in (flow.source, flow.target))
    return look(FlowClusters(flow, here, there, KafkaFlowState(flow.target), way_back_state(flow)), topics)


def batches_of(flow: FlowSettings) -> dict[str, KafkaBatches]:
    """The logs of both clusters, as ``find_tail`` takes them."""
    return {"source": KafkaBatches(flow.source, _SECONDS), "target": KafkaBatches(flow.target, _SECONDS)}


def flow_facts(
    properties: Path, source: str, target: str, topics: Collection[str] = ()
) -> Mapping[TopicPartition, PartitionFacts]:
    """What ``translate-offsets`` knows of each partition of the flow between two aliases."""
    (flow,) = load_settings(properties, {}).select(source, target)
    return partition_facts(flow_now(flow, topics), Direction.FORWARD)
