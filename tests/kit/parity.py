"""Clusters for the real MirrorMaker 2 and for mmtool, filled alike, and what is compared afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.load import Load, produce
from mmtool.lab.topics import create_topic, topics_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.lab.cluster import Cluster

PLAIN = "plain"
RECORDS = 200
CONFIG_SECONDS = 2
_CONFIGS = {
    PLAIN: {"retention.ms": "7200000", "compression.type": "zstd", "max.message.bytes": "2000000"},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.3"},
    "excluded-configs": {"follower.replication.throttled.replicas": "0:0"},
}
_TOPICS = (
    *_CONFIGS,
    "dots.dashes-and_underscores",
    "third.came.from.there",  # by its name, from a cluster that the file does not know
    "target.came.from.there",  # by its name, from where it would go to
    "target_came_under_a_line",
    "app.internal",
    "app-internal",
    "app.replica",
    "source.checkpoints.internal",
)
_MM2_S_OWN = ("mm2-configs.", "mm2-offsets.", "mm2-status.")
_FACTORS = (
    "",
    "offset-syncs.topic.",
    "checkpoints.topic.",
    "heartbeats.topic.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
)
SETTINGS: Mapping[str, str] = {
    **{f"{whose}replication.factor": "1" for whose in _FACTORS},
    "topics": ".*",
    "refresh.topics.interval.seconds": "2",
    "sync.topic.configs.interval.seconds": str(CONFIG_SECONDS),
    "sync.topic.acls.interval.seconds": "2",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
}
"""Of the file that both get: clusters of one broker, and intervals of seconds."""


def fill(cluster: Cluster) -> None:
    """Topics of all kinds, with records."""
    for topic in _TOPICS:
        create_topic(cluster.bootstrap, topic, 2, 1, **_CONFIGS.get(topic, {}))
        produce(cluster.bootstrap, Load(topic, RECORDS, 2, 100, keys="sequence"))


def mirrored_topics(cluster: Cluster) -> dict[str, int]:
    """Partitions of every topic that is not the broker's, Connect's or mmtool's own."""
    own = ("__", "mmtool-", *_MM2_S_OWN)
    return {name: count for name, count in topics_of(cluster.bootstrap).items() if not name.startswith(own)}


def carries_records(topic: str) -> bool:
    """Whether what is in it comes from a mirrored topic, so that it has to be the same."""
    return "heartbeats" not in topic and "internal" not in topic
