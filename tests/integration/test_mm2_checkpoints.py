"""Checkpoints and group offsets, judged by MM2's own client library and by what translate-offsets answers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer

from mmtool.config import ClusterSettings
from mmtool.kafka.groups import KafkaGroups
from mmtool.lab.load import Load, Transactions, produce
from mmtool.lab.topics import create_topic, end_offsets
from mmtool.lab.waiting import wait_until
from mmtool.plan.group_facts import Commit
from mmtool.testing.mirror_client import ask_mirror_client
from mmtool.testing.processes import run_mmtool
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from mmtool.testing.processes import MmtoolProcess

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PATIENCE_SECONDS = 30
SECONDS = 20.0
EVERY_SECOND = {
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
}


def groups_of(cluster):
    return KafkaGroups(ClusterSettings(alias="lab", bootstrap_servers=cluster.bootstrap), SECONDS)


@dataclass(frozen=True)
class Flow:
    """A flow that runs, with one topic of two partitions, half of whose records are in transactions."""

    fleet: object
    topic: str
    remote: str
    properties: Path
    process: MmtoolProcess

    def commit(self, group, *offsets, cluster="source"):
        """Commits, partition by partition; None leaves one out."""
        topic = self.topic if cluster == "source" else self.remote
        places = {TopicPartition(topic, n): Commit(o) for n, o in enumerate(offsets) if o is not None}
        assert groups_of(self.fleet[cluster]).alter(group, places) == {}

    def there(self, group):
        """What is committed on the target, by partition."""
        commits = groups_of(self.fleet["target"]).commits([group])[group]
        return {place.partition: commit.offset for place, commit in commits.items()}

    def comes(self, group, *offsets):
        expected = {number: offset for number, offset in enumerate(offsets) if offset is not None}
        wait_until(lambda: self.there(group) == expected, f"{expected} for {group}", PATIENCE_SECONDS)

    def translated(self, folder, group):
        """What translate-offsets answers, by partition."""
        line = ("translate-offsets", "-c", str(self.properties), "-g", group, "-o", "json")
        answer = run_mmtool(folder / f"asked-{time.monotonic_ns()}", *line)
        assert answer.code == 0, answer.stderr
        return {row["partition"]: row["downstream_offset"] for row in answer.rows}


@pytest.fixture(scope="module")
def flow(bench):
    source = bench.fleet["source"].bootstrap
    topic = f"checked-{time.monotonic_ns()}"
    create_topic(source, topic, 2)
    produce(source, Load(topic, 600, 2, 100))
    produce(source, Load(topic, 600, 2, 100, transactions=Transactions(topic, 20, 3), first_sequence=600))
    properties = bench.properties(topic, **EVERY_SECOND)
    with bench.start(properties) as process:
        process.wait_line("caught_up")
        yield Flow(bench.fleet, topic, f"source.{topic}", properties, process)
        assert process.stop().code == 143


def test_mm2_s_own_client_reads_where_each_group_goes_on(flow, tmp_path):
    """The same as translate-offsets answers: exact, behind markers and between transactions."""
    group = f"{flow.topic}-app"
    flow.commit(group, 150, 431)
    flow.comes(group, *flow.translated(tmp_path, group).values())
    answers = ask_mirror_client(flow.fleet["target"].bootstrap, "checkpoints", f"offsets:source:{group}")
    expected = [f"{flow.remote}-{n}@{offset}" for n, offset in flow.translated(tmp_path, group).items()]
    assert answers[f"offsets:source:{group}"] == f"[{', '.join(expected)}]"
    assert "source.checkpoints.internal" in answers["checkpoints"]


def test_a_group_is_followed_and_never_moved_back(flow, tmp_path):
    group = f"{flow.topic}-follows"
    flow.commit(group, 10, 20)
    flow.comes(group, 10, 20)
    flow.commit(group, 30, 5)
    flow.comes(group, 30, 20)
    assert flow.translated(tmp_path, group)[0] == 30


def test_a_group_that_works_on_the_target_is_left_alone(flow):
    group = f"{flow.topic}-busy"
    target = flow.fleet["target"].bootstrap
    consumer = Consumer({"bootstrap.servers": target, "group.id": group, "enable.auto.commit": False})
    consumer.subscribe([flow.remote])
    wait_until(
        lambda: consumer.poll(0.1) is None and consumer.assignment(), "an assignment", PATIENCE_SECONDS
    )
    flow.commit(group, 40, 41)
    bystander = f"{flow.topic}-bystander"
    flow.commit(bystander, 7, 8)
    flow.comes(bystander, 7, 8)
    assert flow.there(group) == {}
    consumer.close()
    flow.comes(group, 40, 41)


def test_a_group_that_reads_to_the_end_is_followed_to_the_mirror_s_end(flow, tmp_path):
    """What it had read may not have been mirrored yet when it was asked first."""
    group, source = f"{flow.topic}-ahead", flow.fleet["source"].bootstrap
    flow.commit(group, 300, 300)
    flow.comes(group, 300, 300)
    produce(source, Load(flow.topic, 20, 2, 100, first_sequence=1200))
    flow.commit(group, end_offsets(source, flow.topic)[0], 300)
    end = end_offsets(flow.fleet["target"].bootstrap, flow.remote)
    wait_until(lambda: flow.there(group)[0] > 300, "the group's end", PATIENCE_SECONDS)
    flow.comes(group, *flow.translated(tmp_path, group).values())
    assert flow.there(group)[0] >= end[0]
