"""Topics are mirrored between brokers of different versions, whatever configs the target's do not take."""

import os
import time

import pytest
from confluent_kafka import Producer

from kit.lab_admin import alter_topic, configs_of
from kit.lookups import commit, committed, groups_of
from kit.processes import MmtoolProcess, run_mmtool
from kit.wire import settings_of
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.lab.cluster import Cluster, Shape, properties_text
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets, topics_of
from mmtool.plan.groups.facts import Commit, GroupKind
from mmtool.plan.topics.configs import ResetConfig, SetConfig
from mmtool.plan.topics.facts import CreateTopic
from mmtool.translation.types import TopicPartition

pytestmark = pytest.mark.kafka

PATIENCE_SECONDS = 60
RECORDS = 20
OLD = f"old-{os.getpid()}"
"""No two clusters share an alias on the target that all tests share."""
REFUSED = {
    "compression.type": "lzma",
    "max.message.bytes": "-5",
    "min.cleanable.dirty.ratio": "2",
    "message.timestamp.type": "Sometimes",
    "no.such.config": "1",
    "remote.storage.enable": "true",
    "segment.bytes": "100000",
    "segment.ms": "0",
}
"""Values that a broker without tiered storage refuses; the text about the tiers names no config."""
ADJUSTED = {
    "max.message.bytes": "0",
    "min.cleanable.dirty.ratio": "1.0",
    "segment.bytes": "1048576",
    "segment.ms": "1",
}
GOOD = {"cleanup.policy": "compact", "retention.ms": "5000", "unclean.leader.election.enable": "true"}


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """Kafka 3.9 takes segments of any size, and knows configs that 4.0 dropped."""
    cluster = Cluster("old", tmp_path_factory.mktemp("old") / "old", Shape(version="3.9.1"))
    cluster.start()
    yield cluster
    cluster.kill()


def flow(tmp_path, source, target, topics, **extra):
    """A properties file for one flow between (alias, cluster) pairs."""
    (here, from_), (there, to) = source, target
    path = tmp_path / "mm2.properties"
    path.write_text(
        properties_text(
            {
                "clusters": f"{here}, {there}",
                f"{here}.bootstrap.servers": from_.bootstrap,
                f"{there}.bootstrap.servers": to.bootstrap,
                f"{here}->{there}.enabled": "true",
                f"{here}->{there}.topics": topics,
                "emit.heartbeats.enabled": "false",
                "replication.factor": "1",
                "offset-syncs.topic.replication.factor": "1",
                "checkpoints.topic.replication.factor": "1",
                "refresh.topics.interval.seconds": "1",
                "sync.topic.configs.interval.seconds": "1",
                **extra,
            }
        )
    )
    return path


def filled(cluster, name, **configs):
    """A topic with some records."""
    create_topic(cluster.bootstrap, name, **configs)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(RECORDS):
        producer.produce(name, value=str(number))
    assert producer.flush(30) == 0
    return name


def test_a_config_that_the_target_does_not_take_is_adjusted_and_said_once_and_good_ones_follow_beside_it(
    old, fleet, tmp_path, topic_name
):
    alias, target = OLD, fleet["target"]
    name = filled(
        old,
        topic_name("configs"),
        **{
            "segment.bytes": "100000",
            "message.format.version": "3.0-IV1",
            "retention.ms": "3600000",
        },
    )
    other, remote = filled(old, f"{name}-plain"), f"{alias}.{name}"

    def now():
        return configs_of(target.bootstrap, [remote])[remote]

    def mirrored():
        ends = [end_offsets(target.bootstrap, f"{alias}.{topic}") for topic in (name, other)]
        return ends == [{0: RECORDS}] * 2

    config = flow(tmp_path, (alias, old), ("west", target), f"{name}.*")
    with MmtoolProcess(tmp_path, "replicate", "-c", str(config), "--every", "1") as running:
        wait_until(mirrored, "both topics", PATIENCE_SECONDS)
        assert now() == {"segment.bytes": "1048576", "retention.ms": "3600000"}
        alter_topic(old.bootstrap, name, **{"retention.ms": "7200000", "segment.bytes": "200000"})
        wait_until(lambda: now()["retention.ms"] == "7200000", "the later change", PATIENCE_SECONDS)
        running.wait_line("segment.bytes is 200000", PATIENCE_SECONDS)
        said = running.stop().stderr
    assert now() == {"segment.bytes": "1048576", "retention.ms": "7200000"}
    for value in ("100000", "200000"):
        sentence = f"topic {remote}: segment.bytes is {value} on {alias} and 1048576 on west; the brokers of west say:"
        assert said.count(sentence) == 1, said
    unknown = (
        f"topic {remote}: message.format.version is 3.0-IV1 on {alias} and not set on west, whose brokers"
    )
    assert said.count(unknown) == 1, said
    assert "could not be changed" not in said


