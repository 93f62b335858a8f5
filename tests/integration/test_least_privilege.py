"""A user with the rights that `mmtool acls` lists, and no others: all runs, and a right that is missing is named.

Replicate and verify start Spark: of their rights a few, chosen by `SEED`, are taken away here, and all of them in
``make test-chaos``.
"""

import itertools
import random
import re
import time
from contextlib import ExitStack

import pytest

from kit.acls import Grants, is_named, user_lines, write_file
from kit.fences import guarded_cluster
from kit.load import Load, Transactions, produce
from kit.lookups import commit, groups_of
from kit.processes import MmtoolProcess, run_mmtool
from mmtool.doctor import groups as doctor_groups
from mmtool.lab.ports import patience, wait_until
from mmtool.lab.topics import create_topic, end_offsets, read_topic, topics_of

pytestmark = pytest.mark.kafka

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
COMPLAINT = re.compile("error: (?!stopped by SIGTERM)|warning:|denie|AUTHORIZATION")
SETTLED = 0.3
"""Seconds until each broker applies a rule (`KafkaFences`); one broker takes a tenth."""
REFUSED = {3, 4, 6, 8, 9}
"""Exit codes of commands that lack a right.

3, 6 and 8 where only a topic or a group is left out, 4 of doctor and smoke."""
UNUSED = {"heartbeats", "west.heartbeats", "mmtool-canary", "west.mmtool-canary"}
"""Topics in which nothing happens while a test takes rights away."""
ABSENT = {
    ("west", "mmtool-"),
    ("west", "east.checkpoints.internal"),
    ("east", "mm2-offset-syncs.west.internal"),
}
"""Internal topics of the reverse flow, which does not run here."""
SELDOM = {SYNCS, "west.checkpoints.internal"}
"""Topics that a run writes only where offsets have moved, and that it reads only to look for MirrorMaker 2."""
SILENT = {
    "__consumer_offsets",  # only the time of a commit is unknown
    SYNCS,  # of flows that MirrorMaker 2 runs
    ("DESCRIBE_CONFIGS", "cluster"),  # brokers' settings are left out
    ("DESCRIBE", "topic"),  # a broker does not list what it hides; `doctor` names READ on literal names
}
"""Rights whose absence no command reports."""


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
            produce(self.west, Load(topic, 50, 1, 100))
            commit(self.west, group, topic, 10)

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
            produce(self.west, Load(topic, 4, 1, 100, first_sequence=next(self.records)))
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

    def users_data(self):
        """What a refused command leaves as it is: mirrored records, and the groups' offsets on both clusters."""
        there = [topic for topic in ("west.orders", "west.bills-eu") if topic in topics_of(self.east)]
        return (
            {topic: end_offsets(self.east, topic) for topic in there},
            [groups_of(at).commits(["app", "pay-1"]) for at in (self.west, self.east)],
        )


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
    """The rights on what exists."""
    return [row for row in rows if row["name"] not in UNUSED and (row["cluster"], row["name"]) not in ABSENT]


def faults(stage, rows, ways, ask, *, silent=()):
    """Rights that no command names while they are missing, and refusals that came late or after a change."""
    return [
        f"{label(row)} {fault}"
        for row in rows
        if row["name"] not in silent and (row["operation"], row["resource_type"]) not in silent
        for fault in faults_without(stage, row, ways, ask)
    ]


def faults_without(stage, row, ways, ask):
    before, said = stage.users_data(), []
    with stage.grants.without(row):
        time.sleep(SETTLED)
        for words in ways:
            answer = ask(*words)
            said.append(f"{' '.join(words)}: {answer.code} {answer.stderr[-300:]}")
            if is_named(row, answer.stderr + answer.stdout) and answer.code in REFUSED:
                break
        else:
            return [f"is not named: {said}"]
    late = answer.code == 9 and answer.seconds > patience(10)
    changed = answer.code == 9 and len(said) == 1 and stage.users_data() != before
    return ["is named late"] * late + [f"is refused after a change: {said}"] * changed


@pytest.fixture
def same(stage, mmtool):
    """The file of a flow with the source's offsets and transactions, whose rights are granted to ``mm``, and these."""
    lines = {"west->east.topics": "sums", "mmtool.offsets": "same"}
    path = write_file(stage.directory / "same.properties", user_lines(stage.clusters, "mm") | LINES | lines)
    rows = mmtool("acls", "-c", path, "--for", "replicate", "--format", "json").rows
    stage.grants.replace(rows)
    return path, rows


