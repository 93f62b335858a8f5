"""Producers' rights move with the groups: two real clusters with authorizers, and producers as witnesses."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaException, Producer

from kit.acls import Acls, rule, user_lines, write_file
from kit.consumers import consume
from kit.fences import GuardedCluster, guarded_cluster
from kit.load import Load, produce
from kit.processes import run_mmtool
from mmtool.lab.topics import create_topic
from mmtool.plan.failover.acl_rules import CLUSTER, PREFIXED, TRANSACTIONAL_ID, Binding

pytestmark = pytest.mark.kafka

SECONDS = 30.0
TOPIC, GROUP = "orders", "billing"
REFUSED = "TOPIC_AUTHORIZATION_FAILED"
EXECUTE = ("--execute", "--yes")
ON_EAST = (
    rule(TOPIC, "alice", "WRITE"),
    rule("ord", "bob", "WRITE", pattern=PREFIXED),
    rule("bob-", "bob", "WRITE", TRANSACTIONAL_ID, pattern=PREFIXED),
    rule("*", "carol", "WRITE"),
    rule(TOPIC, "carol", "WRITE", permission="DENY"),
)
PROMOTED = {
    rule(TOPIC, "alice", "WRITE"),
    rule(TOPIC, "bob", "WRITE"),
    rule("bob-", "bob", "WRITE", TRANSACTIONAL_ID, pattern=PREFIXED),
}
ON_WEST = (rule("kafka-cluster", "mm", "DESCRIBE", CLUSTER),)
LINES = {
    "east->west.enabled": "true",
    "east->west.topics": TOPIC,
    "west->east.enabled": "true",
    "west->east.topics": TOPIC,
    "east->west.offset-syncs.topic.location": "target",
    "emit.heartbeats.enabled": "false",
    "heartbeats.replication.enabled": "false",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
}


@dataclass
class Guarded:
    """A cluster with an authorizer, and what its users may do."""

    cluster: GuardedCluster
    acls: Acls

    @property
    def bootstrap(self):
        """Where a client without a login may do everything."""
        return self.cluster.lab.bootstrap

    def produce(self, user, **more):
        """What the broker answers to a record of a user; empty for success."""
        producer, answers = Producer({**self.cluster.client(user), "linger.ms": 0, **more}), []
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
        login = user_lines({"east": east.cluster, "west": west.cluster}, "boss")
        self.properties = str(write_file(directory / "mm2.properties", login | LINES))

    def run(self, *line):
        self.runs += 1
        where = self.directory / f"run-{self.runs}"
        answer = run_mmtool(where, *line, "-c", self.properties, "-o", "json")
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
        return self.west.acls.all() - self.before


def guarded(cluster, rules):
    made = Guarded(cluster, Acls(cluster.lab.bootstrap))
    create_topic(made.bootstrap, TOPIC, 1)
    made.acls.make(*rules)
    return made


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    directory = tmp_path_factory.mktemp("promoted")
    with guarded_cluster(directory / "east") as east, guarded_cluster(directory / "west") as west:
        made = Stage(guarded(east, ON_EAST), guarded(west, ON_WEST), directory)
        produce(made.east.bootstrap, Load(TOPIC, 200, 1, 100, keys="sequence"))
        consume(made.east.bootstrap, GROUP, [TOPIC], 100)
        made.before = made.west.acls.all()
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
    assert {Binding(**row, permission="ALLOW") for row in answer.rows[0]["promoted_acls"]} == PROMOTED


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
