"""``mmtool verify`` of mirrors that are as they should be, in every shape that logs take: each is identical."""

import os
import time
from collections import defaultdict
from datetime import timedelta

import pytest
from confluent_kafka import Producer

from kit.batches import PlainRecord, batch_of
from kit.both_ways import Pair
from kit.lab_admin import delete_records, delete_topic
from kit.load import Load, Transactions, produce
from kit.log_cleaner import CONFIGS, CompactedTopic, compact
from kit.raw_producer import append_batches
from mmtool.commands._connections import connected_flows
from mmtool.commands._options import ChosenFlow
from mmtool.insight.verify.job import jobs_of, run_job
from mmtool.insight.verify.preparation import prepare
from mmtool.insight.verify.ranges import plan_ranges
from mmtool.insight.verify.verdicts import Findings
from mmtool.lab.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

COUNT = 2_000
STEM = f"shape-{os.getpid()}"
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
OLD_MS = int(time.time() * 1000) - 3_600_000


def of(name):
    return f"{STEM}-{name}"


def plain(bootstrap, name, **config):
    create_topic(bootstrap, of(name), 2, **config)
    produce(bootstrap, Load(of(name), COUNT, 2, 150, keys="sequence"))


def aborted(bootstrap, name):
    create_topic(bootstrap, of(name), 2)
    how = Transactions(f"{of(name)}-writer", records=50, abort_every=3)
    produce(bootstrap, Load(of(name), COUNT, 2, 150, transactions=how))


def singles(bootstrap, name):
    create_topic(bootstrap, of(name), 1)
    now = int(time.time() * 1000)
    batches = [batch_of([PlainRecord(0, now + n, b"k%d" % n, b"%d" % n)]) for n in range(400)]
    append_batches(bootstrap, of(name), 0, batches)


def old(bootstrap, name, **config):
    create_topic(bootstrap, of(name), 2, **config)
    produce(bootstrap, Load(of(name), COUNT, 2, 150, first_timestamp_ms=OLD_MS, headers=(("h", b"1"),)))


def wide(bootstrap, name):
    """Batches of many records, which the target takes in parts only, and one record that it takes in none."""
    create_topic(bootstrap, of(name), 1, **{"max.message.bytes": "900000"})
    client = {"message.max.bytes": 900_000, "batch.size": 500_000, "linger.ms": 200}
    produce(bootstrap, Load(of(name), 500, 1, 2_000, "none", client=client))
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 900_000, "log_level": 2})
    for value in (os.urandom(200_000), b"behind it"):
        producer.produce(of(name), value, partition=0)
        producer.flush()


COMPACTED = ("compacted-here", "compacted-there", "compacted-both")
TOPICS = (
    "aborted", "singles", "head-here", "head-there", "append-here", "append-there", "repacked", "wide", "recreated"
)  # fmt: skip


@pytest.fixture(scope="module")
def shapes(bench):
    """One flow of all topics, mirrored; then the cleaners, retention, and an operator were there."""
    here, there = bench.fleet["source"].bootstrap, bench.fleet["target"].bootstrap
    aborted(here, "aborted")
    singles(here, "singles")
    old(here, "append-here", **APPEND_TIME)
    old(here, "append-there")
    create_topic(there, f"source.{of('append-there')}", 2, **APPEND_TIME)
    plain(here, "repacked")
    create_topic(there, f"source.{of('repacked')}", 2, **{"compression.type": "gzip"})
    wide(here, "wide")
    create_topic(there, f"source.{of('wide')}", 1, **{"max.message.bytes": "100000"})
    for name in ("head-here", "head-there", "recreated"):
        plain(here, name)
    logs = {name: CompactedTopic(of(name)) for name in COMPACTED}
    for log in logs.values():
        log.create(here)
        log.write(here, 6)
    lines = {
        "mmtool.on.oversize": "dead-letter",
        "mmtool.on.topic.recreated": "restart",
        "sync.topic.configs.enabled": "false",
    }
    properties = bench.properties(f"{STEM}-.*", **lines)
    for log in logs.values():
        create_topic(there, f"source.{log.name}", 2, **CONFIGS)
    mirror(bench, properties)

    delete_records(here, of("head-here"), 333)
    delete_records(there, f"source.{of('head-there')}", 333)
    compact(here, of("compacted-here"))
    compact(there, f"source.{of('compacted-there')}")
    compact(here, of("compacted-both"))
    compact(there, f"source.{of('compacted-both')}")
    delete_topic(here, of("recreated"))
    plain(here, "recreated")
    mirror(bench, properties)
    return properties


def mirror(bench, properties):
    answer = bench.catch_up(properties)
    assert answer.code == 0, answer.stderr


@pytest.fixture(scope="module")
def compared(bench, shapes):
    answer = bench.ask(shapes, "verify")
    found = defaultdict(list)
    for row in answer.rows:
        found[row["topic"].removeprefix(f"{STEM}-")].append(row)
    return answer, found


@pytest.mark.parametrize("name", [*TOPICS, *COMPACTED])
def test_a_mirror_is_identical_whatever_its_logs_look_like(compared, name):
    _, found = compared
    assert found[name]
    assert [row for row in found[name] if row["verdict"] != "identical"] == []
    assert sum(row["records_compared"] for row in found[name]) > 300


def test_a_compacted_log_is_identical_in_ranges_however_small(shapes, compared):
    (clusters,) = connected_flows(ChosenFlow(shapes), timedelta(seconds=30))
    flow = prepare(clusters, [of(name) for name in COMPACTED])
    assert len(flow.partitions) == 2 * len(COMPACTED)
    for place, partition in flow.partitions.items():
        ranges = plan_ranges(partition, 100)
        assert len(ranges) > 3
        (job,) = jobs_of(flow.compared, ranges, 1_000_000)
        results = run_job(job)
        assert [result.problem for result in results if result.problem] == []
        assert Findings.joined(result.findings for result in results).counts == {}, place


def test_a_source_that_was_compacted_for_records_behind_the_frontier_is_identical(bench, shapes, compared):
    """Of records that are mirrored the source keeps none whose key came again, and what came is not mirrored yet."""
    log, here = CompactedTopic(of("compacted-ahead")), bench.fleet["source"].bootstrap
    log.create(here)
    log.write(here, 4)
    properties = bench.properties(log.name)
    mirror(bench, properties)
    log.write(here, 4)
    compact(here, log.name)
    answer = bench.ask(properties, "verify")
    assert [row for row in answer.rows if row["verdict"] != "identical"] == [], answer.stderr
    assert min(row["lag_records"] for row in answer.rows) > 0


def test_a_record_that_the_target_takes_in_no_batch_is_told_by_its_dead_letter(compared):
    _, found = compared
    assert [row["reason"] for row in found["wide"]] == [
        f"1 record is in source.{of('wide')}.mmtool-dlq instead"
    ]


def test_records_born_on_both_sides_of_a_topic_are_no_foreign_ones(bench, tmp_path):
    pair = Pair(bench.fleet, tmp_path)
    pair.create_topics()
    with pair.replicate() as process:
        with pair.writers():
            pair.wait_for_growth(60)
        pair.wait_until_equal(60)
        process.stop()
    answer = bench.ask(pair.properties, "verify")
    assert [row for row in answer.rows if row["verdict"] != "identical"] == [], answer.stderr
    assert {(row["source"], row["target"]) for row in answer.rows} == {
        ("source", "target"),
        ("target", "source"),
    }
