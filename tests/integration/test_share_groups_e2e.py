"""A share group with several members and acknowledged gaps moves: what it had left is read, and nothing is skipped."""

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from kit.consumers import share
from kit.kafka_tools import blocks_of
from kit.lookups import groups_of
from kit.mirror_flow import mirror
from mmtool.lab.topics import create_topic, read_topic
from mmtool.plan.groups.facts import Commit, GroupKind
from mmtool.translation.types import TopicPartition

pytestmark = pytest.mark.kafka

RECORDS, PARTITIONS = 400, 2
CONFIGS = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"}
"""A client that fetches ahead takes records and gives them back: with a limit of 5 some would be given to nobody."""


def send(bootstrap, topic, numbers):
    """Each number as a record of its own."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


class Shared:
    """A mirrored topic, and a share group of two members that has acknowledged most of it, with gaps."""

    def __init__(self, bench, name):
        self.source, self.target = (bench.fleet[side].bootstrap for side in ("source", "target"))
        self.topic = self.group = name
        create_topic(self.source, name, PARTITIONS)
        send(self.source, name, range(RECORDS // 4))
        mirror(bench.flow(bench.properties(name)))  # offsets differ from here on: markers of a claim
        send(self.source, name, range(RECORDS // 4, RECORDS))
        places = [TopicPartition(name, number) for number in range(PARTITIONS)]
        groups = groups_of(self.source)
        assert groups.alter(name, dict.fromkeys(places, Commit(0)), GroupKind.SHARE) == {}
        assert groups.configure(name, CONFIGS) is None
        with ThreadPoolExecutor() as pool:
            of = [
                pool.submit(share, self.source, name, name, lambda m: m.offset() % 7 != 3, 1)
                for _ in range(2)
            ]
            self.accepted = [record for one in of for record in one.result()]
        self.properties = bench.properties(name)
        self.remote = bench.flow(self.properties).remote_topic(name)

    def rest(self):
        """What the group is given on the target, to the end."""
        with ThreadPoolExecutor() as pool:
            of = [pool.submit(share, self.target, self.group, self.remote) for _ in range(3)]
            return [record for one in of for record in one.result()]

    def check(self, partitions):
        """Held against the records: every one is read, and no more are read again than was said."""
        before, after = (Counter((r.partition, r.value) for r in of) for of in (self.accepted, self.rest()))
        everything = Counter((r.partition, r.value) for r in read_topic(self.source, self.topic))
        assert max(before.values()) == 1
        assert set(before) | set(after) == set(everything)
        again = sum((before & after).values())
        assert 0 < again <= sum(row["reread_max"] for row in partitions)


@pytest.fixture
def shared(bench):
    return Shared(bench, f"shared-{time.monotonic_ns()}")


def test_a_planned_failover_moves_it_and_says_how_many_records_it_is_given_again(mmtool, bench, shared):
    line = (
        "failover",
        "planned",
        "-c",
        shared.properties,
        "-g",
        shared.group,
        "--execute",
        "--yes",
        "-o",
        "json",
    )
    answer = mmtool(*line)
    assert answer.code == 0, answer.stderr
    (row,) = json.loads(answer.stdout)["data"]
    (group,) = row["groups"]
    assert (row["state"], row["rpo_records"], group["kind"]) == ("completed", 0, "share")
    assert "bounded" in {one["exactness"] for one in group["partitions"]} <= {"bounded", "exact"}
    assert sum(one["reread_max"] for one in group["partitions"]) <= len(shared.accepted)
    shared.check(group["partitions"])


def test_it_moves_to_another_name_on_the_target_with_its_configs(mmtool, bench, shared, tmp_path):
    other, names = f"{shared.group}-dr", tmp_path / "names.csv"
    names.write_text(f"{shared.group},{other}\n")
    line = ("failover", "planned", "-c", shared.properties, "-g", shared.group, "--group-map", names)
    answer = mmtool(*line, "--execute", "--yes", "-o", "json")
    assert answer.code == 0, answer.stderr
    (group,) = json.loads(answer.stdout)["data"][0]["groups"]
    assert (group["group"], group["target_group"], group["kind"]) == (shared.group, other, "share")
    there = groups_of(shared.target)
    assert there.configs([shared.group, other]) == {shared.group: {}, other: CONFIGS}
    assert (there.listing().kind(other), shared.group in there.listing().states) == (GroupKind.SHARE, False)
    shared.group = other
    shared.check(group["partitions"])


def test_offset_sync_keeps_it_under_another_name_on_the_target(mmtool, bench, shared, tmp_path):
    other, names = f"{shared.group}-dr", tmp_path / "names.csv"
    names.write_text(f"{shared.group},{other}\n")
    line = ("groups", "sync", "--once", "-c", shared.properties, "-g", shared.group, "-o", "json")
    for more in (("--group-map", names), ()):  # the stored name counts
        answer = mmtool(*line, *more)
        assert answer.code == 0, answer.stderr
        (row,) = json.loads(answer.stdout)["data"]
        assert (row["state"], row["target_group"]) == ("synced", other)
    there = groups_of(shared.target)
    assert there.configs([shared.group, other]) == {shared.group: {}, other: CONFIGS}
    assert (there.listing().kind(other), shared.group in there.listing().states) == (GroupKind.SHARE, False)


def test_replicate_keeps_it_and_its_configs_under_another_name_on_the_target(bench, shared, tmp_path):
    other, names = f"{shared.group}-dr", tmp_path / "names.csv"
    names.write_text(f"{shared.group},{other}\n")
    keys = {"mmtool.group.map": str(names), "sync.group.offsets.enabled": "true"}
    caught_up = bench.catch_up(bench.properties(shared.topic, **keys))
    assert caught_up.code == 0, caught_up.stderr
    there = groups_of(shared.target)
    assert there.configs([shared.group, other]) == {shared.group: {}, other: CONFIGS}
    assert (there.listing().kind(other), shared.group in there.listing().states) == (GroupKind.SHARE, False)
    assert there.commits([other])[other].keys() == {
        TopicPartition(shared.remote, n) for n in range(PARTITIONS)
    }


def test_its_configs_come_along_and_a_replaced_value_is_named_with_the_command_that_restores_it(
    mmtool, bench, shared, by_hand
):
    old = {"share.auto.offset.reset": "latest"}
    assert groups_of(shared.target).configure(shared.group, old) is None
    answer = mmtool(
        "translate-offsets", "-c", shared.properties, "-g", shared.group, "--execute", "--yes", "-o", "json"
    )
    assert answer.code == 0, answer.stderr
    rows = json.loads(answer.stdout)["data"]
    assert {(row["kind"], row["written"]) for row in rows} == {("share", True)}
    own = groups_of(shared.target).configs([shared.group])[shared.group]
    assert own == CONFIGS
    (warning,) = [one for one in json.loads(answer.stdout)["warnings"] if "share.auto.offset.reset" in one]
    assert "share.auto.offset.reset is earliest, as on source; before it was latest" in warning
    by_hand(warning.partition("this command does: ")[2].replace("HOST:PORT", shared.target))
    assert groups_of(shared.target).configs([shared.group])[shared.group] == CONFIGS | old


def test_a_rollback_of_its_failback_leaves_the_topic_mirrored_as_before(mmtool, bench, shared):
    where = ("-c", shared.properties, "-g", shared.group, "--execute", "--yes", "-o", "json")
    for mode in ("planned", "failback"):
        moved = mmtool("failover", mode, *where)
        assert moved.code == 0, moved.stderr
    operation = json.loads(moved.stdout)["data"][0]["operation_id"]
    undone = mmtool("failover", "rollback", operation, "-c", shared.properties, "--execute", "--yes")
    assert undone.code == 0, undone.stderr
    send(shared.source, shared.topic, range(RECORDS, RECORDS + 10))
    caught_up = bench.catch_up(shared.properties)
    assert caught_up.code == 0, caught_up.stderr
    copies = {record.value for record in read_topic(shared.target, shared.remote)}
    assert {b"%d" % number for number in range(RECORDS + 10)} <= copies


def test_it_comes_home_and_an_undo_takes_the_move_back(mmtool, bench, shared):
    where = ("-c", shared.properties, "-g", shared.group, "-o", "json")
    before = groups_of(shared.source).commits([shared.group])
    moved = mmtool("failover", "planned", *where, "--execute", "--yes")
    assert moved.code == 0, moved.stderr
    operation = json.loads(moved.stdout)["data"][0]["operation_id"]
    undone = mmtool("failover", "rollback", operation, "-c", shared.properties, "--execute", "--yes")
    assert undone.code == 0, undone.stderr
    assert groups_of(shared.target).commits([shared.group]) == {shared.group: {}}
    assert groups_of(shared.source).commits([shared.group]) == before


def test_every_screen_names_its_kind(mmtool, bench, shared):
    where = ("-c", shared.properties, "-g", shared.group, "-o", "json")
    for command in (("groups", "audit"), ("translate-offsets",), ("status", "--groups")):
        answer = mmtool(*command, *where)
        assert answer.code in (0, 3, 4), answer.stderr
        rows = json.loads(answer.stdout)["data"]
        assert {row["kind"] for row in rows} == {"share"}, command
    drilled = mmtool("failover", "drill", *where)
    assert drilled.code == 0, drilled.stderr
    assert json.loads(drilled.stdout)["data"][0]["groups"][0]["kind"] == "share"


def test_its_runbook_moves_it_by_hand_with_kafkas_own_tool_and_takes_it_back(
    mmtool, shared, tmp_path, by_hand
):
    page = tmp_path / "page.md"
    line = ("failover", "planned", "-c", shared.properties, "-g", shared.group, "-o", "json")
    planned = mmtool(*line, "--runbook", page)
    assert planned.code == 0, planned.stderr
    ((planned,),) = (one["groups"] for one in json.loads(planned.stdout)["data"])
    steps = blocks_of(page.read_text())
    source_first = steps["check_groups"].splitlines(keepends=True)[0]
    assert shared.group in by_hand(source_first)
    write, _, back = steps["write"].partition("# to undo:\n")
    by_hand(write)
    wanted = {
        TopicPartition(shared.remote, p["partition"]): p["downstream_offset"] for p in planned["partitions"]
    }
    written = groups_of(shared.target).commits([shared.group])[shared.group]
    assert {place: commit.offset for place, commit in written.items()} == wanted
    by_hand("".join(line.removeprefix("# ") for line in back.splitlines(keepends=True)))
    assert groups_of(shared.target).commits([shared.group])[shared.group] == {}


@pytest.mark.parametrize("synced", [False, True], ids=["new on the target", "synced before"])
def test_an_emergency_moves_it_by_what_the_target_knows(mmtool, bench, shared, synced):
    """The source is not there any more: checkpoints, kind and configs are."""
    caught_up = bench.catch_up(shared.properties)
    assert caught_up.code == 0, caught_up.stderr
    if synced:
        answer = mmtool("groups", "sync", "--once", "-c", shared.properties, "-g", shared.group)
        assert answer.code == 0, answer.stderr
    away = bench.properties(shared.topic, **{"source.bootstrap.servers": "127.0.0.1:1"})
    line = ("failover", "emergency", "-c", away, "-g", shared.group, "-o", "json")
    answer = mmtool(*line, "--execute", "--yes", "--accept-data-loss")
    assert answer.code == 0, answer.stderr
    (group,) = json.loads(answer.stdout)["data"][0]["groups"]
    assert (group["kind"], {one["exactness"] for one in group["partitions"]}) == ("share", {"bounded"})
    own = groups_of(shared.target).configs([shared.group])[shared.group]
    assert own == CONFIGS
    shared.check(group["partitions"])


def test_offset_sync_keeps_it_on_the_target(mmtool, bench, shared):
    for _ in range(2):
        answer = mmtool("groups", "sync", "--once", "-c", shared.properties, "-g", shared.group, "-o", "json")
        assert answer.code == 0, answer.stderr
        (row,) = json.loads(answer.stdout)["data"]
        assert row["state"] == "synced"
    assert groups_of(shared.target).listing().kind(shared.group) is GroupKind.SHARE


def test_what_is_exported_is_imported_as_a_share_group(mmtool, bench, shared, tmp_path):
    exported = mmtool("groups", "export", "-c", shared.properties, "-g", shared.group)
    assert exported.code == 0, exported.stderr
    file = tmp_path / "offsets.csv"
    file.write_text(exported.stdout)
    line = ("groups", "import", str(file), "-c", shared.properties, "-g", shared.group)
    rehearsed = mmtool(*line)
    assert rehearsed.code == 0, rehearsed.stderr
    assert (
        f"on source, group {shared.group} is a share group: once it is a consumer group" in rehearsed.stderr
    )
    line = (*line, "-o", "json", "--execute", "--yes")
    answer = mmtool(*line, "--kind", "share")
    assert (answer.code, json.loads(answer.stdout)["warnings"]) == (0, []), answer.stderr
    assert {row["kind"] for row in json.loads(answer.stdout)["data"]} == {"share"}
    found = groups_of(shared.target)
    assert found.listing().kind(shared.group) is GroupKind.SHARE
    again = mmtool(*line, "--kind", "consumer")
    assert again.code == 3
    assert f"group {shared.group} is a share group" in again.stderr


def test_a_consumer_group_of_its_name_on_the_target_is_left_alone(mmtool, bench, shared):
    place = TopicPartition(shared.remote, 0)
    assert groups_of(shared.target).alter(shared.group, {place: Commit(1)}) == {}
    answer = mmtool("failover", "planned", "-c", shared.properties, "-g", shared.group, "--execute", "--yes")
    assert answer.code == 3
    assert f"group {shared.group} is a consumer group" in answer.stderr
    assert groups_of(shared.target).commits([shared.group]) == {shared.group: {place: Commit(1)}}