def test_a_topic_of_a_newer_source_is_mirrored_to_an_older_target(old, fleet, tmp_path, topic_name):
    """``internal.segment.bytes`` came with 4.1. The one broker of the target cannot keep two replicas."""
    source, alias = fleet["source"], "new"
    name = filled(
        source, topic_name("newer"), **{"internal.segment.bytes": "100000", "min.insync.replicas": "2"}
    )
    config = flow(tmp_path, (alias, source), ("old", old), name, **{"config.properties.exclude": "none"})
    answer = run_mmtool(tmp_path, "replicate", "-c", str(config), "--until-caught-up")
    assert answer.code == 0, answer.stderr
    remote = f"{alias}.{name}"
    assert end_offsets(old.bootstrap, remote) == {0: RECORDS}
    assert configs_of(old.bootstrap, [remote])[remote] == {"min.insync.replicas": "2"}
    assert f"topic {remote}: internal.segment.bytes is 100000 on new and not set on old" in answer.stderr
    assert f"topic {remote} on old has 1 replica, below min.insync.replicas = 2:" in answer.stderr


def test_a_broker_gets_every_config_that_it_takes_whatever_stands_beside_it(fleet, tmp_path, topic_name):
    """At the making of a topic and at a later change; of two topics in one request one has good configs only."""
    admin = TopicAdmin(settings_of(fleet, tmp_path).clusters["target"])
    bootstrap, name, other = fleet["target"].bootstrap, topic_name("made"), topic_name("other")
    made = admin.create_adjusted(
        [CreateTopic("", name, 1, 1, REFUSED | GOOD), CreateTopic("", other, 1, 1, {"retention.ms": "7000"})]
    )
    assert (made.failed, {one.name for one in made.adjustments}) == ({}, set(REFUSED))
    wait_until(lambda: topics_of(bootstrap).keys() >= {name, other}, "both topics", PATIENCE_SECONDS)
    assert configs_of(bootstrap, [name, other]) == {name: ADJUSTED | GOOD, other: {"retention.ms": "7000"}}

    changes = [SetConfig(key, value) for key, value in (REFUSED | {"retention.ms": "6000"}).items()]
    altered = admin.alter_adjusted(
        {name: [*changes, ResetConfig("cleanup.policy")], other: [ResetConfig("retention.ms")]}
    )
    assert (altered.failed, {one.name for one in altered.adjustments}) == ({}, set(REFUSED))
    expected = ADJUSTED | GOOD | {"retention.ms": "6000"}
    del expected["cleanup.policy"]
    wait_until(lambda: configs_of(bootstrap, [name, other]) == {name: expected, other: {}}, "the changes", 10)


def test_a_share_group_of_a_newer_source_stays_there_and_an_older_target_does_not_keep_the_rest_from_running(
    old, fleet, tmp_path, topic_name
):
    source, alias = fleet["source"], "new"
    name = filled(source, topic_name("shared"))
    groups = groups_of(source.bootstrap)
    assert groups.alter(name, {TopicPartition(name, 0): Commit(7)}, GroupKind.SHARE) == {}
    assert groups.configure(name, {"share.auto.offset.reset": "earliest"}) is None
    commit(source.bootstrap, f"{name}-plain", name, 5)
    config = flow(tmp_path, (alias, source), ("old", old), name, **{"sync.group.offsets.enabled": "true"})

    def run(*words):
        return run_mmtool(tmp_path / str(time.monotonic_ns()), *words, "-c", str(config))

    caught_up = run("replicate", "--until-caught-up")
    assert caught_up.code == 0, caught_up.stderr
    assert committed(old.bootstrap, f"{name}-plain") == {(f"{alias}.{name}", 0): 5}
    synced = run("groups", "sync", "--once", "-g", name)
    assert (synced.code, "the brokers of old have no share groups" in synced.stdout) == (3, True), synced
    moved = run("failover", "planned", "-g", name, "--execute", "--yes")
    assert (moved.code, "the brokers of old have no share groups" in moved.stderr) == (3, True), moved
