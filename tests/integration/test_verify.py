"""``mmtool verify`` on real brokers and Spark: each planted defect is found, and nothing where there is none."""

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from kit.bench import Bench
from kit.exactness import flow_identity
from kit.processes import run_mmtool
from kit.segments import edit_log
from mmtool.kafka.state.journal import KafkaMarks
from mmtool.lab.cluster import Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic
from mmtool.plan.records.marks import FailedOverRecord

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

COUNT = 400
AT = 150
BEGAN_MS = int(time.time()) * 1000
"""Of the first record: retention must not delete what is compared."""


def record_at(records, offset):
    return next(number for number, record in enumerate(records) if record.offset == offset)


def changed(**fields):
    def edit(records):
        at = record_at(records, AT)
        return [*records[:at], replace(records[at], **fields), *records[at + 1 :]]

    return edit


def flipped(records):
    at = record_at(records, AT)
    value = records[at].value
    broken = bytes((value[0] ^ 1,)) + value[1:]
    return [*records[:at], replace(records[at], value=broken), *records[at + 1 :]]


def later(records):
    at = record_at(records, AT)
    return [*records[:at], replace(records[at], timestamp=records[at].timestamp + 7), *records[at + 1 :]]


def swapped(records):
    at = record_at(records, AT)
    one, two = records[at], records[at + 1]
    return [
        *records[:at],
        replace(two, offset=one.offset),
        replace(one, offset=two.offset),
        *records[at + 2 :],
    ]


def without_middle(records):
    return [record for record in records if record.offset != AT]


def without_tail(records):
    return [record for record in records if record.offset < COUNT - 20]


def doubled(records):
    at = record_at(records, AT)
    return [*records[:at], replace(records[at - 1], offset=AT), *records[at + 1 :]]


DEFECTS = {
    0: (flipped, "value", "mutated"),
    1: (swapped, "reordered", "reordered"),
    2: (without_tail, "missing", "missing"),
    3: (without_middle, "missing", "missing"),
    4: (doubled, None, "duplicated"),
    5: (later, "timestamp", "mutated"),
    6: (changed(headers=()), "headers", "mutated"),
    7: (None, "foreign", "foreign"),
    8: (None, "duplicated", "duplicated"),
    9: (None, None, None),
}


@pytest.fixture(scope="module", params=("4.4.0", pytest.param("3.9.1", marks=pytest.mark.chaos)))
def planted(request, tmp_path_factory):
    """Clusters of its own, of each version: their brokers are stopped."""
    shape = Shape(version=request.param)
    clusters = Fleet.of(tmp_path_factory.mktemp("verify"), "source", "target", shape=shape)
    with clusters:
        yield Bench(clusters, tmp_path_factory.mktemp("verify-runs"))
    clusters.remove_data()


def content(number, partition):
    return {
        "key": b"k%d" % number,
        "value": b"value %d of %d" % (number, partition),
        "headers": [("h", b"%d" % number)],
        "timestamp": BEGAN_MS + number,
    }


def writer(bootstrap):
    """Idempotent: a retry, as after NOT_LEADER_OR_FOLLOWER on a new topic, must not reorder what a test compares."""
    return Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "log_level": 2, "enable.idempotence": True}
    )


def produce_known(bootstrap, topic, partitions):
    producer = writer(bootstrap)
    for number in range(COUNT):
        for partition in range(partitions):
            producer.produce(topic, partition=partition, **content(number, partition))
    producer.flush()


@pytest.fixture(scope="module")
def mirrored(planted):
    """A topic mirrored to its end."""
    source, _ = planted.fleet["source"], planted.fleet["target"]
    create_topic(source.bootstrap, "planted", len(DEFECTS), 1)
    produce_known(source.bootstrap, "planted", len(DEFECTS))
    properties = planted.properties("planted", **{"emit.heartbeats.enabled": "false"})
    folder = planted.directory / "replicate"
    assert run_mmtool(folder, "replicate", "-c", str(properties), "--until-caught-up").code == 0
    return properties


