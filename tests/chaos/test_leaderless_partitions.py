"""One broker of three is gone for good, and with it the only replica of some partitions: they cost their own rows."""

import time

import pytest

from kit.bench import Bench
from kit.lab_admin import leaders_of
from kit.load import Load, produce
from kit.lookups import groups_of
from mmtool.lab.ports import patience, wait_until
from mmtool.lab.topics import create_topic
from mmtool.plan.groups.facts import Commit
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

COUNT = 3_000
SECONDS = 15.0
"""Half of ``--timeout``; without the fault each of these commands takes one to four seconds."""


@pytest.fixture(params=["source", "target"])
def flow(request, threes, tmp_path, measured):
    """``single`` has one replica of each of its three partitions, ``whole`` has three; a broker of one side is gone."""
    return Flow(Bench(threes, tmp_path), request.param, measured)


class Flow:
    """A flow that was mirrored, and the one partition of ``single`` that has no leader any more on ``side``."""

    def __init__(self, bench, side, measured):
        self.side, self.measured, self.threes = side, measured, bench.fleet
        stem = f"lone-{time.monotonic_ns()}"
        self.single, self.whole = f"{stem}-single", f"{stem}-whole"
        self.reads_whole, self.reads_both = f"{stem}-g", f"{stem}-h"
        source = self.threes["source"].bootstrap
        create_topic(source, self.single, 3, replicas=1)
        create_topic(source, self.whole, 3, replicas=3)
        create_topic(self.threes["target"].bootstrap, f"source.{self.single}", 3, replicas=1)
        for topic in (self.single, self.whole):
            produce(source, Load(topic, COUNT, 3, 100))
        self.commit(source, self.reads_whole, self.whole)
        self.commit(source, self.reads_both, self.whole, self.single)
        self.properties = bench.properties(f"{stem}.*", **{"replication.factor": "3"})
        assert bench.catch_up(self.properties).code == 0

    @staticmethod
    def commit(bootstrap, group, *topics):
        places = {TopicPartition(topic, n): Commit(10) for topic in topics for n in range(3)}
        assert groups_of(bootstrap).alter(group, places) == {}

    def lose_a_broker(self):
        """Which partition of ``single`` nobody leads from now on."""
        cluster = self.threes[self.side]
        topic = self.single if self.side == "source" else f"source.{self.single}"
        cluster.kill_broker(0)

        def without_leader():
            return [n for n, leader in leaders_of(cluster.bootstrap, topic).items() if leader < 0]

        wait_until(lambda: without_leader() != [], "a partition without a leader", patience(40))
        return without_leader()[0]


def test_groups_that_do_not_read_it_move_as_ever_and_others_are_told_why(flow, mmtool):
    cluster = flow.threes[flow.side]
    lone = flow.lose_a_broker()
    try:
        asked = ("-c", flow.properties, "-o", "json")
        answer = mmtool("translate-offsets", "-g", flow.reads_whole, *asked)
        assert answer.code == 0, answer.stderr
        flow.measured(f"{answer.seconds:.1f} s for a group of other topics, {flow.side} partition leaderless")
        assert answer.seconds < patience(SECONDS)
        answer = mmtool("translate-offsets", "-g", flow.reads_both, "-g", flow.reads_whole, *asked)
        assert answer.code == 3
        refused = {(row["topic"], row["partition"]): row["detail"] for row in answer.rows if row["reason"]}
        assert refused.keys() == {(flow.single, lone)}
        assert "has no leader" in refused[flow.single, lone]
        flow.measured(f"{answer.seconds:.1f} s for groups of which one reads it")
        assert answer.seconds < patience(SECONDS)
        for words in (("groups", "audit"), ("failover", "planned", "-g", flow.reads_whole), ("status",)):
            answer = mmtool(*words, *asked)
            flow.measured(f"{answer.seconds:.1f} s for {' '.join(words[:2])}")
            assert answer.code == 0, answer.stderr
            assert answer.seconds < patience(SECONDS)
        moved = mmtool("failover", "planned", "-g", flow.reads_whole, "--execute", "--yes", *asked)
        flow.measured(f"{moved.seconds:.1f} s for a planned failover")
        assert moved.code == 0, moved.stderr
        assert moved.seconds < patience(2 * SECONDS)
    finally:
        cluster.start_broker(0)
        cluster.wait_ready()
