"""Shapes that break mirrors: one busy partition among thousands of idle ones, and records of 50 MB."""

from __future__ import annotations

import os
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kit.bench import Bench
from kit.load import Load, produce
from mmtool.lab.cluster import Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.chaos]

MIB = 1 << 20
OWN = 256 * MIB  # what a pump needs beside its buffer and three of the largest batches
_PATIENT = Shape(
    jvm=("-Xmx1g", "-Xms512m", "-XX:+UseSerialGC"),
    properties={
        "broker.session.timeout.ms": "120000"
    },  # making thousands of folders keeps a small broker busy
)
_TOPICS, _PARTITIONS = 50, 100
_HOT_RECORDS = 400_000


def peak_of(process, peaks):
    for pid in process.pids("worker"):
        peaks[pid] = max(peaks.get(pid, 0), process.peak_rss(pid))
    return max(peaks.values(), default=0)


def test_records_of_50_mb_cross_within_the_memory_that_is_promised(fleet, tmp_path, measured):
    bench = Bench(fleet, tmp_path)
    topic, size, buffer = f"large-{os.getpid()}", 50_000_000, 16 * MIB
    create_topic(fleet["source"].bootstrap, topic, 2, **{"max.message.bytes": "60000000"})
    producer = Producer({"bootstrap.servers": fleet["source"].bootstrap, "message.max.bytes": 60_000_000})
    for number in range(6):
        producer.produce(topic, os.urandom(size), partition=number % 2)
        assert producer.flush(60) == 0
    peaks: dict[int, int] = {}
    with bench.start(
        bench.properties(topic, **{"mmtool.buffer.bytes": str(buffer)}), "--until-caught-up"
    ) as process:
        while process.alive:
            peak_of(process, peaks)
            time.sleep(0.1)
        answer = process.wait()
    measured(f"peak RSS of a pump that moved 50 MB records: {max(peaks.values()) / MIB:.0f} MiB")
    assert (answer.code, sum(end_offsets(fleet["target"].bootstrap, f"source.{topic}").values())) == (0, 6)
    assert max(peaks.values()) <= OWN + buffer + 3 * size


def test_one_busy_partition_among_five_thousand_idle_ones_is_mirrored_at_full_speed(tmp_path, measured):
    """At least half as fast as the same partition alone, an idle one within 2 s, and the memory that is promised."""
    with Fleet.of(tmp_path, "source", "target", shape=_PATIENT) as fleet:
        bench = Bench(fleet, tmp_path)
        source, target = fleet["source"].bootstrap, fleet["target"].bootstrap
        create_topic(source, "alone", 1)
        produce(source, Load("alone", _HOT_RECORDS, 1, 1000))
        alone = bench.catch_up(bench.properties("alone"))
        assert alone.code == 0, alone.stderr
        admin = AdminClient({"bootstrap.servers": source})
        names = [f"many-{number}" for number in range(_TOPICS)]
        for name in names:
            admin.create_topics([NewTopic(name, _PARTITIONS, 1)])[name].result(120)
        wait_until(
            lambda: all(len(end_offsets(source, f"many-{n}")) == _PARTITIONS for n in range(_TOPICS)),
            "leaders",
            120,
        )
        peaks: dict[int, int] = {}
        with bench.start(bench.properties("many-.*", **{"mmtool.buffer.bytes": str(32 * MIB)})) as process:
            process.wait_line(r"partitions 5000 (caught_up|running)", 300)
            began = time.monotonic()
            produce(source, Load("many-7", 1, 1, 100))
            wait_until(
                lambda: any(end_offsets(target, "source.many-7").values()), "one record", 30, poll=0.05
            )
            measured(f"a record into one of 5,000 idle partitions: {time.monotonic() - began:.2f} s")
            # all of the load into one partition
            producing = time.monotonic()
            produce(source, Load("many-3", _HOT_RECORDS, 1, 1000))
            loaded = time.monotonic() - producing
            wait_until(
                lambda: end_offsets(target, "source.many-3")[0] >= _HOT_RECORDS,
                "the busy partition",
                120,
                poll=0.05,
            )
            behind = time.monotonic() - producing - loaded
            measured(
                f"{_HOT_RECORDS} records into one of 5,000: written in {loaded:.1f} s, mirrored {behind:.1f} s later,"
                f" peak RSS {peak_of(process, peaks) / MIB:.0f} MiB"
            )
            answer = process.stop()
        assert (answer.code, "Traceback" in answer.stderr) == (143, False), answer.stderr
        assert behind < max(5.0, loaded)
        assert max(peaks.values()) <= OWN + 32 * MIB + 3 * MIB
