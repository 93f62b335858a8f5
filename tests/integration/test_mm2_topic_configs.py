"""Mirrored topics follow later changes of their sources' configuration."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from mmtool.kafka.admin import TopicAdmin
from mmtool.lab.topics import create_topic
from mmtool.lab.waiting import wait_until
from mmtool.testing.replicating import Bench

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PATIENCE_SECONDS = 60
SYNC = {"source->target.sync.topic.configs.interval.seconds": "1"}


def alter(cluster, topic, name, value):
    """Sets a property of a topic; None takes it away."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    doing = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(name, value, incremental_operation=doing)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(20)


def overrides(settings, topic):
    """What is set on the topic itself."""
    entries = TopicAdmin(settings).configs([topic]).get(topic, {})
    return {name: entry.value for name, entry in entries.items() if entry.on_topic}


def test_what_is_set_on_the_source_is_set_on_the_target_and_what_is_taken_away_goes(
    fleet, tmp_path, topic_name
):
    """Excluded properties stay as they are; a property that the target's operator lowered by hand is put right."""
    topic, bench = topic_name("configs"), Bench(fleet, tmp_path)
    create_topic(fleet["source"].bootstrap, topic, **{"retention.ms": "1111111"})
    properties = bench.properties(topic, **SYNC)
    flow = bench.flow(properties)
    remote = flow.remote_topic(topic)

    def comes(expected):
        wait_until(
            lambda: overrides(flow.target, remote) == expected, f"{remote} with {expected}", PATIENCE_SECONDS
        )

    with bench.start(properties):
        comes({"retention.ms": "1111111"})
        alter(fleet["source"], topic, "retention.ms", "2222222")
        alter(fleet["source"], topic, "unclean.leader.election.enable", "true")
        comes({"retention.ms": "2222222"})
        alter(fleet["source"], topic, "cleanup.policy", "compact")
        alter(fleet["source"], topic, "retention.ms", None)
        comes({"cleanup.policy": "compact"})
        alter(fleet["target"], remote, "retention.ms", "3333333")
        comes({"cleanup.policy": "compact"})
