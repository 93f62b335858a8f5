"""A user who may create no topic: `mmtool acls --topics` lists the topics, and mmtool waits until they are there."""

import re
import shlex
from contextlib import ExitStack

import pytest

from kit.acls import Grants, user_lines, write_file
from kit.fences import guarded_cluster
from kit.kafka_tools import run_tool
from kit.lab_admin import delete_topic, grow_topic
from kit.load import Load, produce
from kit.lookups import commit, committed
from kit.processes import MmtoolProcess, error_of
from mmtool.config import ClusterSettings
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.lab.ports import patience, wait_until
from mmtool.lab.topics import create_topic, end_offsets, topics_of
from mmtool.plan.topics.facts import CreateTopic, GrowTopic

pytestmark = pytest.mark.kafka

LINES = {
    "west->east.enabled": "true",
    "west->east.topics": "orders, bills-.*",
    "west->east.groups": "app",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "sync.group.offsets.enabled": "true",
    "mmtool.create.topics": "false",
    "mmtool.round.seconds": "5",
} | {
    f"{name}.interval.seconds": "2"
    for name in ("emit.checkpoints", "emit.heartbeats", "refresh.groups", "refresh.topics", "sync.group.offsets")
}  # fmt: skip
CONTROL = "mmtool-control.west.internal"
JOURNAL = "mmtool-journal.internal"
INTERNAL = {
    "east": {
        CONTROL: 1,
        "mmtool-offset-runs.west.internal": 8,
        "mmtool-producers.internal": 1,
        JOURNAL: 1,
        "west.checkpoints.internal": 1,
        "heartbeats": 1,
    },
    "west": {"mm2-offset-syncs.east.internal": 1, "heartbeats": 1},
}
MIRRORS = {"west.orders": 3, "west.bills-eu": 2, "west.heartbeats": 1}
PLANNED = ("failover", "planned", "-g", "app", "--execute", "--yes")
TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
}


class Stage:
    """Two guarded clusters with topics and a group on the source, and a user without the right to create topics."""

    def __init__(self, clusters, directory, mmtool):
        self.directory, self.mmtool = directory, mmtool
        self.path, self.boss = (
            write_file(directory / f"{user}.properties", user_lines(clusters, user) | LINES)
            for user in ("mm", "boss")
        )
        self.at = {alias: cluster.lab.bootstrap for alias, cluster in clusters.items()}
        self.west, self.east = self.at["west"], self.at["east"]
        create_topic(self.west, "orders", 3, **{"cleanup.policy": "compact", "segment.ms": "3600000"})
        create_topic(self.west, "bills-eu", 2)
        for topic, partitions in (("orders", 3), ("bills-eu", 2)):
            produce(self.west, Load(topic, 30, partitions, 100, keys="sequence"))
        commit(self.west, "app", "bills-eu", 10)
        rows = self.ask(
            "acls", "--for", "replicate", "--for", "failover", "--for", "smoke", "-o", "json"
        ).rows
        assert not [row for row in rows if row["operation"] == "CREATE"]
        Grants(clusters, "mm").replace(rows)

    def ask(self, *words):
        return self.mmtool(*words, "-c", self.path)

    def replicate(self):
        return MmtoolProcess(self.directory / "run", "replicate", "-c", str(self.path))

    def run_printed(self):
        """Run the lines of ``--format kafka-topics`` with Kafka's own tools, as a user who may do everything."""
        lines = self.ask(
            "acls", "--topics", "--for", "replicate", "--format", "kafka-topics"
        ).stdout.splitlines()
        alias = ""
        for line in lines:
            if line.startswith("# cluster "):
                alias = line.removeprefix("# cluster ")
            elif not line.startswith("#"):
                tool, _, _, *words = shlex.split(line)
                run_tool(TOOLS[tool], self.at[alias], *words)
        return lines

    def apply_json(self):
        """Create or grow the topics of the JSON document through an admin client."""
        for row in self.ask("acls", "--topics", "--for", "replicate", "--format", "json").rows:
            admin = TopicAdmin(self.settings(row["cluster"]))
            if row["state"] == "missing":
                about = ("", row["topic"], row["partitions"], row["replication_factor"], row["configs"])
                assert admin.create([CreateTopic(*about)]) == {}
            elif (have := row["has_partitions"]) < row["partitions"]:
                assert admin.grow([GrowTopic("", row["topic"], have, row["partitions"])]) == {}

    def settings(self, alias):
        return ClusterSettings(alias=alias, bootstrap_servers=self.at[alias])

    def listed(self, *words):
        """The rows of ``--topics``, by cluster and topic."""
        rows = self.ask("acls", "--topics", *words, "-o", "json").rows
        return {(row["cluster"], row["topic"]): row for row in rows}

    def wait_mirrored(self, topic):
        target = f"west.{topic}"
        wait_until(
            lambda: (
                target in topics_of(self.east)
                and end_offsets(self.east, target) == end_offsets(self.west, topic)
            ),
            f"{topic} is mirrored",
            patience(60),
            poll=0.5,
        )


@pytest.fixture
def stage(request, tmp_path, mmtool):
    with ExitStack() as ends:
        clusters = {
            alias: ends.enter_context(guarded_cluster(tmp_path / alias, *request.param))
            for alias in ("west", "east")
        }
        yield Stage(clusters, tmp_path, mmtool)


def made_on(at):
    """The topics of a cluster, with their partitions, but for Kafka's own."""
    return {name: count for name, count in topics_of(at).items() if not name.startswith("__")}


