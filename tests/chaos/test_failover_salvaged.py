"""The whole way with ``--diverged topic`` on real brokers, killed in the middle of the diverged records.

What never left home is once in the topic, and is once on the other side; a release brings nothing twice.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from kit.bench import Bench
from kit.black_hole import BlackHole
from kit.chaos.journey import commit
from kit.consumers import consume
from kit.load import Load, Transactions, produce
from kit.processes import run_mmtool
from mmtool.lab.topics import create_topic, read_topic
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

PARTITIONS, FIRST, TAIL, BORN = 3, 300, 40, 120
ONE_NAME = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "target->source.enabled": "true",
}


@dataclass
class Story:
    """Clusters ``source`` (home) and ``target``, two topics of one name, and an application that has read all."""

    bench: Bench
    folder: Path
    stem: str
    extra: dict[str, str]

    @property
    def topics(self):
        return [f"{self.stem}-plain", f"{self.stem}-tx"]

    @property
    def places(self):
        return [TopicPartition(topic, number) for topic in self.topics for number in range(PARTITIONS)]

    @property
    def group(self):
        return f"{self.stem}-app"

    def bootstrap(self, side):
        return self.bench.fleet[side].bootstrap

    def properties(self, **more):
        return self.bench.properties(f"{self.stem}-.*", **self.extra, **more)

    def fill(self, side, count, first):
        """Into the first topic plainly, into the second in transactions of which some are aborted."""
        for topic, transactions in zip(
            self.topics, (None, Transactions(self.topics[-1], 10, 4)), strict=True
        ):
            load = Load(
                topic,
                count,
                PARTITIONS,
                100,
                keys="sequence",
                first_sequence=first,
                transactions=transactions,
            )
            produce(self.bootstrap(side), load)

    def consume(self, side, *count):
        return bare(consume(self.bootstrap(side), self.group, self.topics, *count))

    def holds(self, side, topics=None):
        return bare(
            record for topic in topics or self.topics for record in read_topic(self.bootstrap(side), topic)
        )

    def words(self, *words, path=None):
        line = ("failover", *words, "-s", "source", "-t", "target", "-c", str(path or self.properties()))
        return [*line, "-o", "json"]

    def run(self, *words, path=None):
        return run_mmtool(self.folder / f"run-{time.monotonic_ns()}", *self.words(*words, path=path))

    def killed(self, when, what, *words):
        """Whether the command died where it was to."""
        line = [sys.executable, "-P", "-m", "kit.killed_at", when, what, *self.words(*words)]
        ended = subprocess.run(
            line, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
        )
        assert ended.returncode == -9, ended.stderr

    def catch_up(self):
        answer = self.bench.catch_up(self.properties(), "-s", "source", "-t", "target")
        assert answer.code == 0, answer.stderr

    def lose_home(self):
        """An emergency: who was at home goes on away, where producers write as well."""
        with BlackHole() as hole:
            lost = self.properties(**{"source.bootstrap.servers": hole.bootstrap})
            answer = self.run(
                "emergency", "-g", self.group, "--accept-data-loss", "--execute", "--yes", path=lost
            )
        assert answer.code == 0, answer.stderr
        self.fill("target", BORN, 10_000)


def bare(records):
    return Counter((record.key, record.value) for record in records)


@pytest.fixture
def story(fleet, tmp_path):
    """The mirror has all but the last records of home when that is lost."""
    stem = f"salvaged-{time.monotonic_ns()}"
    made = Story(Bench(fleet, tmp_path), tmp_path, stem, {"target->source.topics": f"{stem}-.*", **ONE_NAME})
    for topic in made.topics:
        create_topic(made.bootstrap("source"), topic, PARTITIONS)
    made.fill("source", FIRST, 0)
    # it stands in every partition, whichever topic it is given first: what it never read is not moved with it
    commit(made.bootstrap("source"), {made.group: dict.fromkeys(made.places, 0)})
    made.first = made.consume("source", FIRST)
    made.catch_up()
    mirrored = made.holds("source")
    made.fill("source", TAIL, FIRST)
    made.tail = made.holds("source") - mirrored
    made.lose_home()
    made.second = made.consume("target")
    return made


def test_into_a_topic_at_home_each_diverged_record_goes_once_though_its_writer_was_killed(story):
    salvage = f"salvage-{story.stem}"
    create_topic(story.bootstrap("source"), salvage, PARTITIONS)
    words = ("--diverged", "topic", salvage, "--execute", "--yes")
    story.killed("while-salvaging", "2", "failback", "-g", story.group, *words)
    (row,) = [
        row
        for row in story.run("list").rows
        if row["mode"] == "failback" and story.group in row["group_names"]
    ]
    answer = story.run("resume", row["operation_id"], "--execute", "--yes")
    assert (answer.code, answer.rows[0]["diverged_records"]) == (0, story.tail.total()), answer.stderr
    assert story.holds("source", [salvage]) == story.tail
    at_home = story.holds("source")
    assert story.first + story.second + story.consume("source") == at_home - story.tail
    story.catch_up()
    assert story.holds("target") == at_home
