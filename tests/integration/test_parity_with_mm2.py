"""One properties file for the real MirrorMaker 2 and for mmtool, each with a target of its own: what is there then.

MM2 is the measure for which topics come over, under which names, with how many partitions, which configs and rights,
and what is in them; for groups it is the least that is expected.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from kit.acls import GUARDED, Acls, rule
from kit.kafka_tools import mirror_defaults
from kit.lab_admin import alter_topic, compare_topics, configs_of, grow_topic
from kit.load import Load, produce
from kit.lookups import commit, committed
from kit.processes import MmtoolProcess
from kit.real_mirror_maker import MirrorMaker
from mmtool.config import ClusterSettings
from mmtool.config.keys import FLOW_KEYS
from mmtool.kafka.admin.fences import KafkaFences
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets, topics_of
from mmtool.translation.types import TopicPartition

pytestmark = pytest.mark.kafka

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
SETTINGS = {
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
PATIENCE_SECONDS = 90
GROUP, GROUP_AT = "app", 60
VARIANTS = {
    "default": {},
    "default, another separator": {"replication.policy.separator": "_"},
    "identity": {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"},
    "the source's defaults, but for some": {
        "source->target.use.defaults.from": "source",
        "config.properties.exclude": r"compression\.type, follower.*, max\..*",
    },
}


def fill(cluster):
    """Topics of all kinds, with records."""
    for topic in _TOPICS:
        create_topic(cluster.bootstrap, topic, 2, 1, **_CONFIGS.get(topic, {}))
        produce(cluster.bootstrap, Load(topic, RECORDS, 2, 100, keys="sequence"))


def mirrored_topics(cluster):
    """Partitions of every topic that is not the broker's, Connect's or mmtool's own."""
    own = ("__", "mmtool-", *_MM2_S_OWN)
    return {name: count for name, count in topics_of(cluster.bootstrap).items() if not name.startswith(own)}


def carries_records(topic):
    """Whether what is in it comes from a mirrored topic, so that it has to be the same."""
    return "heartbeats" not in topic and "internal" not in topic


