"""The source's log is cut by an unclean leader election and grows again past where the mirror stood (KIP-320)."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from mmtool.lab.load import Load, produce
from mmtool.lab.topics import create_topic, read_topic
from mmtool.lab.waiting import wait_until
from mmtool.testing.processes import run_mmtool
from mmtool.testing.replicating import Bench

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

KEPT, LOST, GROWN = 100, 50, 80
PATIENCE_SECONDS = 60
STAYS, DIES = 1, 0
"""Who holds the partition's two replicas; the third broker keeps the quorum together with either."""


@dataclass
class Cut:
    """A source that loses records which may have been mirrored, step by step."""

    cluster: object
    topic: str

    def __post_init__(self):
        self._admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 2})
        config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        topic = NewTopic(self.topic, 1, replica_assignment=[[DIES, STAYS]], config=config)
        self._admin.create_topics([topic])[self.topic].result(30)
        self.leads(DIES)
        self.write(KEPT, 0)

    def leads(self, broker):
        def led():
            found = self._admin.list_topics(self.topic, 10).topics[self.topic].partitions
            return bool(found) and found[0].leader == broker

        wait_until(led, f"broker {broker} leads {self.topic}", PATIENCE_SECONDS)

    def write(self, count, first):
        produce(self.cluster.bootstrap, Load(self.topic, count, 1, 100, first_sequence=first))

    def write_where_only_one_replica_is(self):
        self.cluster.stop_broker(STAYS)
        self.write(LOST, KEPT)

    def lose_it(self):
        self.cluster.kill_broker(DIES)
        self.cluster.start_broker(STAYS)
        self.leads(STAYS)

    def grow(self):
        """Past where the mirror stands: nothing but the epoch tells the new records from the old ones."""
        self.write(GROWN, 1_000)
        self.cluster.start_broker(DIES)


def reason_of(answer, topic):
    (row,) = [row for row in answer.rows if row["topic"] == topic]
    return row["state"], row["reason"]


def values(cluster, topic):
    return Counter(record.value for record in read_topic(cluster.bootstrap, topic))


@pytest.mark.parametrize("running", [False, True], ids=["between two runs", "under a running flow"])
def test_records_that_a_source_lost_are_not_taken_for_those_that_were_written_after_them(
    threes, tmp_path, running
):
    """The other topic goes on; a seek to where the log was cut mirrors what is there now, once."""
    bench, stem = Bench(threes, tmp_path), f"cut-{int(running)}-{os.getpid()}"
    source, target = threes["source"], threes["target"]
    other, remote = f"{stem}-other", f"source.{stem}-cut"
    properties = bench.properties(f"{stem}-.*", **{"replication.factor": "1"})
    create_topic(source.bootstrap, other, 1, 3)
    cut = Cut(source, f"{stem}-cut")
    cut.write_where_only_one_replica_is()
    assert bench.catch_up(properties).code == 0

    def go_on():
        cut.lose_it()
        cut.grow()
        produce(source.bootstrap, Load(other, 10, 1, 100))

    if running:
        with bench.start(properties) as process:
            process.wait_line("caught_up", PATIENCE_SECONDS)
            go_on()
            process.wait_line(f"was cut at {KEPT}", PATIENCE_SECONDS)
    else:
        go_on()
    stopped = bench.catch_up(properties, "-o", "json")
    state, reason = reason_of(stopped, cut.topic)
    assert (stopped.code, state) == (6, "halted"), stopped.stderr
    assert reason.startswith(f"the source's log was cut at {KEPT}"), reason
    assert f"offsets {KEPT} to {KEPT + LOST - 1} were mirrored and are gone" in reason
    assert values(target, f"source.{other}").total() == 10
    assert values(target, remote).total() == KEPT + LOST
    csv = tmp_path / "seek.csv"
    csv.write_text(f"{cut.topic},0,{KEPT}\n")
    moved = run_mmtool(
        tmp_path / "seek", "flow", "seek", "-c", str(properties), "--csv", str(csv), "--execute", "--yes"
    )
    assert moved.code == 0, moved.stderr
    assert bench.catch_up(properties).code == 0
    found, home = values(target, remote), values(source, cut.topic)
    assert (found.total(), set(found.values())) == (KEPT + LOST + GROWN, {1})
    assert home.total() == KEPT + GROWN
    assert not home - found
