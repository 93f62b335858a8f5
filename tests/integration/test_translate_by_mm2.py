"""``translate-offsets`` for a flow that the real MirrorMaker 2 runs, and mmtool does not."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from mmtool.kafka.log_reader import read_log
from mmtool.kafka.synced import KafkaSynced
from mmtool.lab.load import Load, Transactions, produce
from mmtool.lab.mirror_maker import MirrorMaker
from mmtool.lab.topics import create_topic, end_offsets
from mmtool.plan.group_facts import Commit
from mmtool.testing.kafka_tools import consumer_groups
from mmtool.testing.lookups import groups_of
from mmtool.testing.mm2_truth import copied_partitions
from mmtool.testing.processes import Answer, run_mmtool
from mmtool.translation.mm2_records import Checkpoint, decode_checkpoint
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from mmtool.config import FlowSettings
    from mmtool.lab.fleet import Fleet

pytestmark = pytest.mark.kafka

RECORDS, PARTITIONS, GROUPS = 6_000, 2, 8
PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Mirrored:
    """A plain and a transactional topic that MM2 has mirrored, and groups that stand at parts of them.

    One more group has read everything.
    """

    fleet: Fleet
    properties: Path
    flow: FlowSettings
    topics: tuple[str, ...]
    groups: tuple[str, ...]

    @property
    def places(self) -> list[TopicPartition]:
        return [TopicPartition(topic, n) for topic in self.topics for n in range(PARTITIONS)]

    def ends(self, cluster: str, *, remote: bool = False) -> dict[TopicPartition, int]:
        bootstrap = self.fleet[cluster].bootstrap
        names = {topic: self.flow.remote_topic(topic) if remote else topic for topic in self.topics}
        return {
            TopicPartition(topic, n): end
            for topic, name in names.items()
            for n, end in end_offsets(bootstrap, name).items()
        }

    def commit(self) -> None:
        ends, groups = self.ends("source"), groups_of(self.fleet["source"].bootstrap)
        for number, group in enumerate(self.groups, start=1):
            read = {place: Commit(end * number // len(self.groups)) for place, end in ends.items()}
            assert groups.alter(group, read) == {}

    def checkpoints(self) -> dict[tuple[str, TopicPartition], Checkpoint]:
        topic = self.flow.policy.checkpoints_topic("source")
        found = {}
        for record in read_log(self.flow.target, topic):
            checkpoint = decode_checkpoint(record.key, record.value)
            if isinstance(checkpoint, Checkpoint) and checkpoint.group in self.groups:
                found[checkpoint.group, checkpoint.topic_partition] = checkpoint
        return found

    @cached_property
    def truth(self):
        names = {topic: self.flow.remote_topic(topic) for topic in self.topics}
        return copied_partitions(self.fleet["source"], self.fleet["target"], names)

    def run(self, *command: str, code: int = 0) -> Answer:
        selected = [word for group in self.groups for word in ("-g", group)]
        answer = run_mmtool(self.properties.parent, *command, "-c", str(self.properties), *selected)
        assert answer.code == code, answer
        return answer

    @cached_property
    def rows(self):
        return self.run("translate-offsets", "-o", "json").rows


@pytest.fixture(scope="module")
def mirrored(bench, tmp_path_factory) -> Mirrored:
    fleet, mark = bench.fleet, f"synced-{os.getpid()}"
    topics = (f"{mark}-plain", f"{mark}-payments")
    properties = bench.properties(
        f"{mark}-.*",
        **{
            "source->target.groups": f"{mark}.*",
            "emit.checkpoints.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "target.offset.flush.interval.ms": "1000",
            "source.consumer.isolation.level": "read_committed",
        },
    )
    groups = (*(f"{mark}-{number}" for number in range(1, GROUPS)), f'{mark} has "read" everything')
    made = Mirrored(fleet, properties, bench.flow(properties), topics, groups)
    source = fleet["source"].bootstrap
    for topic in topics:
        create_topic(source, topic, PARTITIONS)
    produce(source, Load(topics[0], RECORDS, PARTITIONS, record_bytes=100))
    transactions = Transactions(f"{mark}-tx", 37, 5)
    produce(source, Load(topics[1], RECORDS, PARTITIONS, record_bytes=100, transactions=transactions))
    made.commit()

    def checkpointed() -> bool:
        held = made.checkpoints()
        return len(held) == GROUPS * len(made.places) and _has_caught_up(made)

    with MirrorMaker(properties.read_text(), tmp_path_factory.mktemp("mm2")) as mm2:
        mm2.wait_until(checkpointed, "checkpoints of every group", PATIENCE_SECONDS)
        mm2.stop()
    return made


def _has_caught_up(made: Mirrored) -> bool:
    """The group that has read everything is told of as far as it can be."""
    ends = made.ends("target", remote=True)
    last = made.groups[-1]
    return all(
        made.checkpoints()[last, TopicPartition(made.flow.remote_topic(at.topic), at.partition)].downstream
        >= end - 1
        for at, end in ends.items()
    )


def test_every_group_has_an_answer_that_names_what_it_was_told_by(mirrored):
    assert {row["knowledge"] for row in mirrored.rows} == {"offset_syncs"}
    assert {row["exactness"] for row in mirrored.rows} == {"exact", "bounded"}
    assert len(mirrored.rows) == GROUPS * len(mirrored.places)


def test_no_answer_is_worse_than_mm2_s_own_checkpoint(mirrored, measured):
    held = mirrored.checkpoints()
    ours = theirs = 0
    for row in mirrored.rows:
        checkpoint = held[row["group"], TopicPartition(row["target_topic"], row["partition"])]
        assert checkpoint.upstream == row["upstream_offset"]
        assert row["downstream_offset"] >= checkpoint.downstream
        truth = mirrored.truth[row["topic"], row["partition"]]
        ours += truth.read_again(row["upstream_offset"], row["downstream_offset"])
        theirs += truth.read_again(checkpoint.upstream, checkpoint.downstream)
    measured(f"by MM2's topics {GROUPS} groups read {ours} records again, by its own checkpoints {theirs}")
    assert ours < theirs


def test_no_answer_skips_a_record_or_has_more_read_again_than_it_says(mirrored):
    """For every offset of every partition, both ways, whether the source answers or not."""
    maps = KafkaSynced(mirrored.flow).synced().maps
    for (topic, partition), truth in mirrored.truth.items():
        known = maps[TopicPartition(topic, partition)]
        assert list(truth.wrong_forward(known)) == []
        assert list(truth.wrong_back(known)) == []


def test_refined_by_the_records_every_answer_is_exact_and_carries_its_proof(mirrored):
    """The records before and after each boundary are the same on both sides."""
    rows = mirrored.run("translate-offsets", "--refine", "-o", "json").rows
    told_by = Counter(row["knowledge"] for row in rows)
    assert {row["exactness"] for row in rows} == {"exact"}
    assert told_by.keys() == {"offset_syncs", "records"}
    assert told_by["records"] == sum(row["exactness"] == "bounded" for row in mirrored.rows)
    for row in rows:
        truth, commit, answer = (
            mirrored.truth[row["topic"], row["partition"]],
            row["upstream_offset"],
            row["downstream_offset"],
        )
        assert truth.skipped(commit, answer) == []
        assert truth.read_again(commit, answer) == 0
        for side, pair in (row["proof"] or {}).items():
            if pair is not None:
                assert pair["upstream_sha256"] == pair["downstream_sha256"]
                assert (pair["upstream_offset"] < commit) == (side == "before")
                assert (pair["downstream_offset"] < answer) == (side == "before")
    assert sum(None not in (row["proof"] or {"": None}).values() for row in rows) > len(rows) / 2
    assert all((row["proof"] is not None) == (row["knowledge"] == "records") for row in rows)


def test_groups_are_synced_without_mmtool_s_own_mirror(mirrored):
    target = groups_of(mirrored.fleet["target"].bootstrap)
    (synced,) = {
        (row["state"], row["refused"]) for row in mirrored.run("groups", "sync", "--once", "-o", "json").rows
    }
    stands = {
        (group, at): commit.offset
        for group, of in target.commits(mirrored.groups).items()
        for at, commit in of.items()
    }
    assert synced == ("synced", 0)
    assert stands == {
        (row["group"], TopicPartition(row["target_topic"], row["partition"])): row["downstream_offset"]
        for row in mirrored.rows
    }


def test_kafka_s_own_tool_takes_what_is_exported_and_exports_the_same_bytes(mirrored, tmp_path):
    """Group names with blanks, quotes and commas, and long ones."""
    target = mirrored.fleet["target"].bootstrap
    file = tmp_path / "reset.csv"
    file.write_text(mirrored.run("groups", "export").stdout)
    selected = [word for group in mirrored.groups for word in ("--group", group)]
    consumer_groups(target, "--reset-offsets", "--from-file", str(file), "--execute", *selected)
    exported = consumer_groups(
        target, "--reset-offsets", "--to-current", "--all-topics", "--export", *selected
    )
    assert sorted(exported.splitlines()) == ["", *sorted(file.read_text().splitlines())]

    audited = mirrored.run("groups", "audit", "-o", "json").rows
    assert {row["verdict"] for row in audited} == {"synced"}


def test_what_kafka_s_tool_exports_can_be_imported(mirrored, tmp_path):
    target = mirrored.fleet["target"].bootstrap
    group = mirrored.groups[-1]
    file = tmp_path / "reset.csv"
    options = ("--reset-offsets", "--to-earliest", "--topic", mirrored.flow.remote_topic(mirrored.topics[0]))
    file.write_text(consumer_groups(target, *options, "--export", "--group", group))
    answer = run_mmtool(
        tmp_path,
        *("groups", "import", str(file), "-c", str(mirrored.properties), "-g", group),
        *("--allow-rewind", "--execute", "--yes", "-o", "json"),
    )
    assert [(row["offset"], row["written"]) for row in answer.rows] == [(0, True), (0, True)], answer
    assert {
        commit.offset
        for at, commit in groups_of(target).commits([group])[group].items()
        if "plain" in at.topic
    } == {0}
