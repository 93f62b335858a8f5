"""A user with the rights that `mmtool acls` lists, and no others: all runs, and a right that is missing is named.

Replicate and verify start Spark: of their rights a few, chosen by `SEED`, are taken away here, and all of them in
``make test-chaos``.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from contextlib import ExitStack

import pytest

from kit.fences import guarded_cluster
from kit.granted import Grants, is_named, user_lines, write_file
from kit.lookups import groups_of
from kit.processes import MmtoolProcess, run_mmtool
from mmtool.lab.load import Load, produce
from mmtool.lab.topics import create_topic, end_offsets, topics_of
from mmtool.lab.wait import patience, wait_until
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SEED = 35
INTERVAL_SECONDS = 2
SAMPLED = 4
"""Rights that the tests of Spark commands take away: each start takes ten seconds."""
LINES = {
    "west->east.enabled": "true",
    "west->east.topics": "orders, bills-.*",
    "west->east.groups": "app, pay-.*",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "sync.group.offsets.enabled": "true",
    "mmtool.round.seconds": "5",
} | {
    f"{name}.interval.seconds": str(INTERVAL_SECONDS)
    for name in (
        "emit.checkpoints", "emit.heartbeats", "refresh.groups", "refresh.topics", "sync.group.offsets",
        "sync.topic.acls", "sync.topic.configs",
    )
}  # fmt: skip
GROUPS = ("-g", "app", "-g", "pay-1")
READ = [
    ("status",),
    ("status", "--groups"),
    ("groups", "audit"),
    ("translate-offsets", "--all-groups"),
    ("translate-offsets", "--all-groups", "--refine"),
    ("failover", "list"),
]
OPERATIONS = [
    ("failover", "planned", *GROUPS, "--fence", "acl", "--execute", "--yes"),
    ("failover", "failback", *GROUPS, "--execute", "--yes"),
    ("failover", "drill", *GROUPS, "--execute", "--yes"),
    ("failover", "emergency", *GROUPS, "--execute", "--yes", "--accept-data-loss"),
]


SYNCS = "mm2-offset-syncs.east.internal"
UNTIL = ("--until-caught-up",)
COMPLAINT = re.compile("error:|warning:|denie|AUTHORIZATION")
SETTLED = 0.3
"""Seconds until each broker applies a rule (`KafkaFences`); one broker takes a tenth."""
REFUSED = {3, 4, 6, 9}
"""Exit codes of commands that lack a needed right: 3 and 6 where only a topic or a group is left out, 4 of a gate."""
UNUSED = {"heartbeats", "west.heartbeats", "mmtool-canary", "west.mmtool-canary"}
"""Topics in which nothing happens while a test takes rights away."""
SILENT = {
    "__consumer_offsets",  # only the time of a commit is unknown
    SYNCS,  # of flows that MirrorMaker 2 runs
    ("DESCRIBE_CONFIGS", "cluster"),  # brokers' settings are left out
}
"""Optional rights whose absence no command reports."""


class Stage:
    """Two guarded clusters with data, and the files by which ``mm`` and the super user log in."""

    def __init__(self, clusters, directory):
        self.clusters, self.directory = clusters, directory
        self.grants = Grants(clusters, "mm")
        self.records = itertools.count(50, 4)
        # the super user's ACL sync would copy denials of tests to the target
        free = {"sync.topic.acls.enabled": "false"}
        self.mm, self.boss = (
            write_file(directory / f"{user}.properties", user_lines(clusters, user) | LINES | more)
            for user, more in (("mm", {}), ("boss", free))
        )
        self.west, self.east = (clusters[alias].lab.bootstrap for alias in ("west", "east"))
        for topic, group in (("orders", "app"), ("bills-eu", "pay-1")):
            create_topic(self.west, topic, 2)
            produce(self.west, Load(topic, 50, 2, 100))
            commits = {TopicPartition(topic, partition): Commit(10) for partition in (0, 1)}
            assert groups_of(self.west).alter(group, commits) == {}

    def rights(self, mmtool, purpose):
        """The rights of a purpose, granted to ``mm``, who has no others."""
        rows = mmtool("acls", "-c", self.mm, "--for", purpose, "--format", "json").rows
        self.grants.replace(rows)
        return rows

    def run(self, *words):
        """A command of ``mm`` as a process of its own, for commands that start Spark."""
        return run_mmtool(self.directory / "run", *words, "-c", str(self.mm), timeout=90)

    def replicate(self, *words):
        """`run` of replicate, with new records to mirror."""
        for topic in ("orders", "bills-eu"):
            produce(self.west, Load(topic, 4, 2, 100, first_sequence=next(self.records)))
        return self.run("replicate", *words)

    def asking(self, mmtool):
        """Runs a command of ``mm`` in this process."""
        return lambda *words: mmtool(*words, "-c", self.mm)

    def has_committed(self, group):
        """Whether the target has the group's offsets, which takes mirrored records and their checkpoints."""
        return bool(groups_of(self.east).commits([group])[group])

    def has_beaten(self):
        """Whether both clusters have heartbeats."""
        both = (self.west, self.east)
        return all(
            "heartbeats" in topics_of(at) and sum(end_offsets(at, "heartbeats").values()) for at in both
        )

    def mirrored(self):
        """Records of the mirrors, and the topics of both clusters: what a refused command leaves as it is."""
        topics = [topic for topic in topics_of(self.east) if topic.startswith("west.")]
        ends = {topic: end_offsets(self.east, topic) for topic in topics if "checkpoints" not in topic}
        return ends, sorted(topics_of(self.west)), sorted(topics_of(self.east))


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    directory = tmp_path_factory.mktemp("least")
    with ExitStack() as ends:
        clusters = {
            alias: ends.enter_context(guarded_cluster(directory / alias)) for alias in ("west", "east")
        }
        yield Stage(clusters, directory)


