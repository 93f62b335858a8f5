"""One properties file for the real MirrorMaker 2 and for mmtool, each with a target of its own: what is there then.

MM2 is the measure for which topics come over, under which names, with how many partitions and which configs, and what
is in them; for groups it is the least that is expected.
"""

from __future__ import annotations

import time

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from mmtool.config.keys import FLOW_KEYS
from mmtool.lab.checker import compare_topics
from mmtool.lab.cluster import Cluster
from mmtool.lab.load import Load, produce
from mmtool.lab.mirror_maker import MirrorMaker
from mmtool.lab.topics import create_topic, end_offsets
from mmtool.lab.waiting import wait_until
from mmtool.plan.group_facts import Commit
from mmtool.testing.lookups import groups_of
from mmtool.testing.mirror_client import mirror_defaults
from mmtool.testing.processes import MmtoolProcess
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PATIENCE_SECONDS = 90
SECONDS = 20.0
RECORDS = 200
GROUP, GROUP_AT = "app", 60
PLAIN = "plain"
CONFIGS = {
    PLAIN: {"retention.ms": "7200000", "compression.type": "zstd", "max.message.bytes": "2000000"},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.3"},
    "excluded-configs": {"follower.replication.throttled.replicas": "0:0"},
}
TOPICS = (
    *CONFIGS,
    "dots.dashes-and_underscores",
    "third.came.from.there",  # by its name, from a cluster that this file does not know
    "target.came.from.there",  # by its name, from where it would go to
    "target_came_under_a_line",
    "app.internal",
    "app-internal",
    "app.replica",
    "source.checkpoints.internal",
)
MM2_S_OWN = ("mm2-configs.", "mm2-offsets.", "mm2-status.")
POLICIES = {
    "default": {},
    "default, another separator": {"replication.policy.separator": "_"},
    "identity": {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"},
}
FACTORS = (
    "",
    "offset-syncs.topic.",
    "checkpoints.topic.",
    "heartbeats.topic.",
    "config.storage.",
    "offset.storage.",
)
SETTINGS = {
    **{f"{whose}replication.factor": "1" for whose in (*FACTORS, "status.storage.")},
    "topics": ".*",
    "offset-syncs.topic.location": "target",
    "refresh.topics.interval.seconds": "2",
    "sync.topic.configs.interval.seconds": "2",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
}


def topics_of(cluster):
    """Partitions of every topic that is not the broker's, Connect's or mmtool's own."""
    found = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=SECONDS).topics
    own = ("__", "mmtool-", *MM2_S_OWN)
    return {name: len(topic.partitions) for name, topic in found.items() if not name.startswith(own)}


def configs_of(cluster, topics):
    """What is set on each topic itself."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic) for topic in topics])
    return {
        resource.name: {
            name: entry.value
            for name, entry in answer.result(SECONDS).items()
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }
        for resource, answer in asked.items()
    }


def commits_of(cluster):
    commits = groups_of(cluster.bootstrap).commits([GROUP])[GROUP]
    return {place: commit.offset for place, commit in commits.items()}


def missing(cluster, remote, checkpoints):
    """What has not come over yet."""
    found = {
        "records": sum(end_offsets(cluster.bootstrap, remote).values()) == RECORDS,
        "commits": bool(commits_of(cluster)),
        "heartbeats": "heartbeats" in topics_of(cluster),
        "checkpoints": checkpoints in topics_of(cluster),
    }
    return {what for what, there in found.items() if not there}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Topics of all kinds, and a group."""
    with Cluster("source", tmp_path_factory.mktemp("parity")) as source:
        for topic in TOPICS:
            create_topic(source.bootstrap, topic, 2, **CONFIGS.get(topic, {}))
            produce(source.bootstrap, Load(topic, RECORDS, 2, 100, keys="sequence"))
        groups_of(source.bootstrap).alter(GROUP, {TopicPartition(PLAIN, 0): Commit(GROUP_AT)})
        yield source


@pytest.mark.parametrize(
    "policy", ["default", *(pytest.param(other, marks=pytest.mark.chaos) for other in list(POLICIES)[1:])]
)
def test_the_same_file_makes_the_same_topics_as_mm2(source, tmp_path, policy):
    separator = POLICIES[policy].get("replication.policy.separator", ".")
    remote = PLAIN if policy == "identity" else f"source{separator}{PLAIN}"
    checkpoints = separator.join(("source", "checkpoints", "internal"))
    with Cluster("target", tmp_path / "target") as target, Cluster("twin", tmp_path / "twin") as twin:
        settings = {
            "clusters": "source, target",
            "source.bootstrap.servers": source.bootstrap,
            "target.bootstrap.servers": target.bootstrap,
            "source->target.enabled": "true",
            **SETTINGS,
            **POLICIES[policy],
        }
        text = "".join(f"{name} = {value}\n" for name, value in settings.items())
        with MirrorMaker(text, tmp_path) as mm2:
            mm2.wait_until(lambda: not missing(target, remote, checkpoints), "everything", PATIENCE_SECONDS)
            time.sleep(3)  # configs are synced by a job of their own
        properties = tmp_path / "mmtool.properties"
        properties.write_text(text.replace(target.bootstrap, twin.bootstrap))
        with MmtoolProcess(tmp_path / "run", "replicate", "-c", str(properties)) as process:
            wait_until(lambda: not missing(twin, remote, checkpoints), "everything", PATIENCE_SECONDS)
            exact = {TopicPartition(remote, 0): GROUP_AT}
            wait_until(lambda: commits_of(twin) == exact, "the group's offset", PATIENCE_SECONDS)
            answer = process.stop()
        assert answer.code == 143, answer.stderr
        assert topics_of(twin) == topics_of(target)
        names = sorted(topics_of(target))
        assert configs_of(twin, names) == configs_of(target, names)
        for topic in names:
            if "heartbeats" not in topic and "internal" not in topic:
                verdicts = compare_topics(target.bootstrap, topic, twin.bootstrap, topic)
                assert all(v.is_identical for v in verdicts.values()), (topic, verdicts)
        theirs = commits_of(target)
        assert (theirs.keys(), theirs[TopicPartition(remote, 0)] <= GROUP_AT) == (exact.keys(), True)


def test_defaults_are_mm2_s_own_or_known_to_differ():
    """By MM2's own definitions: a file that says nothing means the same to both."""
    theirs = mirror_defaults()
    shared = {name: key for name, key in FLOW_KEYS.items() if name in theirs}
    assert len(shared) > 25
    assert {n: key.mm2 or key.default for n, key in shared.items()} == {n: theirs[n] for n in shared}
    missing = {name for name, key in FLOW_KEYS.items() if not key.is_own} - shared.keys()
    assert missing == {"use.defaults.from"}  # of a filter class, which has no definition of its own
