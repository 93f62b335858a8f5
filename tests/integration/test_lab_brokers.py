"""Brokers of the lab can be killed, stopped, paused and started again, and never stay behind."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from mmtool.lab.cluster import Cluster
from mmtool.lab.load import Load, numbered, produce
from mmtool.lab.topics import create_topic, read_topic

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster("a", tmp_path_factory.mktemp("cluster")) as started:
        yield started


def sequences(cluster, topic) -> list[int]:
    return [numbered(record.value)[1] for record in read_topic(cluster.bootstrap, topic)]


def test_a_broker_that_comes_back_has_its_port_its_id_and_its_data(cluster, topic_name):
    topic, before = topic_name(), (cluster.bootstrap, cluster.cluster_id)
    create_topic(cluster.bootstrap, topic)
    produce(cluster.bootstrap, Load(topic, count=500))
    cluster.kill_broker(0)
    assert cluster.running() == []
    cluster.start_broker(0)
    produce(cluster.bootstrap, Load(topic, count=500, first_sequence=500))
    assert (sequences(cluster, topic), before) == (
        list(range(1000)),
        (cluster.bootstrap, cluster.cluster_id),
    )


def test_topics_are_never_created_by_reading_or_writing(cluster):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "allow.auto.create.topics": True})
    admin.list_topics("never-created", timeout=10)
    assert "never-created" not in admin.list_topics(timeout=10).topics