@contextmanager
def endless_load(bootstrap, topic):
    """Some records a second while the block runs."""
    ended = threading.Event()

    def load():
        producer, number = writer(bootstrap), COUNT
        while not ended.wait(0.02):
            for partition in (0, 1):
                producer.produce(topic, partition=partition, **content(number, partition))
            number += 1
            producer.poll(0)
        producer.flush()

    thread = threading.Thread(target=load)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_mirror_is_identical_until_it_is_damaged_and_then_each_defect_is_named(planted, mirrored, measured):
    clean = planted.ask(mirrored, "verify")
    assert clean.code == 0, clean.stderr
    assert {row["verdict"] for row in clean.rows} == {"identical"}
    assert {row["records_compared"] for row in clean.rows} == {COUNT}
    measured(f"verify of an undamaged topic took {clean.seconds:.1f} s, Spark's start included")

    target = planted.fleet["target"]
    target.stop()
    for partition, (edit, _, _) in DEFECTS.items():
        if edit is not None:
            edit_log(target, "source.planted", partition, edit)
    target.start()
    stray = writer(target.bootstrap)
    stray.produce("source.planted", b"from elsewhere", partition=7)
    stray.produce("source.planted", partition=8, **content(COUNT - 1, 8))
    stray.flush()

    found = planted.ask(mirrored, "verify")
    assert found.code == 8, found.stderr
    rows = {row["partition"]: row for row in found.rows}
    for partition, (_, kind, counter) in DEFECTS.items():
        row = rows[partition]
        if counter is None:
            assert row["verdict"] == "identical", row
            continue
        assert row["verdict"] == ("incomplete" if partition == 2 else "different"), row
        assert row[counter] >= 1, row
        if kind is not None:
            assert row["first_difference"]["kind"] == kind, row
    assert rows[0]["first_difference"] == {"kind": "value", "upstream_offset": AT, "downstream_offset": AT}
    assert rows[2]["missing"] == 20
    assert rows[3]["first_difference"]["upstream_offset"] == AT


def test_a_log_that_is_written_and_mirrored_meanwhile_is_identical_up_to_the_frontier(bench):
    source = bench.fleet["source"]
    create_topic(source.bootstrap, "moving", 2, 1)
    produce_known(source.bootstrap, "moving", 2)
    properties = bench.properties("moving", **{"emit.heartbeats.enabled": "false"})
    with bench.start(properties, "-o", "json") as process:
        process.wait_line("caught_up", 90)
        with endless_load(source.bootstrap, "moving"):
            found = bench.ask(properties, "verify")
        process.stop()
    assert found.code == 0, found.stderr
    assert {row["verdict"] for row in found.rows} == {"identical"}


def test_the_next_run_begins_where_the_last_one_found_both_sides_the_same(bench):
    source = bench.fleet["source"]
    create_topic(source.bootstrap, "again", 1, 1)
    produce_known(source.bootstrap, "again", 1)
    properties = bench.properties("again", **{"emit.heartbeats.enabled": "false"})
    assert bench.catch_up(properties).code == 0
    assert bench.ask(properties, "verify").rows[0]["records_compared"] == COUNT
    produce_known(source.bootstrap, "again", 1)
    assert bench.catch_up(properties).code == 0
    again = bench.ask(properties, "verify", "--since", "last")
    assert (again.code, again.rows[0]["records_compared"]) == (0, COUNT), again.stderr
    nothing_new = bench.ask(properties, "verify", "--since", "last")
    assert (nothing_new.code, nothing_new.rows[0]["records_compared"]) == (0, 0), nothing_new.stderr
    of_300 = datetime.fromtimestamp((BEGAN_MS + 300) / 1000, UTC).isoformat()
    by_time = bench.ask(properties, "verify", "--since", of_300)
    assert by_time.rows[0]["records_compared"] == 2 * COUNT - 300


