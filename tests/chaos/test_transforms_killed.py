"""Workers, functions and owners are killed while records are changed: each kept record is there once, and no other."""

import itertools
import os
import threading
import time

import pytest
from confluent_kafka import Producer

from kit.bench import Bench
from kit.processes import run_mmtool
from kit.transforms import DROPPED, check_exact, document, masked, module, third_gone
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets, topics_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PARTITIONS, RATE = 4, 2_000
BOTH = """
def change(batches):
    for batch in batches:
        stays = [int(key.as_py()) % 3 != 1 for key in batch["key"]]
        values = [value.as_py().replace(b'"ann@example.com"', b'"***"') for value in batch["value"]]
        changed = batch.set_column(5, batch.schema.field(5), pa.array(values, pa.binary()))
        yield changed.filter(pa.array(stays, pa.bool_()))
"""
"""Leaves out every third record and masks the others."""
VICTIMS = (("worker",), ("helper",), ("daemon", "worker"), ("jvm",), ("driver", "jvm", "worker"))


def made(key, value):
    return DROPPED if third_gone(key, value) is DROPPED else masked(key, value)


class Writer(threading.Thread):
    """Sends numbered documents until it is stopped."""

    def __init__(self, bootstrap, topic):
        super().__init__(daemon=True)
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": "zstd"}
        )
        self.topic, self.stopped = topic, threading.Event()

    def run(self):
        for number in itertools.count():
            if number % (RATE // 20) == 0:
                self.producer.poll(0)
                if self.stopped.wait(0.05):
                    break
            self.producer.produce(self.topic, document(number), b"%d" % number, partition=number % PARTITIONS)

    def stop(self):
        self.stopped.set()
        self.join()
        assert self.producer.flush(30) == 0


def killed(fleet, folder, name, victims, **settings):
    """A flow that is killed in several ways while records come, and then caught up, and checked."""
    bench = Bench(fleet, folder)
    source, target = (fleet[side].bootstrap for side in ("source", "target"))
    create_topic(source, name, PARTITIONS)
    path = bench.properties(
        name, **{"mmtool.transform": "masks:change", "mmtool.round.seconds": "7", **settings}
    )
    module(path.parent, BOTH)
    remote = f"source.{name}"

    writer = Writer(source, name)
    writer.start()
    process = bench.start(path)
    try:
        for roles in victims:
            wait_for_more(target, remote)
            process.kill(*roles)
            time.sleep(2)
            if not process.alive:
                process.wait_until_gone()
                process = bench.start(path)
    finally:
        writer.stop()
        process.kill_all()
    caught_up = bench.catch_up(path)
    assert caught_up.code == 0, caught_up.stderr
    same = settings.get("mmtool.offsets") == "same"
    check_exact((source, target), name, remote, made, same=same)
    verified = run_mmtool(folder / "verify", "verify", "-c", str(path), "-o", "json")
    assert verified.code == 0, verified.stderr


def wait_for_more(bootstrap, topic):
    """Until records come into a topic, which may not be there yet."""
    seen = []

    def comes():
        seen.append(sum(end_offsets(bootstrap, topic).values()) if topic in topics_of(bootstrap) else 0)
        return seen[-1] > seen[0]

    wait_until(comes, "more records", 90)


@pytest.mark.parametrize("offsets", ["translated", "same"])
def test_a_killed_worker_leaves_each_kept_record_once(fleet, tmp_path, offsets):
    name = f"killed-{offsets}-{os.getpid()}"
    killed(fleet, tmp_path, name, VICTIMS[:1], **{"mmtool.offsets": offsets})


@pytest.mark.parametrize("offsets", ["translated", "same"])
def test_after_a_crash_with_the_old_code_gone_a_partition_halts_and_names_the_version_until_that_is_back(
    fleet, tmp_path, offsets
):
    name = f"killed-changed-{offsets}-{os.getpid()}"
    ends = source, target = tuple(fleet[side].bootstrap for side in ("source", "target"))
    bench, same = Bench(fleet, tmp_path), offsets == "same"
    create_topic(source, name, PARTITIONS)
    path = bench.properties(name, **{"mmtool.transform": "masks:change", "mmtool.offsets": offsets})
    module(path.parent, BOTH)
    writer = Writer(source, name)
    writer.start()
    process = bench.start(path)
    try:
        wait_for_more(target, f"source.{name}")
        wait_for_more(target, f"source.{name}")
        process.kill_all()  # less than a second after the last stored offset runs, so that records are unrecorded
    finally:
        writer.stop()
    process.wait_until_gone()
    module(path.parent, BOTH.replace("% 3 != 1", "% 5 != 1"))
    halted = run_mmtool(tmp_path / "halted", "replicate", "-c", str(path), "--until-caught-up", "-o", "json")
    rows = [row for row in halted.rows if row["state"] == "halted"]
    assert (halted.code in (3, 6), len(rows) > 0) == (True, True), halted.stderr
    for row in rows:
        assert "the records were mirrored by masks:change@" in row["reason"]
        assert "and the flow has masks:change@" in row["reason"]
    module(path.parent, BOTH.replace("% 3 != 1", "% 7 != 1"))
    assert bench.catch_up(path).code in (3, 6)  # any number of starts leaves the mirror as it is
    module(path.parent, BOTH)
    again = bench.catch_up(path)
    assert again.code == 0, again.stderr
    these = [row["partition"] for row in rows]  # the others had nothing unrecorded, and went on
    check_exact(ends, name, f"source.{name}", made, same=same, partitions=these)


@pytest.mark.chaos
@pytest.mark.parametrize("offsets", ["translated", "same"])
def test_every_kind_of_kill_leaves_each_kept_record_once(fleet, tmp_path, offsets):
    name = f"killed-all-{offsets}-{os.getpid()}"
    killed(fleet, tmp_path, name, VICTIMS, **{"mmtool.offsets": offsets})


@pytest.mark.chaos
@pytest.mark.parametrize("offsets", ["translated", "same"])
def test_on_executors_of_their_own_too(fleet, tmp_path, offsets):
    name = f"killed-apart-{offsets}-{os.getpid()}"
    master = {"mmtool.spark.master": "local-cluster[2,1,1024]", "mmtool.offsets": offsets}
    killed(fleet, tmp_path, name, (("executor",), ("worker",)), **master)