@pytest.fixture(scope="module")
def mirrored(stage):
    """The stage with everything mirrored by the super user, who still runs the flow."""
    with MmtoolProcess(stage.directory / "boss", "replicate", "-c", str(stage.boss)) as process:
        wait_until(lambda: stage.has_committed("pay-1"), "offsets of both groups", 90, poll=1)
        yield stage
        process.stop()


def label(row):
    return f"{row['operation']} on {row['resource_type']} {row['name']} of {row['cluster']}"


def used(rows):
    return [row for row in rows if row["name"] not in UNUSED]


def unnamed(stage, rows, ways, ask, *, silent=()):
    """The rights of which no command says that they are missing, and refusals that changed something or came late."""
    wrong = []
    for row in rows:
        if row["name"] in silent or (row["operation"], row["resource_type"]) in silent:
            continue
        before = stage.mirrored()
        with stage.grants.without(row):
            time.sleep(SETTLED)
            answers = [ask(*words) for words in ways]
        named = [answer for answer in answers if is_named(row, answer.stderr + answer.stdout)]
        if not named:
            said = [(words, a.code, a.stderr[-300:]) for words, a in zip(ways, answers, strict=True)]
            wrong.append((label(row), "is not named", said))
        if not row["optional"] and not any(answer.code in REFUSED for answer in named):
            wrong.append((label(row), "is needed, and nothing is refused", []))
        if any(answer.code == 9 and answer.seconds > patience(10) for answer in named):
            wrong.append((label(row), "is named late", []))
        if all(answer.code == 9 for answer in answers) and stage.mirrored() != before:
            wrong.append((label(row), "is refused after a change", []))
    return wrong


def test_before_a_flow_exists_a_right_to_create_its_topics_is_named(stage, mmtool):
    """Each denied right ends the start before the topics of the rights after it are created."""
    rows = stage.rights(mmtool, "replicate")
    create = [row for row in rows if row["operation"] == "CREATE" and row["name"] in {"mmtool-", SYNCS}]
    assert unnamed(stage, create, [UNTIL], stage.replicate) == []


