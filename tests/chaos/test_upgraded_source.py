"""A source of before topic ids (Kafka 2.8), as it is when a migration begins, and upgraded under its mirror."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kit.processes import run_mmtool
from mmtool.lab import ports
from mmtool.lab.artifacts import classpath
from mmtool.lab.ports import PortReservation
from mmtool.lab.process import LeashedProcess, java_command
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
_READY_SECONDS, _POLL_SECONDS = 60.0, 0.2
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_ONE_OF_EACH = (
    "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n"
    "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
    "transaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n"
)


class ZooKeeperCluster:
    """ZooKeeper and one broker, of a Kafka before 4.0; started again as another one, it is upgraded at once."""

    def __init__(self, directory):
        directory.mkdir()
        self._directory, self._ports = directory, PortReservation()
        self._port, self._keeper_port = self._ports.take(), self._ports.take()
        self._running: list[LeashedProcess] = []

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self._port}"

    def start(self, version):
        """As a broker of ``version``; returns when it answers."""
        keeper = f"dataDir={self._directory / 'keeper'}\nclientPort={self._keeper_port}\n"
        keeper += "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
        broker = f"broker.id=0\nlisteners=PLAINTEXT://{self.bootstrap}\nlog.dirs={self._directory / 'logs'}\n"
        broker += f"zookeeper.connect=127.0.0.1:{self._keeper_port}\n{_ONE_OF_EACH}"
        self._launch(version, "org.apache.zookeeper.server.quorum.QuorumPeerMain", keeper)
        self._launch(version, "kafka.Kafka", broker)
        self._wait_until_it_answers()

    def stop(self):
        """Cleanly, the broker first."""
        while self._running:
            self._running.pop().terminate()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self._ports.release()

    def _launch(self, version, main_class, properties):
        file = self._directory / f"{main_class}.properties"
        file.write_text(properties)
        command = java_command(classpath("broker", version), main_class, str(file), jvm=_JVM)
        self._running.append(LeashedProcess(command, file.with_suffix(".log")))

    def _wait_until_it_answers(self):
        deadline = time.monotonic() + _READY_SECONDS
        while (view := ports.ask(self._port)) is None or not view.brokers:
            assert time.monotonic() < deadline, self._running[-1].log_tail()
            time.sleep(_POLL_SECONDS)


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
