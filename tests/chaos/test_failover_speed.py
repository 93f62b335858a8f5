"""How long a group stands still in a planned failover while ``replicate`` runs: the contract's five seconds.

On brokers that wait as long as Kafka's own default before a new group gets its first assignment: an operator takes the
operation's lock in such a group. Beside the chaos tests, which run one by one: it is the machine that is measured.
"""

from __future__ import annotations

import os
import time

import pytest

from kit.bench import Bench
from kit.broker_watch import wait_for_new_records
from kit.consumers import consume
from kit.load import Load, produce
from kit.processes import MmtoolProcess
from mmtool.lab.cluster import Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic, read_topic

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

KAFKAS_OWN_DELAY = {"group.initial.rebalance.delay.ms": "3000"}
BOUND_SECONDS = 5.0
PARTITIONS, RECORDS = 6, 3_000


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    directory = tmp_path_factory.mktemp("speed")
    fleet = Fleet.of(directory / "fleet", "source", "target", shape=Shape(properties=KAFKAS_OWN_DELAY))
    with fleet:
        yield Bench(fleet, directory)
    fleet.remove_data()


@pytest.fixture(scope="module")
def live(bench):
    """A flow that runs: its topic and its properties file."""
    topic = f"speed-{os.getpid()}"
    create_topic(bench.fleet["source"].bootstrap, topic, PARTITIONS)
    properties = bench.properties(topic)
    with bench.start(properties):
        produce(bench.fleet["source"].bootstrap, Load(topic, RECORDS, PARTITIONS, 100, keys="sequence"))
        wait_for_new_records(bench.fleet["target"].bootstrap, [f"source.{topic}"], 60)
        yield topic, properties


def moved(bench, live, group, number):
    """The command, from its start to its end, and the parts of Spark that it started."""
    _, properties = live
    words = ("-c", str(properties), "-g", group, "--fence", "none", "--execute", "--yes", "-o", "json")
    started: set[int] = set()
    with MmtoolProcess(bench.directory / f"planned-{number}", "failover", "planned", *words) as process:
        while process.alive:
            started |= {*process.pids("jvm"), *process.pids("daemon"), *process.pids("helper")}
            time.sleep(0.05)
        return process.wait(), started


def test_a_group_is_moved_within_five_seconds_of_the_command_s_start_and_no_jvm_is_started(
    bench, live, measured
):
    """Three seconds of it are the broker's; records keep coming until it begins."""
    topic, _ = live
    source, target = (bench.fleet[side].bootstrap for side in ("source", "target"))
    took = []
    for number in (1, 2, 3):
        group = f"{topic}-app-{number}"
        before = consume(source, group, [topic], 1_000)
        produce(source, Load(topic, 600, PARTITIONS, 100, keys="sequence", first_sequence=RECORDS * number))
        answer, started = moved(bench, live, group, number)
        assert (answer.code, started) == (0, set()), answer.stderr
        took.append((answer.seconds, answer.rows[0]["rto_seconds"]))
        everything = {(r.partition, r.value) for r in read_topic(source, topic)}
        after = [(r.partition, r.value) for r in consume(target, group, [f"source.{topic}"])]
        read = {(r.partition, r.value) for r in before}
        assert (len(set(after)), set(after) | read, set(after) & read) == (len(after), everything, set())
    said = ", then ".join(f"{seconds:.1f} s ({rto:.1f} s of it its steps)" for seconds, rto in took)
    measured(f"planned failover of one group with a live replicate, 3 s rebalance delay: {said}")
    assert min(seconds for seconds, _ in took) < BOUND_SECONDS
