"""Producers' rights move with the groups: two real clusters with authorizers, and producers as witnesses."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kit.consumers import consume
from kit.fences import PASSWORD, guarded_cluster
from kit.load import Load, produce
from kit.processes import run_mmtool
from mmtool.lab.topics import create_topic

pytestmark = pytest.mark.kafka

SECONDS = 30.0
TOPIC, GROUP = "orders", "billing"
REFUSED = "TOPIC_AUTHORIZATION_FAILED"
EXECUTE = ("--execute", "--yes")
EVERY_RULE = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
WRITE = AclOperation.WRITE
ON_EAST = (
    (ResourceType.TOPIC, TOPIC, LITERAL, "alice", WRITE, ALLOW),
    (ResourceType.TOPIC, "ord", PREFIXED, "bob", WRITE, ALLOW),
    (ResourceType.TRANSACTIONAL_ID, "bob-", PREFIXED, "bob", WRITE, ALLOW),
    (ResourceType.TOPIC, "*", LITERAL, "carol", WRITE, ALLOW),
    (ResourceType.TOPIC, TOPIC, LITERAL, "carol", WRITE, DENY),
)
PROMOTED = {
    ("User:alice", "TOPIC", TOPIC, "LITERAL", "WRITE"),
    ("User:bob", "TOPIC", TOPIC, "LITERAL", "WRITE"),
    ("User:bob", "TRANSACTIONAL_ID", "bob-", "PREFIXED", "WRITE"),
}
ON_WEST = ((ResourceType.BROKER, "kafka-cluster", LITERAL, "mm", AclOperation.DESCRIBE, ALLOW),)
LOGIN = (
    "security.protocol = SASL_PLAINTEXT",
    "sasl.mechanism = PLAIN",
    "sasl.username = boss",
    f"sasl.password = {PASSWORD}",
)


@dataclass
class Guarded:
    """A cluster with an authorizer, and what its users may do."""

    lab: object
    bootstrap: str
    settings: object

    def __post_init__(self):
        self.admin = AdminClient({"bootstrap.servers": self.lab.bootstrap, "log_level": 2})

    def allow(self, rules):
        made = [
            AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)
            for kind, name, pattern, user, operation, permission in rules
        ]
        for done in self.admin.create_acls(made).values():
            done.result(SECONDS)

    def rules(self):
        found = self.admin.describe_acls(EVERY_RULE).result(SECONDS)
        return {
            (a.principal, a.restype.name, a.name, a.resource_pattern_type.name, a.operation.name)
            for a in found
        }

    def produce(self, user, **more):
        """What the broker answers to a record of a user; empty for success."""
        producer, answers = Producer({**self.settings(user), "linger.ms": 0, **more}), []
        try:
            if "transactional.id" in more:
                producer.init_transactions(SECONDS)
                producer.begin_transaction()
            producer.produce(
                TOPIC, b"x", on_delivery=lambda error, _: answers.append(error.name() if error else "")
            )
            producer.flush(SECONDS)
            if "transactional.id" in more:
                producer.commit_transaction(SECONDS)
        except KafkaException as error:
            answers.append(error.args[0].name())
        return answers[-1]

    def answers(self):
        """What every producer is told: alice, bob without and with a transaction, carol."""
        return [
            self.produce("alice"),
            self.produce("bob"),
            self.produce("bob", **{"transactional.id": "bob-1"}),
            self.produce("carol"),
        ]


class Stage:
    """Both clusters, and the command between them."""

    def __init__(self, east, west, directory):
        self.east, self.west, self.directory, self.runs = east, west, directory, 0

    def config(self):
        path = self.directory / "mm2.properties"
        login = "\n".join(f"{alias}.{key}" for alias in ("east", "west") for key in LOGIN)
        path.write_text(
            f"""\
clusters = east, west
east.bootstrap.servers = {self.east.bootstrap}
west.bootstrap.servers = {self.west.bootstrap}
{login}
east->west.enabled = true
east->west.topics = {TOPIC}
west->east.enabled = true
west->east.topics = {TOPIC}
east->west.offset-syncs.topic.location = target
emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
"""
        )
        return str(path)

    def run(self, *line):
        self.runs += 1
        where = self.directory / f"run-{self.runs}"
        answer = run_mmtool(where, *line, "-c", self.config(), "-o", "json")
        assert "Traceback" not in answer.stderr
        return answer

    def failover(self, verb, *more):
        """On the flow from east to west."""
        flow = () if verb == "rollback" else ("-s", "east", "-t", "west", "-g", GROUP)
        return self.run("failover", verb, *more, *flow)

    def planned(self, *more):
        return self.failover("planned", "--promote-acls", *more)

    def promoted(self):
        """The rules on west that were not there at the beginning."""
        return self.west.rules() - self.before


def guarded(cluster, rules):
    made = Guarded(cluster.lab, cluster.bootstrap, cluster.client)
    create_topic(made.lab.bootstrap, TOPIC, 1)
    made.allow(rules)
    deadline = time.monotonic() + SECONDS
    while len(made.rules()) < len(rules) - 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    return made


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    directory = tmp_path_factory.mktemp("promoted")
    with guarded_cluster(directory / "east") as east, guarded_cluster(directory / "west") as west:
        made = Stage(guarded(east, ON_EAST), guarded(west, ON_WEST), directory)
        produce(made.east.lab.bootstrap, Load(TOPIC, 200, 1, 100, keys="sequence"))
        consume(made.east.lab.bootstrap, GROUP, [TOPIC], 100)
        made.before = made.west.rules()
        yield made


@pytest.fixture(scope="module")
def moved(stage):
    """A planned failover with its producers, and what they were told on west before and after."""
    refused = stage.west.answers()
    answer = stage.planned(*EXECUTE)
    return refused, answer, stage.promoted(), stage.west.answers()


def test_producers_are_refused_before_and_write_under_the_topic_s_own_name_after(moved):
    refused, answer, promoted, after = moved
    assert answer.code == 0, answer.stderr
    assert (refused[:2], refused[3]) == ([REFUSED] * 2, REFUSED)
    assert after == ["", "", "", REFUSED]
    assert promoted == PROMOTED
    shown = {
        tuple(a[k] for k in ("principal", "resource", "name", "pattern", "operation"))
        for a in answer.rows[0]["promoted_acls"]
    }
    assert shown == PROMOTED


def test_a_rollback_takes_exactly_these_away(stage, moved):
    undone = stage.failover("rollback", moved[1].rows[0]["operation_id"], *EXECUTE)
    assert undone.code == 0, undone.stderr
    assert stage.promoted() == set()
    assert stage.west.answers()[:2] == [REFUSED] * 2


def test_a_failback_withdraws_them(stage, moved):
    assert stage.planned(*EXECUTE).code == 0
    assert stage.west.produce("alice") == ""
    answer = stage.failover("failback", *EXECUTE)
    assert (answer.code, stage.promoted()) == (0, set()), answer.stderr
    assert stage.west.produce("alice") == REFUSED
    assert stage.east.produce("alice") == ""
