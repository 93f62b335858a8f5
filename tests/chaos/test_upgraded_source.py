"""A source of before topic ids (Kafka 2.8), as it is when a migration begins, and upgraded under its mirror."""

from __future__ import annotations

import os

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from mmtool.lab.topics import create_topic, end_offsets, read_topic
from mmtool.testing.processes import run_mmtool
from mmtool.testing.zookeeper_cluster import ZooKeeperCluster

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

WITHOUT_IDS, WITH_IDS = "2.7.2", "3.9.1"
TOPIC = f"upgraded-{os.getpid()}"
FLOW = """clusters=old, west
old.bootstrap.servers={old}
west.bootstrap.servers={west}
old->west.enabled=true
old->west.topics={topic}
old->west.emit.heartbeats.enabled=false
old->west.mmtool.on.topic.recreated=restart
replication.factor=1
offset-syncs.topic.replication.factor=1
checkpoints.topic.replication.factor=1
"""


@pytest.fixture
def old(tmp_path):
    with ZooKeeperCluster(tmp_path / "old") as cluster:
        cluster.start(WITHOUT_IDS)
        yield cluster


@pytest.fixture
def mmtool(tmp_path, fleet, old):
    """A command on the flow from there to a cluster of today."""
    config = tmp_path / "mm2.properties"
    config.write_text(FLOW.format(old=old.bootstrap, west=fleet["target"].bootstrap, topic=TOPIC))

    def run(*arguments):
        return run_mmtool(tmp_path, *arguments, "-c", str(config), "-o", "json")

    return run


def produce(cluster, count):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(count):
        producer.produce(TOPIC, key=str(number), value=f"{number} of {count}")
    assert producer.flush(30) == 0


def commit(cluster, group, offset):
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    consumer.close()


def committed(cluster, group):
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    (place,) = consumer.committed([TopicPartition(f"old.{TOPIC}", 0)], timeout=30)
    consumer.close()
    return place.offset


def values(cluster, topic):
    return sorted(record.value for record in read_topic(cluster.bootstrap, topic))


def test_groups_move_from_a_source_without_topic_ids_and_its_upgrade_brings_no_record_twice(
    old, mmtool, fleet, measured
):
    """Even where ``mmtool.on.topic.recreated = restart``: what was given an id is no topic that was made anew."""
    create_topic(old.bootstrap, TOPIC, partitions=2)
    produce(old, 400)
    commit(old, "app", 25)
    assert mmtool("replicate", "--until-caught-up").code == 0
    assert {row["state"] for row in mmtool("status").rows} == {"waiting"}
    assert mmtool("failover", "planned", "-g", "app", "--execute", "--yes").code == 0
    assert committed(fleet["target"], "app") == 25

    old.stop()
    old.start(WITH_IDS)
    produce(old, 100)
    halted = mmtool("replicate", "--until-caught-up")
    assert (halted.code, "mmtool flow rebuild" in halted.stderr) == (3, True)
    assert mmtool("flow", "rebuild", "--execute", "--yes").code == 0
    again = mmtool("replicate", "--until-caught-up")
    assert again.code == 0
    assert values(fleet["target"], f"old.{TOPIC}") == values(old, TOPIC)
    commit(old, "late", 30)
    late, _ = mmtool("translate-offsets", "-g", "late").rows  # of two partitions it has a commit in one
    assert (late["downstream_offset"], late["exactness"]) == (30, "exact")
    measured(f"mirrored on {again.seconds:.1f} s after the start that followed `flow rebuild`")
    assert sum(end_offsets(old.bootstrap, TOPIC).values()) == 500