def assert_named_before_the_start(stage, process):
    """What is missing or differs is named by each command, and nothing is made."""
    process.wait_line("cannot start yet: topics mmtool-offset-runs.west.internal, .* on east are missing; ")
    wrong = f"topic {CONTROL} on east has cleanup.policy=delete instead of compact"
    assert re.search(f"{re.escape(wrong)}; .*mmtool acls --topics", process.stderr)
    (row,) = stage.ask("status", "-o", "json").rows
    assert (row["state"], wrong in row["reason"]) == ("never_ran", True)
    checks = [row for row in stage.ask("doctor", "-o", "json").rows if row["severity"] == "problem"]
    assert {row["check"] for row in checks} <= {"topics", "compaction"}, checks
    named = {row["subject"] for row in checks if row["check"] == "topics"}
    assert {"west.orders", "west.bills-eu", CONTROL} <= named
    listed = stage.listed("--for", "replicate")
    wanted = {("east", name): count for name, count in (INTERNAL["east"] | MIRRORS).items()} | {
        ("west", name): count for name, count in INTERNAL["west"].items()
    }
    assert {place: row["partitions"] for place, row in listed.items()} == wanted
    configs = {"cleanup.policy": "compact", "segment.ms": "3600000"}
    assert listed["east", "west.orders"]["configs"] == configs
    assert listed["east", "west.bills-eu"]["state"] == "different"


def assert_mirrors_are_awaited(stage, process):
    """Topics without a mirror, or with another one, wait for it, and the others are mirrored."""
    create_topic(stage.east, "west.bills-odd", 1, **{"cleanup.policy": "compact"})
    for topic in ("bills-late", "bills-odd"):
        create_topic(stage.west, topic, 2)
        produce(stage.west, Load(topic, 10, 2, 100, keys="sequence"))
    grow_topic(stage.west, "orders", 4)
    for said in (
        "bills-late is not mirrored: target topic west.bills-late is missing: mmtool.create.topics = false: run",
        "orders is not mirrored: target topic west.orders has 3 partitions, 4 are needed: mmtool.create.topics",
        "bills-odd is not mirrored: topic west.bills-odd on east has 1 partition instead of 2 and cleanup.policy=",
    ):
        process.wait_line(f"topic {said}")
    rows = [row for row in stage.ask("status", "-o", "json").rows if row["topic"] == "bills-late"]
    assert {row["state"] for row in rows} == {"halted"}
    assert all("target topic west.bills-late is missing" in row["reason"] for row in rows)
    stage.run_printed()
    stage.wait_mirrored("bills-late")
    stage.wait_mirrored("bills-odd")
    produce(stage.west, Load("orders", 8, 4, 100, first_sequence=30, keys="sequence"))
    stage.wait_mirrored("orders")


def assert_commands_are_refused(stage):
    """A command that lacks a topic writes nothing, and names it."""
    smoke = stage.ask("smoke", "-o", "json", "--timeout", "20s")
    said = "step topic failed: topic mmtool-canary on west is missing; mmtool.create.topics = false"
    assert (smoke.code, error_of(smoke)["message"]) == (4, f"smoke test of west->east: {said}")
    assert {("west", "mmtool-canary"), ("east", "west.mmtool-canary")} <= stage.listed().keys()
    delete_topic(stage.east, JOURNAL)
    before = made_on(stage.east)
    refused = stage.ask(*PLANNED, "-o", "json")
    assert (refused.code, error_of(refused)["code"]) == (3, "topics_missing")
    assert f"topic {JOURNAL} on east is missing" in error_of(refused)["message"]
    assert made_on(stage.east) == before
    stage.run_printed()


@pytest.mark.parametrize("stage", [()], indirect=True, ids=["4.4"])
def test_topics_that_kafkas_tool_creates_from_the_list_are_all_that_a_flow_and_a_failover_need(stage):
    """Wrong topics are named, and wait for their mending, which a running replicate notices by itself."""
    create_topic(stage.east, CONTROL, 1, **{"cleanup.policy": "delete"})
    create_topic(stage.east, "west.bills-eu", 1, **{"cleanup.policy": "compact"})
    before = made_on(stage.east)
    with stage.replicate() as process:
        assert_named_before_the_start(stage, process)
        assert made_on(stage.east) == before
        stage.run_printed()
        stage.wait_mirrored("orders")
        stage.wait_mirrored("bills-eu")
        assert {row["state"] for row in stage.listed("--for", "replicate").values()} == {"ready"}
        assert_mirrors_are_awaited(stage, process)
        wait_until(lambda: committed(stage.east, "app"), "the group's offsets", patience(30), poll=0.5)
        assert_commands_are_refused(stage)
        moved = stage.ask(*PLANNED)
        assert moved.code == 0, moved.stderr
        assert committed(stage.east, "app") == {("west.bills-eu", 0): 10}
        assert not re.findall("denie|AUTHORIZATION", process.stderr)
        assert process.stop().code == 143
    late = {"west.orders": 4, "west.bills-late": 2, "west.bills-odd": 2}
    assert made_on(stage.east) == INTERNAL["east"] | MIRRORS | late


@pytest.mark.parametrize("stage", [("3.9.1",)], indirect=True, ids=["3.9"])
def test_a_run_to_the_end_is_refused_without_its_topics_and_the_json_list_makes_it_work(stage):
    """Also a user who may do everything creates nothing with ``mmtool.create.topics = false``."""
    before = [made_on(at) for at in (stage.west, stage.east)]
    for path in (stage.path, stage.boss):
        refused = stage.mmtool("replicate", "--until-caught-up", "-o", "json", "-c", path)
        assert (refused.code, error_of(refused)["code"]) == (3, "topics_missing")
    assert [made_on(at) for at in (stage.west, stage.east)] == before
    stage.apply_json()
    answer = stage.ask("replicate", "--until-caught-up")
    assert answer.code == 0, answer.stderr
    stage.wait_mirrored("orders")
    assert committed(stage.east, "app") == {("west.bills-eu", 0): 10}
