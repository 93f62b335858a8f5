"""``mmtool doctor`` with the rights that a flow needs and no others, and with each of them taken away."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kit.fences import PASSWORD, guarded_cluster
from kit.lookups import groups_of
from mmtool.doctor import groups
from mmtool.lab.load import Load, produce
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, topics_of
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = pytest.mark.kafka

TOPIC, GROUP, TX, CLUSTER = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.BROKER,
)
WHOLE = "kafka-cluster"
MIRRORED, NEW = "orders", "bills"
SYNCS = "mm2-offset-syncs.target.internal"
NEEDED = {
    "source": {
        (TOPIC, MIRRORED): "READ DESCRIBE_CONFIGS",
        (TOPIC, NEW): "READ DESCRIBE_CONFIGS",
        (TOPIC, SYNCS): "READ WRITE CREATE",
        (GROUP, "app"): "DESCRIBE",
        (CLUSTER, WHOLE): "DESCRIBE",
    },
    "target": {
        (TOPIC, "source."): "READ WRITE CREATE ALTER ALTER_CONFIGS DESCRIBE_CONFIGS",
        (TOPIC, "mmtool-"): "READ WRITE CREATE",
        (TX, "mmtool."): "WRITE",
        (GROUP, "mmtool."): "READ",
        (GROUP, "app"): "READ DELETE",
        (CLUSTER, WHOLE): "DESCRIBE ALTER",
    },
}


def rule(kind, name, operation):
    pattern = ResourcePatternType.PREFIXED if name[-1] in ".-" else ResourcePatternType.LITERAL
    word = AclOperation[operation]
    return AclBinding(kind, name, pattern, "User:mm", "*", word, AclPermissionType.ALLOW)


def every_rule(side):
    return [
        rule(kind, name, operation)
        for (kind, name), words in NEEDED[side].items()
        for operation in words.split()
    ]


class Rules:
    """The rules of one cluster."""

    def __init__(self, cluster):
        self._admin = AdminClient({"bootstrap.servers": cluster.lab.bootstrap, "log_level": 2})

    def add(self, rules):
        for done in self._admin.create_acls(rules).values():
            done.result(20)

    def drop(self, one):
        same = AclBindingFilter(
            one.restype, one.name, one.resource_pattern_type, one.principal, one.host, one.operation,
            one.permission_type,
        )  # fmt: skip
        self._admin.delete_acls([same])[same].result(20)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Two clusters that give mmtool what it needs: a topic with its mirror, one without, and a group."""
    directory = tmp_path_factory.mktemp("doctor-rights")
    with ExitStack() as ends:
        both = {side: ends.enter_context(guarded_cluster(directory / side)) for side in ("source", "target")}
        source = both["source"].lab.bootstrap
        for topic in (MIRRORED, NEW):
            create_topic(source, topic, 1)
            produce(source, Load(topic, 50, 1, 100))
        create_topic(both["target"].lab.bootstrap, f"source.{MIRRORED}", 1)
        assert groups_of(source).alter("app", {TopicPartition(MIRRORED, 0): Commit(20)}) == {}
        for side, cluster in both.items():
            Rules(cluster).add(every_rule(side))
        yield both


@pytest.fixture(scope="module")
def properties(guarded, tmp_path_factory):
    path = tmp_path_factory.mktemp("doctor-rights") / "mm2.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    lines = {"clusters": "source, target", "source->target.enabled": "true", "replication.factor": "1"}
    lines |= {
        f"{name}.topic.replication.factor": "1" for name in ("offset-syncs", "checkpoints", "heartbeats")
    }
    lines["source->target.topics"] = f"{MIRRORED}, {NEW}"
    for side, cluster in guarded.items():
        lines |= {
            f"{side}.bootstrap.servers": cluster.bootstrap,
            f"{side}.security.protocol": "SASL_PLAINTEXT",
            f"{side}.sasl.mechanism": "PLAIN",
            f"{side}.sasl.jaas.config": f'{module} required username="mm" password="{PASSWORD}";',
        }
    path.write_text("".join(f"{name} = {value}\n" for name, value in lines.items()))
    return path


@pytest.fixture
def missing(mmtool, properties, monkeypatch):
    """``missing()``: severity, cluster and message of each row about rights that is not ``ok``, and the answer."""
    monkeypatch.setattr(groups, "LOOK_SECONDS", 0.1)  # this file is not about groups that go on committing

    def run():
        answer = mmtool("doctor", "-c", properties, "-o", "json")
        found = [
            (row["severity"], row["cluster"], row["message"])
            for row in answer.rows
            if row["check"] == "right" and row["severity"] != "ok"
        ]
        return found, answer

    return run


def test_the_rights_that_a_flow_needs_and_no_others_are_enough(missing, guarded):
    before = {side: topics_of(cluster.lab.bootstrap) for side, cluster in guarded.items()}
    found, answer = missing()
    wrong = [row for row in answer.rows if row["severity"] != "ok"]
    assert (answer.code, found, wrong) == (0, [], []), answer.stdout
    after = {side: topics_of(cluster.lab.bootstrap) for side, cluster in guarded.items()}
    assert before == after


TAKEN = [
    ("source", TOPIC, MIRRORED, "READ", "problem", "READ on topic orders"),
    ("source", TOPIC, MIRRORED, "DESCRIBE_CONFIGS", "warning", "DESCRIBE_CONFIGS on topic orders"),
    ("source", TOPIC, SYNCS, "CREATE", "problem", f"CREATE on topic {SYNCS}"),
    ("source", CLUSTER, WHOLE, "DESCRIBE", "warning", "DESCRIBE on the cluster source"),
    ("source", GROUP, "app", "DESCRIBE", "problem", "DESCRIBE on group app"),
    ("target", TOPIC, "source.", "READ", "problem", "READ on topic source.orders"),
    ("target", TOPIC, "source.", "WRITE", "problem", "WRITE on topic source.orders"),
    ("target", TOPIC, "source.", "CREATE", "problem", "CREATE on topic source.bills"),
    ("target", TOPIC, "source.", "ALTER", "warning", "ALTER on topic source.orders"),
    ("target", TOPIC, "source.", "ALTER_CONFIGS", "warning", "ALTER_CONFIGS on topic source.orders"),
    ("target", TOPIC, "mmtool-", "CREATE", "problem", "CREATE on topic mmtool-*"),
    ("target", TX, "mmtool.", "WRITE", "problem", "WRITE on transactional id mmtool.*"),
    ("target", GROUP, "mmtool.", "READ", "problem", "READ on group mmtool.*"),
    ("target", GROUP, "app", "READ", "problem", "READ on group app"),
    ("target", GROUP, "app", "DELETE", "warning", "DELETE on group app"),
    ("target", CLUSTER, WHOLE, "ALTER", "warning", "ALTER on the cluster target"),
]


@pytest.mark.parametrize("taken", TAKEN, ids=[f"{one[0]}-{one[2]}-{one[3]}" for one in TAKEN])
def test_a_right_that_is_taken_away_has_its_row(guarded, missing, taken):
    side, kind, name, operation, severity, told = taken
    rules, one = Rules(guarded[side]), rule(kind, name, operation)
    rules.drop(one)
    try:
        wait_until(lambda: any(told in row[2] for row in missing()[0]), told, 10)
        found, answer = missing()
    finally:
        rules.add([one])
    mine = [row for row in found if told in row[2]]
    assert [(row[0], row[1]) for row in mine] == [(severity, side)]
    assert f"User:mm lacks {told}" in mine[0][2]
    if severity == "problem":
        assert answer.code == 4
    assert [row for row in found if f"lacks {operation} on" not in row[2]] == []
