"""``mmtool verify`` on real brokers and Spark: each planted defect is found, and nothing where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import Producer

from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic
from mmtool.testing.log_edit import edit_log
from mmtool.testing.processes import run_mmtool
from mmtool.testing.replicating import Bench

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.promise]

COUNT = 400
AT = 150


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


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Clusters of its own: their brokers are stopped."""
    clusters = Fleet.of(tmp_path_factory.mktemp("verify"), "source", "target")
    with clusters:
        yield Bench(clusters, tmp_path_factory.mktemp("verify-runs"))
    clusters.remove_data()


def produce_known(bootstrap, topic, partitions):
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "log_level": 2})
    for number in range(COUNT):
        for partition in range(partitions):
            producer.produce(
                topic,
                key=b"k%d" % number,
                value=b"value %d of %d" % (number, partition),
                headers=[("h", b"%d" % number)],
                timestamp=1_700_000_000_000 + number,
                partition=partition,
            )
    producer.flush()


@pytest.fixture(scope="module")
def mirrored(bench):
    """A topic mirrored to its end."""
    source, _ = bench.fleet["source"], bench.fleet["target"]
    create_topic(source.bootstrap, "planted", len(DEFECTS), 1)
    produce_known(source.bootstrap, "planted", len(DEFECTS))
    properties = bench.properties("planted", **{"emit.heartbeats.enabled": "false"})
    folder = bench.directory / "replicate"
    assert run_mmtool(folder, "replicate", "-c", str(properties), "--until-caught-up").code == 0
    return properties


def verify(bench, properties, *options):
    verify.runs = getattr(verify, "runs", 0) + 1
    folder = bench.directory / f"verify-{verify.runs}"
    return run_mmtool(folder, "verify", "-c", str(properties), "-o", "json", *options)


def test_a_mirror_is_identical_until_it_is_damaged_and_then_each_defect_is_named(bench, mirrored, measured):
    clean = verify(bench, mirrored)
    assert clean.code == 0, clean.stderr
    assert {row["verdict"] for row in clean.rows} == {"identical"}
    assert {row["records_compared"] for row in clean.rows} == {COUNT}
    measured(f"verify of an undamaged topic took {clean.seconds:.1f} s, Spark's start included")

    target = bench.fleet["target"]
    target.stop()
    for partition, (edit, _, _) in DEFECTS.items():
        if edit is not None:
            edit_log(target, "source.planted", partition, edit)
    target.start()
    stray = Producer({"bootstrap.servers": target.bootstrap, "log_level": 2})
    stray.produce("source.planted", b"from elsewhere", partition=7)
    number = COUNT - 1
    stray.produce(
        "source.planted",
        key=b"k%d" % number,
        value=b"value %d of 8" % number,
        headers=[("h", b"%d" % number)],
        timestamp=1_700_000_000_000 + number,
        partition=8,
    )
    stray.flush()

    found = verify(bench, mirrored)
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
