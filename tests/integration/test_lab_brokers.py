"""Brokers of the lab can be killed, stopped, paused and started again, and never stay behind."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from mmtool.lab import ports
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.load import Load, numbered, produce
from mmtool.lab.topics import create_topic, read_topic

pytestmark = pytest.mark.kafka

_STARTS_AND_WAITS = """
import sys, time
from pathlib import Path
from mmtool.lab.cluster import Cluster
cluster = Cluster("a", Path(sys.argv[1]))
cluster.start()
print(*[broker.pid for broker in cluster.running()], flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster("a", tmp_path_factory.mktemp("cluster")) as started:
        yield started


def sequences(cluster, topic) -> list[int]:
    return [numbered(record.value)[1] for record in read_topic(cluster.bootstrap, topic)]


@pytest.mark.parametrize(
    "end", [Cluster.kill_broker, pytest.param(Cluster.stop_broker, marks=pytest.mark.chaos)]
)
def test_a_broker_that_comes_back_has_its_port_its_id_and_its_data(cluster, topic_name, end):
    topic, before = topic_name(), (cluster.bootstrap, cluster.cluster_id)
    create_topic(cluster.bootstrap, topic)
    produce(cluster.bootstrap, Load(topic, count=500))
    end(cluster, 0)
    assert cluster.running() == []
    cluster.start_broker(0)
    produce(cluster.bootstrap, Load(topic, count=500, first_sequence=500))
    assert (sequences(cluster, topic), before) == (
        list(range(1000)),
        (cluster.bootstrap, cluster.cluster_id),
    )


def test_a_paused_broker_holds_its_connections_and_does_not_answer(cluster):
    port = cluster.running()[0].port
    cluster.pause_broker(0)
    paused = ports.ask(port, timeout=0.3)
    cluster.resume_broker(0)
    cluster.wait_ready()
    assert (paused, ports.ask(port).cluster_id) == (None, cluster.cluster_id)


def test_topics_are_never_created_by_reading_or_writing(cluster):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "allow.auto.create.topics": True})
    admin.list_topics("never-created", timeout=10)
    assert "never-created" not in admin.list_topics(timeout=10).topics


def test_kill_9_of_the_process_that_started_a_cluster_ends_its_brokers(tmp_path):
    command = [sys.executable, "-c", _STARTS_AND_WAITS, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        brokers = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
    gone, alive = psutil.wait_procs(brokers, timeout=5)
    assert (len(gone), alive) == (1, [])


@pytest.mark.chaos
def test_a_cluster_of_three_goes_on_without_one_of_them(tmp_path, topic_name):
    topic = topic_name()
    missed_soon = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    with Cluster("a", tmp_path, Shape(brokers=3, properties=missed_soon)) as cluster:
        create_topic(cluster.bootstrap, topic, partitions=1, replicas=3)
        produce(cluster.bootstrap, Load(topic, count=100))
        cluster.kill_broker(1)
        produce(cluster.bootstrap, Load(topic, count=100, first_sequence=100))
        cluster.start_broker(1)
        assert (sequences(cluster, topic), len(cluster.running())) == (list(range(200)), 3)