def same_offsets_of(answer):
    return [row for row in answer.rows if row["check"] == "same_offsets"]


def test_without_the_right_to_write_markers_the_start_is_refused_and_nothing_is_created(stage, same, mmtool):
    path, rows = same
    create_topic(stage.west, "sums", 2)
    produce(stage.west, Load("sums", 60, 2, 100, transactions=Transactions("sums", 10, 2)))
    (alter,) = (row for row in rows if row["resource_type"] == "cluster" and row["operation"] == "ALTER")
    before = [topics_of(at) for at in (stage.west, stage.east)]
    with stage.grants.without(alter):
        time.sleep(SETTLED)
        answer = run_mmtool(stage.directory / "run", "replicate", "-c", str(path), timeout=60)
        (found,) = same_offsets_of(mmtool("doctor", "-c", path, "-o", "json"))
    assert (found["severity"], is_named(alter, found["message"])) == ("problem", True), found
    errors = [line for line in answer.said if line.startswith("error: ")]
    assert (answer.code, len(errors), is_named(alter, errors[0])) == (9, 1, True), errors
    assert [topics_of(at) for at in (stage.west, stage.east)] == before


def test_before_a_flow_exists_a_right_to_create_its_topics_is_named(stage, mmtool):
    """Each denied right ends the start before the topics of the rights after it are created."""
    rows = stage.rights(mmtool, "replicate")
    create = [row for row in rows if row["operation"] == "CREATE" and row["name"] in {"mmtool-", SYNCS}]
    assert not (found := faults(stage, create, [UNTIL], stage.replicate)), "\n".join(found)


def test_the_rights_of_replicate_are_enough_for_all_that_an_owner_does(stage, mmtool):
    stage.rights(mmtool, "replicate")
    with MmtoolProcess(stage.directory / "mm", "replicate", "-c", str(stage.mm)) as process:
        wait_until(
            lambda: stage.has_committed("app") and stage.has_beaten(), "offsets, heartbeats", 90, poll=1
        )
        time.sleep(3 * INTERVAL_SECONDS)
        answer = process.stop()
    assert (answer.code, [line for line in answer.said if COMPLAINT.search(line)]) == (143, [])


def test_the_rights_of_replicate_are_enough_to_keep_the_sources_offsets(stage, same, mmtool):
    path, _ = same
    answer = run_mmtool(stage.directory / "run", "replicate", "-c", str(path), *UNTIL, timeout=90)
    assert (answer.code, [line for line in answer.said if COMPLAINT.search(line)]) == (0, [])
    assert end_offsets(stage.east, "west.sums") == end_offsets(stage.west, "sums")
    assert read_topic(stage.east, "west.sums") == read_topic(stage.west, "sums")
    (found,) = same_offsets_of(mmtool("doctor", "-c", path, "-o", "json"))
    assert (found["severity"], found["message"]) == ("ok", "mirrors can keep the source's offsets")


@pytest.mark.parametrize("count", [SAMPLED, pytest.param(None, marks=pytest.mark.chaos)], ids=["some", "all"])
def test_replicate_names_the_right_that_it_lacks(stage, mmtool, count):
    rows = [row for row in stage.rights(mmtool, "replicate") if not row["optional"]]
    named = [row for row in used(rows) if row["operation"] != "CREATE" and row["name"] not in SELDOM]
    some = random.Random(SEED).sample(named, count or len(named))
    assert not (found := faults(stage, some, [UNTIL], stage.replicate)), "\n".join(found)


@pytest.mark.parametrize("name", sorted(SELDOM))
def test_a_running_replicate_names_the_right_to_write_offsets_that_it_lacks(stage, mmtool, name):
    rows = stage.rights(mmtool, "replicate")
    (right,) = (row for row in rows if row["name"] == name and row["operation"] == "WRITE")
    with (
        stage.grants.without(right),
        MmtoolProcess(
            stage.directory / "denied", "replicate", "-c", str(stage.mm), "--every", "1"
        ) as process,
    ):
        process.wait_line("caught_up", 60)
        produce(stage.west, Load("orders", 400, 1, 100, first_sequence=next(stage.records)))
        commit(stage.west, "app", "orders", next(stage.records))
        wait_until(lambda: is_named(right, process.stderr), f"WRITE on {name} is named", 10)
        assert process.stop().code == 143


