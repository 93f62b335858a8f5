"""Producers move as well: a fence on a real cluster with an authorizer, and every acknowledged record as a witness."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from kit.acls import Acls, rule, user_lines, write_file
from kit.fences import PASSWORD, guarded_cluster
from kit.lookups import committed
from kit.processes import run_mmtool
from mmtool.lab.topics import create_topic, read_topic
from mmtool.plan.failover.acl_rules import CLUSTER, TRANSACTIONAL_ID

pytestmark = pytest.mark.kafka

SECONDS = 30.0
TOPIC, GROUP, PARTITIONS = "orders", "billing", 2
FENCED = "TOPIC_AUTHORIZATION_FAILED"
RIGHTS = (
    rule("kafka-cluster", "mm", "ALTER", CLUSTER),
    rule("kafka-cluster", "mm", "DESCRIBE", CLUSTER),
    rule("*", "mm", "READ"),
    rule("*", "mm", "DESCRIBE_CONFIGS"),
    rule("*", "mm", "DESCRIBE", "GROUP"),
    rule("*", "mm", "DESCRIBE", TRANSACTIONAL_ID),
    rule(TOPIC, "alice", "WRITE"),
    rule(TOPIC, "bob", "WRITE"),
    rule("bob-tx", "bob", "WRITE", TRANSACTIONAL_ID),
    rule(TOPIC, "carol", "READ"),
    rule(GROUP, "carol", "READ", "GROUP"),
)
LINES = {
    "east->west.enabled": "true",
    "east->west.topics": TOPIC,
    "east->west.replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "east->west.offset-syncs.topic.location": "target",
    "east->west.emit.heartbeats.enabled": "false",
    "east->west.heartbeats.replication.enabled": "false",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
}


@dataclass
class Application:
    """A producer that goes on until it is stopped, whatever it is answered.

    Attributes:
        acknowledged: Values that a broker took, and that were committed where it writes in transactions.
        answers: What it was told last, and before that; empty for success.
    """

    settings: dict
    name: str
    transactional: bool = False
    acknowledged: list = field(default_factory=list)
    answers: list = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self):
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(SECONDS)

    def _run(self):
        number = 0
        producer = self._producer()
        while not self._stop.is_set():
            values = [f"{self.name}-{number + n}".encode() for n in range(5)]
            number += len(values)
            try:
                self._send(producer, values)
            except KafkaException as error:  # the transaction is over, and so is its producer
                self.answers.append(error.args[0].name())
                producer = self._producer()
            self._stop.wait(0.05)
        producer.flush(SECONDS)

    def _producer(self):
        more = {"transactional.id": f"{self.name}-tx"} if self.transactional else {"enable.idempotence": True}
        producer = Producer({**self.settings, **more, "linger.ms": 0})
        if self.transactional:
            producer.init_transactions(SECONDS)
        return producer

    def _send(self, producer, values):
        taken = self.acknowledged if not self.transactional else []
        if self.transactional:
            producer.begin_transaction()
        for value in values:
            producer.produce(TOPIC, value, on_delivery=self._heard(taken))
        producer.flush(SECONDS)
        if self.transactional:
            try:
                producer.commit_transaction(SECONDS)
            except KafkaException:
                with suppress(KafkaException):  # it may not have begun for the brokers
                    producer.abort_transaction(SECONDS)
                raise
            self.acknowledged += taken

    def _heard(self, taken):
        def heard(error, message):
            self.answers.append(error.name() if error else "")
            if error is None:
                taken.append(message.value())

        return heard


class Stage:
    """The guarded source, a plain target, and the command in between."""

    def __init__(self, guarded, target, directory):
        self.guarded, self.target, self.directory = guarded, target, directory
        self.acls = Acls(guarded.lab.bootstrap)
        login = user_lines({"east": guarded}, "mm")
        where = {"clusters": "east, west", "west.bootstrap.servers": target.bootstrap}
        self.properties = write_file(directory / "mm2.properties", login | where | LINES)
        self.runs = 0

    def failover(self, *line):
        self.runs += 1
        where = self.directory / f"run-{self.runs}"
        return run_mmtool(where, "failover", *line, "-c", str(self.properties), "-o", "json")

    def fenced(self):
        return self.failover(
            "planned", "-g", GROUP, "--fence", "acl", "--timeout", "90s", "--execute", "--yes"
        )

    def producer(self, user, **more):
        return Application(self.guarded.client(user), user, **more)


def read_some(settings, least):
    """What an application reads on the source before it is stopped, as its group."""
    more = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer, found = Consumer({**settings, **more}), []
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + SECONDS
    while len(found) < least and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value())
    positions = [at for at in consumer.position(consumer.assignment()) if at.offset >= 0]
    consumer.commit(offsets=positions, asynchronous=False)
    consumer.close()
    assert len(found) >= least
    return found


def read_on(bootstrap):
    """What it would read on the target; nothing is committed, so that it can still be taken back."""
    start = committed(bootstrap, GROUP)
    return [r.value for r in read_topic(bootstrap, TOPIC) if r.offset >= start.get((TOPIC, r.partition), 0)]


@dataclass
class Moved:
    """A finished failover, its rollback, and what went before and between."""

    before: list
    rules: set
    answer: object
    fenced: set
    writers: list
    answers: list
    told: list
    after: list
    everything: list
    back: object
    lowered: set
    again: list


@pytest.fixture(scope="module")
def stage(fleet, tmp_path_factory):
    directory = tmp_path_factory.mktemp("fenced")
    with guarded_cluster(directory / "east") as guarded:
        made = Stage(guarded, fleet["target"], directory)
        create_topic(guarded.lab.bootstrap, TOPIC, PARTITIONS)
        made.acls.make(*RIGHTS)
        yield made


def answered_since(writers, act):
    """What producers are told from when ``act`` is done."""
    done = act()
    counts = [len(writer.answers) for writer in writers]
    deadline = time.monotonic() + SECONDS
    while any(len(w.answers) < n + 10 for w, n in zip(writers, counts, strict=True)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return done, [set(w.answers[n + 5 :]) for w, n in zip(writers, counts, strict=True)]


@pytest.fixture(scope="module")
def moved(stage):
    """alice and bob, who writes in transactions, produce all the time."""
    target = stage.target.bootstrap
    rules = stage.acls.all()
    with stage.producer("alice") as alice, stage.producer("bob", transactional=True) as bob:
        before = read_some(stage.guarded.client("carol"), 40)
        answer, told = answered_since([alice, bob], stage.fenced)
        fenced, after = stage.acls.all(), read_on(target)
        taken, heard = [
            [list(of) for of in lists]
            for lists in zip(*((w.acknowledged, w.answers) for w in (alice, bob)), strict=True)
        ]
        everything = [record.value for record in read_topic(target, TOPIC)]
        operation_id = answer.rows[0]["operation_id"]
        line = ("rollback", operation_id, "--execute", "--yes")
        back, again = answered_since([alice, bob], lambda: stage.failover(*line))
    return Moved(
        before, rules, answer, fenced, taken, heard, told, after, everything, back, stage.acls.all(), again
    )


def test_it_completes_and_proves_that_nothing_is_lost_or_read_again(moved):
    assert (moved.answer.code, PASSWORD in moved.answer.stderr) == (0, False), moved.answer.stderr
    row = moved.answer.rows[0]
    assert (row["state"], row["rpo_records"], row["reread_records"], row["diverged_records"]) == (
        "completed",
        0,
        0,
        0,
    )
    assert {step["name"] for step in row["steps"]} >= {"fence", "await_transactions", "watch_ends"}


def test_the_producers_are_refused_from_then_on(moved):
    """One that has to ask for a producer id again is refused that, while there is no topic that it may write."""
    assert [FENCED in of for of in moved.answers] == [True, True]
    assert [answer for of in moved.told for answer in of if not answer] == []
    assert len(moved.fenced - moved.rules) == 2


def test_all_that_was_acknowledged_to_them_is_on_the_target_once(moved):
    there = Counter(moved.everything)
    acknowledged = [value for of in moved.writers for value in of]
    assert min(len(of) for of in moved.writers) > 40
    assert [value for value in acknowledged if there[value] != 1] == []


def test_the_group_goes_on_exactly_where_it_stopped(moved):
    read, there = Counter(moved.before) + Counter(moved.after), Counter(moved.everything)
    assert (read - there, there - read) == (Counter(), Counter()), moved.answer.rows[0]["groups"]


def test_a_rollback_lowers_the_fence_and_they_may_write_again(moved):
    assert moved.back.code == 0, moved.back.stderr
    assert (moved.lowered, moved.again) == (moved.rules, [{""}, {""}])