def test_neither_a_tail_that_nobody_will_mirror_nor_earlier_copies_are_identical(bench):
    """A topic that has failed over; the same topic, forgotten and mirrored again behind its earlier copies."""
    source = bench.fleet["source"]
    create_topic(source.bootstrap, "twice", 1, 1)
    produce_known(source.bootstrap, "twice", 1)
    properties = bench.properties("twice", **{"emit.heartbeats.enabled": "false"})
    assert bench.catch_up(properties).code == 0
    assert bench.ask(properties, "verify").code == 0
    produce_known(source.bootstrap, "twice", 1)

    mark = FailedOverRecord("twice", True, "fo-7", "ann@east", 1_780_000_000_000)
    identity = flow_identity(source, bench.fleet["target"])
    KafkaMarks(bench.flow(properties).target, identity, 1, 10.0).write([mark])
    left = bench.ask(properties, "verify", "--since", "last")
    assert (left.code, left.rows[0]["verdict"]) == (8, "incomplete"), left.stderr
    assert (left.rows[0]["missing"], left.rows[0]["lag_records"]) == (COUNT, COUNT)
    assert f"{COUNT} source offsets not mirrored" in left.stderr
    assert f"target lacks {COUNT} records from offset {COUNT} on: failed over by ann@east" in left.stderr
    released = replace(mark, failed_over=False)
    KafkaMarks(bench.flow(properties).target, identity, 1, 10.0).write([released])
    behind = bench.ask(properties, "verify")
    assert (behind.code, behind.rows[0]["lag_records"]) == (0, COUNT), behind.stderr
    assert f"{COUNT} source offsets not mirrored" in behind.stderr

    forgotten = bench.ask(properties, "flow", "forget", "--topic", "twice", "--execute", "--yes")
    assert forgotten.code == 0, forgotten.stderr
    assert bench.catch_up(properties).code == 0
    doubled = bench.ask(properties, "verify", "--since", "last")  # what was identical is not any more
    assert (doubled.code, doubled.rows[0]["verdict"]) == (8, "different"), doubled.stderr
    assert (doubled.rows[0]["duplicated"], doubled.rows[0]["missing"]) == (COUNT, 0)
    first = {"kind": "duplicated", "upstream_offset": 0, "downstream_offset": 0}
    assert doubled.rows[0]["first_difference"] == first
    began = datetime.fromtimestamp(BEGAN_MS / 1000, UTC).isoformat()
    for since in (began, "last"):
        accepted = bench.ask(properties, "verify", "--since", since)
        assert (accepted.code, accepted.rows[0]["verdict"]) == (0, "identical"), accepted.stderr


def test_transactions_that_arrived_in_part_are_listed_with_their_offsets(bench):
    source = bench.fleet["source"]
    for topic in ("left", "right"):
        create_topic(source.bootstrap, topic, 1, 1)
    producer = Producer({"bootstrap.servers": source.bootstrap, "transactional.id": "both", "log_level": 2})
    producer.init_transactions()

    def transaction(number):
        producer.begin_transaction()
        for topic in ("left", "right"):
            producer.produce(topic, partition=0, **content(number, 0))
        producer.commit_transaction()

    transaction(0)
    properties = bench.properties("left|right", **{"emit.heartbeats.enabled": "false"})
    assert bench.catch_up(properties).code == 0
    assert bench.ask(properties, "verify", "--transactions").rows[0]["half_mirrored"] == []
    transaction(1)
    alone = bench.properties("left", **{"emit.heartbeats.enabled": "false"})
    assert bench.catch_up(alone).code == 0
    found = bench.ask(properties, "verify", "--transactions")
    assert found.code == 0, found.stderr
    (half,) = found.rows[0]["half_mirrored"]
    assert [(at["topic"], at["first_offset"], at["arrived"]) for at in half["partitions"]] == [
        ("left", 2, "all"),
        ("right", 2, "none"),
    ]
    assert "a transaction is only partly on target" in found.stderr
