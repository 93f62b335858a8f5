"""Switch over and back where both directions keep offsets and names: a record has one offset on both clusters."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass

import pytest

from kit.consumers import consume
from kit.load import Load, Transactions, produce
from kit.lookups import groups_of
from kit.processes import row_of, run_mmtool
from mmtool.lab.topics import create_topic, end_offsets, read_topic

pytestmark = pytest.mark.kafka

PARTITIONS, RECORDS, TAIL = 2, 300, 40
EXTRA = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "heartbeats.replication.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "target->source.enabled": "true",
    "mmtool.offsets": "same",
    "mmtool.hook.fence": "/bin/true",
}


@dataclass
class Shared:
    """Two topics of one name on both clusters, one of them written in transactions, and a group that reads both."""

    bench: object
    stem: str
    folder: object

    def __post_init__(self):
        self.topics, self.group = [f"{self.stem}-plain", f"{self.stem}-tx"], f"{self.stem}-app"
        pattern = f"{self.stem}-.*"
        self.properties = self.bench.properties(pattern, **EXTRA, **{"target->source.topics": pattern})
        self.written = 0

    def bootstrap(self, side):
        return self.bench.fleet[side].bootstrap

    def produce(self, side, count=RECORDS):
        for topic, how in zip(self.topics, (None, Transactions(f"{self.stem}-{side}", 10, 3)), strict=True):
            load = Load(
                topic, count, PARTITIONS, 100, keys="sequence", first_sequence=self.written, transactions=how
            )
            produce(self.bootstrap(side), load)
        self.written += count

    def run(self, *arguments):
        return run_mmtool(self.folder / f"run-{time.monotonic_ns()}", *arguments, "-c", str(self.properties))

    def asked(self, mode, *options):
        ways = ("-s", "source", "-t", "target")
        return self.run(
            "failover", mode, *ways, "-g", self.group, *options, "--execute", "--yes", "-o", "json"
        )

    def failover(self, mode, *options):
        answer = self.asked(mode, *options)
        assert (answer.code, row_of(answer)["state"]) == (0, "completed"), answer.stderr
        return answer

    def translate_home(self):
        """The remedy of a failback that cannot keep offsets."""
        with self.properties.open("a") as lines:
            lines.write("\ntarget->source.mmtool.offsets = translated\n")

    def mirror(self):
        answer = self.run("replicate", "--until-caught-up")
        assert answer.code == 0, answer.stderr
        assert "offsets_differ" not in answer.stderr, answer.stderr

    def check_equal(self):
        for topic in self.topics:
            committed = [read_topic(self.bootstrap(side), topic) for side in ("source", "target")]
            assert committed[0] == committed[1]
            both = [
                {
                    (record.partition, record.offset): record
                    for record in read_topic(self.bootstrap(side), topic, isolation="read_uncommitted")
                }
                for side in ("source", "target")
            ]
            shared = both[0].keys() & both[1].keys()
            assert {at: both[0][at] for at in shared} == {at: both[1][at] for at in shared}
        assert self.ends("source") == self.ends("target")

    def ends(self, side):
        return {
            f"{topic}-{number}": end
            for topic in self.topics
            for number, end in end_offsets(self.bootstrap(side), topic).items()
        }

    def commits(self, side):
        return {
            place: commit.offset
            for place, commit in groups_of(self.bootstrap(side)).commits([self.group])[self.group].items()
        }

    def read(self, side, at_most=None):
        return [
            r for topic in self.topics for r in consume(self.bootstrap(side), self.group, [topic], at_most)
        ]


@pytest.fixture
def shared(bench, tmp_path, topic_name):
    found = Shared(bench, topic_name("shared"), tmp_path)
    for topic in found.topics:
        create_topic(found.bootstrap("source"), topic, PARTITIONS)
    return found


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.chaos)])
def test_there_and_back_every_record_has_one_offset(shared, times):
    shared.produce("source")
    seen = shared.read("source", RECORDS // 3)
    shared.mirror()
    shared.check_equal()
    for _ in range(times):
        shared.failover("planned", "--fence", "hook")
        assert shared.commits("target") == shared.commits("source")
        shared.produce("target")
        shared.mirror()
        shared.check_equal()
        seen += shared.read("target", RECORDS // 2)
        shared.failover("failback")
        assert shared.commits("source") == shared.commits("target")
        shared.produce("source")
        shared.mirror()
        shared.check_equal()
        seen += shared.read("source", RECORDS // 2)
    seen += shared.read("source")
    wanted = [
        (topic, record.partition, record.offset)
        for topic in shared.topics
        for record in read_topic(shared.bootstrap("source"), topic)
    ]
    assert sorted((record.topic, record.partition, record.offset) for record in seen) == sorted(wanted)


@pytest.mark.chaos
def test_after_an_emergency_the_failback_says_which_partitions_cannot_keep_their_offsets(shared):
    shared.produce("source")
    seen = shared.read("source", RECORDS // 3)
    shared.mirror()
    before = shared.ends("source")
    shared.produce("source", TAIL)  # nobody mirrors it: the cluster is lost
    grown = {place for place, end in shared.ends("source").items() if end > before[place]}
    shared.failover("emergency", "--accept-data-loss")
    seen += shared.read("target")
    shared.produce("target")
    seen += shared.read("target", RECORDS // 2)
    refused = shared.asked("failback")
    errors = json.loads(refused.stdout)["errors"]
    assert {error["code"] for error in errors} == {"offsets_differ"}
    assert {error["message"].split()[0] for error in errors} == grown
    shared.translate_home()
    shared.failover("failback", "--diverged-dir", str(shared.folder))
    seen += shared.read("source")
    counts = Counter((record.topic, record.key) for record in seen)
    assert (len(counts), set(counts.values())) == (len(seen), {1})
