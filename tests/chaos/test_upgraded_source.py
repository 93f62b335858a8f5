"""A source of before topic ids (Kafka 2.8), as it is when a migration begins, and upgraded under its mirror."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kit.processes import run_mmtool
from kit.zookeeper_cluster import ZooKeeperCluster
from mmtool.lab.topics import create_topic, end_offsets, read_topic

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

WITHOUT_IDS, FIRST_WITH_IDS, WITH_IDS = "2.7.2", "2.8.2", "3.9.1"
FLOW = """clusters={alias}, west
{alias}.bootstrap.servers={old}
west.bootstrap.servers={west}
{alias}->west.enabled=true
{alias}->west.topics={topic}
{alias}->west.emit.heartbeats.enabled=false
{alias}->west.mmtool.on.topic.recreated=restart
replication.factor=1
offset-syncs.topic.replication.factor=1
checkpoints.topic.replication.factor=1
"""


@pytest.fixture
def topic(topic_name):
    return topic_name("upgraded")


@pytest.fixture
def alias(topic_name):
    """No two clusters share one on the target that all tests share."""
    return topic_name("old")


@pytest.fixture
def old(tmp_path):
    with ZooKeeperCluster(tmp_path / "old") as cluster:
        yield cluster


@pytest.fixture
def mmtool(tmp_path, fleet, alias, old, topic):
    """A command on the flow from there to a cluster of today."""
    config = tmp_path / "mm2.properties"
    config.write_text(
        FLOW.format(alias=alias, old=old.bootstrap, west=fleet["target"].bootstrap, topic=topic)
    )

    def run(*arguments):
        return run_mmtool(tmp_path, *arguments, "-c", str(config), "-o", "json")

    return run


def produce(cluster, topic, count):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, key=str(number), value=f"{number} of {count}")
    assert producer.flush(30) == 0


def commit(cluster, topic, group, offset):
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(cluster, topic, group):
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    (place,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return place.offset


def values(cluster, topic):
    return sorted(record.value for record in read_topic(cluster.bootstrap, topic))


def test_groups_move_from_a_source_without_topic_ids_and_its_upgrade_brings_no_record_twice(
    alias, old, mmtool, fleet, topic, measured
):
    """Even where ``mmtool.on.topic.recreated = restart``: what was given an id is no topic that was made anew."""
    old.start(WITHOUT_IDS)
    create_topic(old.bootstrap, topic, partitions=2)
    produce(old, topic, 400)
    commit(old, topic, "app", 25)
    assert mmtool("replicate", "--until-caught-up").code == 0
    assert {row["state"] for row in mmtool("status").rows} == {"idle"}
    assert mmtool("failover", "planned", "-g", "app", "--execute", "--yes").code == 0
    assert committed(fleet["target"], f"{alias}.{topic}", "app") == 25

    old.stop()
    old.start(WITH_IDS)
    produce(old, topic, 100)
    halted = mmtool("replicate", "--until-caught-up")
    assert (halted.code, "mmtool flow rebuild" in halted.stderr) == (3, True)
    assert mmtool("flow", "rebuild", "--execute", "--yes").code == 0
    again = mmtool("replicate", "--until-caught-up")
    assert again.code == 0
    assert values(fleet["target"], f"{alias}.{topic}") == values(old, topic)
    commit(old, topic, "late", 30)
    late, _ = mmtool("translate-offsets", "-g", "late").rows  # of two partitions it has a commit in one
    assert (late["downstream_offset"], late["exactness"]) == (30, "exact")
    measured(f"mirrored on {again.seconds:.1f} s after the start that followed `flow rebuild`")
    assert sum(end_offsets(old.bootstrap, topic).values()) == 500


def test_the_first_brokers_that_give_topics_ids_are_known_by_them(old, mmtool, topic):
    """Their Metadata v11 has ids (Kafka 2.8 to 3.0), and their Fetch has none yet."""
    old.start(FIRST_WITH_IDS)
    create_topic(old.bootstrap, topic)
    produce(old, topic, 100)
    commit(old, topic, "app", 25)
    assert mmtool("replicate", "--until-caught-up").code == 0
    assert [row["state"] for row in mmtool("status").rows] == ["idle"]
    (row,) = mmtool("translate-offsets", "-g", "app").rows
    assert (row["downstream_offset"], row["exactness"]) == (25, "exact")