def test_the_rights_of_replicate_are_enough_for_all_that_an_owner_does(stage, mmtool):
    stage.rights(mmtool, "replicate")
    with MmtoolProcess(stage.directory / "mm", "replicate", "-c", str(stage.mm)) as process:
        wait_until(
            lambda: stage.has_committed("app") and stage.has_beaten(), "offsets, heartbeats", 90, poll=1
        )
        time.sleep(3 * INTERVAL_SECONDS)
        answer = process.stop()
    assert (answer.code, [line for line in answer.said if COMPLAINT.search(line)]) == (143, [])


@pytest.mark.parametrize("count", [SAMPLED, pytest.param(None, marks=pytest.mark.chaos)], ids=["some", "all"])
def test_replicate_names_the_right_that_it_lacks(stage, mmtool, count):
    rows = [row for row in stage.rights(mmtool, "replicate") if not row["optional"]]
    named = [row for row in used(rows) if row["operation"] != "CREATE"]
    some = random.Random(SEED).sample(named, count or len(named))
    assert unnamed(stage, some, [UNTIL], stage.replicate) == []


@pytest.mark.parametrize("words", READ, ids=" ".join)
def test_the_rights_of_read_are_enough(mirrored, mmtool, words):
    mirrored.rights(mmtool, "read")
    answer = mmtool(*words, "-c", mirrored.mm)
    assert (answer.code, [line for line in answer.said if COMPLAINT.search(line)]) == (0, [])


def test_commands_that_read_name_the_right_that_they_lack(mirrored, mmtool):
    rows = mirrored.rights(mmtool, "read")
    ways = [*READ, ("doctor",)]
    found = unnamed(mirrored, used(rows), ways, mirrored.asking(mmtool), silent=SILENT)
    assert found == []


def test_doctor_with_the_rights_of_read_misses_only_rights_to_change(mirrored, mmtool):
    mirrored.rights(mmtool, "read")
    rows = mmtool("doctor", "-c", mirrored.mm, "-o", "json").rows
    problems = [row["message"] for row in rows if row["severity"] == "problem"]
    assert [
        message for message in problems if not re.search("lacks (WRITE|READ on group|CREATE)", message)
    ] == []


def test_the_rights_of_failover_are_enough(mirrored, mmtool):
    mirrored.rights(mmtool, "failover")
    codes = {words: mmtool(*words, "-c", mirrored.mm).code for words in OPERATIONS}
    assert set(codes.values()) == {0}, codes


def test_failovers_name_the_right_that_they_lack(mirrored, mmtool):
    rows = [row for row in mirrored.rights(mmtool, "failover") if not row["optional"]]
    found = unnamed(mirrored, used(rows), OPERATIONS[:2], mirrored.asking(mmtool), silent=SILENT)
    assert found == []


def test_the_rights_of_smoke_are_enough_and_each_that_is_missing_is_named(mirrored, mmtool):
    rows = [row for row in mirrored.rights(mmtool, "smoke") if not row["optional"]]
    assert mmtool("smoke", "--timeout", "40s", "-c", mirrored.mm).code == 0
    needed = [row for row in rows if row["operation"] != "CREATE"]  # the topic exists by now
    found = unnamed(mirrored, needed, [("smoke", "--timeout", "9s")], mirrored.asking(mmtool))
    assert found == []


@pytest.mark.parametrize("count", [SAMPLED, pytest.param(None, marks=pytest.mark.chaos)], ids=["some", "all"])
def test_the_rights_of_verify_are_enough_and_each_that_is_missing_is_named(mirrored, mmtool, count):
    rows = [row for row in mirrored.rights(mmtool, "verify") if not row["optional"]]
    assert mirrored.run("verify").code == 0
    some = random.Random(SEED).sample(used(rows), count or len(used(rows)))
    assert unnamed(mirrored, some, [("verify",)], mirrored.run) == []