@dataclass(frozen=True)
class Twins:
    """MM2 mirrors one source to ``target`` and mmtool to ``twin``; both run on."""

    source: Cluster
    target: Cluster
    twin: Cluster
    prefix: str
    separator: str

    def remote(self, topic):
        return self.prefix + topic

    def missing(self, cluster):
        """What has not come over yet."""
        found = {
            "records": sum(end_offsets(cluster.bootstrap, self.remote(PLAIN)).values()) == RECORDS,
            "commits": bool(committed(cluster.bootstrap, GROUP)),
            "heartbeats": "heartbeats" in mirrored_topics(cluster),
            "checkpoints": self.separator.join(("source", "checkpoints", "internal"))
            in mirrored_topics(cluster),
        }
        return {what for what, there in found.items() if not there}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Topics of all kinds, and a group."""
    with Cluster("source", tmp_path_factory.mktemp("parity"), Shape(properties=GUARDED)) as source:
        fill(source)
        commit(source.bootstrap, GROUP, PLAIN, GROUP_AT)
        yield source


@pytest.fixture(
    scope="module",
    params=["default", *(pytest.param(other, marks=pytest.mark.chaos) for other in list(VARIANTS)[1:])],
)
def twins(source, request, tmp_path_factory):
    settings = {
        "clusters": "source, target",
        "source.bootstrap.servers": source.bootstrap,
        "source->target.enabled": "true",
        "offset-syncs.topic.location": "target",
        **SETTINGS,
        **VARIANTS[request.param],
    }
    separator = settings.get("replication.policy.separator", ".")
    prefix = "" if "replication.policy.class" in settings else f"source{separator}"
    folder, shape = tmp_path_factory.mktemp("twins"), Shape(properties=GUARDED)
    with (
        Cluster("target", folder / "target", shape) as target,
        Cluster("twin", folder / "twin", shape) as twin,
    ):

        def text(there):
            lines = settings | {"target.bootstrap.servers": there.bootstrap}
            return "".join(f"{name} = {value}\n" for name, value in lines.items())

        both = Twins(source, target, twin, prefix, separator)
        properties = folder / "mmtool.properties"
        properties.write_text(text(twin))
        with (
            MirrorMaker(text(target), folder) as mm2,
            MmtoolProcess(folder / "run", "replicate", "-c", str(properties)) as process,
        ):
            mm2.wait_until(lambda: not both.missing(target), "everything", PATIENCE_SECONDS)
            wait_until(lambda: not both.missing(twin), "everything", PATIENCE_SECONDS)
            yield both
            answer = process.stop()
        assert answer.code == 143, answer.stderr


def test_the_same_file_makes_the_same_topics_as_mm2(twins):
    """Their names, partitions, configs and records; MM2 syncs configs by a job of its own, later."""
    wait_until(
        lambda: mirrored_topics(twins.twin) == mirrored_topics(twins.target),
        "the same topics",
        PATIENCE_SECONDS,
    )
    names = sorted(mirrored_topics(twins.target))
    configs_become_alike(twins)
    for topic in names:
        if carries_records(topic):
            verdicts = compare_topics(twins.target.bootstrap, topic, twins.twin.bootstrap, topic)
            assert all(v.is_identical for v in verdicts.values()), (topic, verdicts)


def configs_become_alike(twins):
    """And stay so for longer than both need to set them."""
    names = sorted(mirrored_topics(twins.target))
    alike = 0

    def stay():
        nonlocal alike
        alike = (
            alike + 1
            if configs_of(twins.twin.bootstrap, names) == configs_of(twins.target.bootstrap, names)
            else 0
        )
        time.sleep(0.5)
        return alike >= 2 * (CONFIG_SECONDS + 1)

    wait_until(stay, "the same configs", PATIENCE_SECONDS)


def test_a_group_goes_on_no_earlier_than_mm2_would_have_it(twins):
    exact = {TopicPartition(twins.remote(PLAIN), 0): GROUP_AT}
    wait_until(
        lambda: committed(twins.twin.bootstrap, GROUP) == exact, "the group's offset", PATIENCE_SECONDS
    )
    theirs = committed(twins.target.bootstrap, GROUP)
    assert (theirs.keys(), theirs[TopicPartition(twins.remote(PLAIN), 0)] <= GROUP_AT) == (exact.keys(), True)


def test_what_an_operator_changes_later_changes_as_under_mm2(twins):
    """Partitions, configs and rights."""
    bootstrap, topic = twins.source.bootstrap, "dots.dashes-and_underscores"
    remote, user = twins.remote(topic), f"reader-of-{twins.prefix}"
    grown = mirrored_topics(twins.source)[topic] + 1
    grow_topic(bootstrap, topic, grown)
    alter_topic(bootstrap, topic, retention_ms=str(7_200_000 + grown), max_message_bytes="3000000")
    Acls(bootstrap).make(
        rule(topic, user, "ALL"),
        rule(topic, "writer", "WRITE"),
        rule(topic, "prefixed", "READ", pattern="PREFIXED"),
    )

    def came(cluster):
        rules = {(rule.name, rule.principal) for rule in rules_of(cluster)}
        retention = configs_of(cluster.bootstrap, [remote])[remote].get("retention.ms")
        return (mirrored_topics(cluster)[remote], retention) == (grown, str(7_200_000 + grown)) and (
            remote,
            f"User:{user}",
        ) in rules

    for cluster in (twins.target, twins.twin):
        wait_until(lambda there=cluster: came(there), f"the changes on {cluster.name}", PATIENCE_SECONDS)
    configs_become_alike(twins)
    assert set(rules_of(twins.twin)) == set(rules_of(twins.target))


def rules_of(cluster):
    settings = ClusterSettings(alias="lab", bootstrap_servers=cluster.bootstrap)
    return KafkaFences(settings, PATIENCE_SECONDS).topic_rules()


def test_defaults_are_mm2_s_own_or_known_to_differ():
    """By MM2's own definitions: a file that says nothing means the same to both."""
    theirs = mirror_defaults()
    shared = {name: key for name, key in FLOW_KEYS.items() if name in theirs}
    assert len(shared) > 25
    assert {n: key.mm2 or key.default for n, key in shared.items()} == {n: theirs[n] for n in shared}
    missing = {name for name, key in FLOW_KEYS.items() if not key.is_own} - shared.keys()
    assert missing == {"use.defaults.from"}  # of a filter class, which has no definition of its own