@pytest.mark.parametrize("words", READ, ids=" ".join)
def test_the_rights_of_read_are_enough(mirrored, mmtool, words):
    mirrored.rights(mmtool, "read")
    answer = mmtool(*words, "-c", mirrored.mm)
    assert (answer.code, [line for line in answer.said if COMPLAINT.search(line)]) == (0, [])


@pytest.mark.chaos
def test_commands_that_read_name_the_right_that_they_lack(mirrored, mmtool):
    rows = mirrored.rights(mmtool, "read")
    ways = [*READ, ("doctor",)]
    assert not (found := faults(mirrored, used(rows), ways, mirrored.asking(mmtool), silent=SILENT)), (
        "\n".join(found)
    )


@pytest.mark.parametrize("count", [SAMPLED, pytest.param(None, marks=pytest.mark.chaos)], ids=["some", "all"])
def test_doctor_finds_the_rights_of_replicate_enough_and_names_each_that_is_missing(
    mirrored, mmtool, monkeypatch, count
):
    monkeypatch.setattr(doctor_groups, "LOOK_SECONDS", 0.1)  # groups that go on committing are not meant here
    rows = [row for row in used(mirrored.rights(mmtool, "replicate")) if not row["optional"]]
    answer = mmtool("doctor", "-c", mirrored.mm, "-o", "json")
    assert [row for row in answer.rows if (row["check"], row["severity"]) == ("right", "problem")] == []
    needed = [row for row in rows if row["operation"] != "CREATE"]  # the topics exist by now
    some = random.Random(SEED).sample(needed, count or len(needed))
    found = faults(mirrored, some, [("doctor",)], mirrored.asking(mmtool), silent=SILENT - {SYNCS})
    assert not found, "\n".join(found)


def test_doctor_with_the_rights_of_read_misses_only_rights_to_change(mirrored, mmtool):
    mirrored.rights(mmtool, "read")
    rows = mmtool("doctor", "-c", mirrored.mm, "-o", "json").rows
    problems = [row["message"] for row in rows if row["severity"] == "problem"]
    assert [
        message for message in problems if not re.search("lacks (WRITE|READ on group|CREATE)", message)
    ] == []


def test_the_rights_of_failover_are_enough(mirrored, mmtool):
    mirrored.rights(mmtool, "failover")
    ended = {words: mmtool(*words, "-c", mirrored.mm) for words in OPERATIONS}
    assert [(words, answer.stderr) for words, answer in ended.items() if answer.code] == []


@pytest.mark.parametrize("count", [SAMPLED, pytest.param(None, marks=pytest.mark.chaos)], ids=["some", "all"])
def test_failovers_name_the_right_that_they_lack(mirrored, mmtool, count):
    rows = [row for row in mirrored.rights(mmtool, "failover") if not row["optional"]]
    needed = [row for row in used(rows) if row["operation"] != "CREATE"]  # the topics exist by now
    some = random.Random(SEED).sample(needed, count or len(needed))
    assert not (found := faults(mirrored, some, OPERATIONS, mirrored.asking(mmtool))), "\n".join(found)


def test_the_rights_of_smoke_are_enough_and_each_that_is_missing_is_named(mirrored, mmtool):
    rows = [row for row in mirrored.rights(mmtool, "smoke") if not row["optional"]]
    assert mmtool("smoke", "--timeout", "40s", "-c", mirrored.mm).code == 0
    needed = [row for row in rows if row["operation"] != "CREATE"]  # the topic exists by now
    assert not (found := faults(mirrored, needed, [("smoke", "--timeout", "9s")], mirrored.asking(mmtool))), (
        "\n".join(found)
    )


@pytest.mark.parametrize("count", [SAMPLED, pytest.param(None, marks=pytest.mark.chaos)], ids=["some", "all"])
def test_the_rights_of_verify_are_enough_and_each_that_is_missing_is_named(mirrored, mmtool, count):
    rows = [row for row in mirrored.rights(mmtool, "verify") if not row["optional"]]
    assert mirrored.run("verify").code == 0
    some = random.Random(SEED).sample(used(rows), count or len(used(rows)))
    assert not (found := faults(mirrored, some, [("verify",)], mirrored.run)), "\n".join(found)
