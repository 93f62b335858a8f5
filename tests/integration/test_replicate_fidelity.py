"""What was mirrored is what was written, compared by clients and code that the data path does not use."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from kit.batches import CODECS, DELETE_HORIZON, LOG_APPEND_TIME, PlainRecord, batch_of
from kit.exactness import wrong_translations
from kit.lab_admin import alter_topic, compare_topics
from kit.load import Load, Transactions, produce
from kit.log_cleaner import quick_cleaner
from kit.raw_producer import append_batches
from kit.segments import data_batches, stored_batches
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, read_topic

if TYPE_CHECKING:
    from kit.processes import Answer

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.promise]

YEAR_MS = 365 * 24 * 3_600_000
SINGLES = 400
BIG_BYTES = 10_000_000
ANY_TIME = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(10 * YEAR_MS)}
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}


@dataclass(frozen=True)
class Mirrored:
    """The prepared topics after one ``replicate --until-caught-up``."""

    fleet: object
    prefix: str
    answer: Answer
    flow: object

    def source(self, stem):
        return f"{self.prefix}-{stem}"

    def target(self, stem):
        return self.flow.remote_topic(self.source(stem))

    def verdicts(self, stem):
        source, target = self.fleet["source"].bootstrap, self.fleet["target"].bootstrap
        return compare_topics(source, self.source(stem), target, self.target(stem))

    def read_target(self, stem, isolation="read_uncommitted"):
        return read_topic(self.fleet["target"].bootstrap, self.target(stem), isolation=isolation)


def odd_records(first_offset):
    """Null, empty and full fields; headers and times that clients seldom write."""
    now = int(time.time() * 1000)
    fields = [(None, None), (b"", b""), (b"k", None), (None, b"v"), (b"k", b""), (b"\x00", b"\xff" * 300)]
    headers = [
        (),
        ((b"a", b"1"), (b"b", b"2"), (b"a", b"3")),
        ((b"null", None), (b"empty", b""), (b"null", None)),
        (("größe-数".encode(), "é".encode()), (b"", b"no name")),
    ]
    times = [now, 0, 1, -1, now + YEAR_MS, now - 10 * YEAR_MS]
    return [
        PlainRecord(first_offset + index, times[index % len(times)], *fields[index % 6], headers[index % 4])
        for index in range(24)
    ]


def write_odd(bootstrap, topic):
    """All of it in every codec, spread over three partitions."""
    create_topic(bootstrap, topic, 3, **ANY_TIME)
    for partition in range(3):
        batches = [batch_of(odd_records(0), codec=codec) for codec in CODECS for _ in range(partition + 1)]
        append_batches(bootstrap, topic, partition, batches)


def write_odd_names(bootstrap, topic):
    """Header names that are no UTF-8, which no client can read back."""
    create_topic(bootstrap, topic)
    now = int(time.time() * 1000)
    names = [b"\xff\xfe", b"\x80", b"ok", b"\xc3"]
    records = [PlainRecord(i, now + i, b"k", b"v", ((name, b"x"),)) for i, name in enumerate(names)]
    append_batches(bootstrap, topic, 0, [batch_of(records, codec=codec) for codec in CODECS])


def write_singles(bootstrap, topic):
    """As many batches as records, which is what a producer without linger writes."""
    create_topic(bootstrap, topic)
    now = int(time.time() * 1000)
    singles = [batch_of([PlainRecord(0, now + i, b"k%d" % i, b"%d" % i)]) for i in range(SINGLES)]
    append_batches(bootstrap, topic, 0, singles)


def write_interleaved(bootstrap, topic):
    """Two transactions at a time in one partition, one of each pair aborted; the log ends with a marker."""
    create_topic(bootstrap, topic)
    one, other = (
        Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{i}", "log_level": 2})
        for i in range(2)
    )
    for producer in (one, other):
        producer.init_transactions(30)
    for number in range(6):
        for producer in (one, other):
            producer.begin_transaction()
        for step in range(4):
            for producer, who in ((one, b"one"), (other, b"other")):
                producer.produce(topic, b"%b-%d-%d" % (who, number, step), partition=0)
                producer.flush(30)
        (one if number % 2 else other).commit_transaction(30)
        (other if number % 2 else one).abort_transaction(30)


def write_compacted(bootstrap, topic):
    """Waves of equal keys and tombstones, each wave in a segment of its own."""
    create_topic(bootstrap, topic, **COMPACTED)
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4", "log_level": 2})
    for wave in range(6):
        for key in range(200):
            value = None if (key + wave) % 7 == 0 else b"%d of %d" % (wave, key)
            if wave < 2 or (key * 31 + wave) % 3:
                producer.produce(topic, value, b"key-%d" % key)
        producer.flush(30)
        time.sleep(0.15)
    producer.produce(topic, b"last", b"rolls the segment")
    producer.flush(30)


def write_compacted_transactions(bootstrap, topic):
    """Compaction takes aborted records, and later their markers, out of the log."""
    create_topic(bootstrap, topic, 2, **COMPACTED)
    first = 0
    for wave in range(4):
        how = Transactions(f"{topic}-{wave}", records=40, abort_every=3)
        load = Load(topic, 600, 2, 200, keys="cyclic", key_count=170, transactions=how, first_sequence=first)
        first = max(produce(bootstrap, load).next_sequence.values())
        time.sleep(0.15)


def write_plain(bootstrap, topic):
    """What a real producer writes, with each codec."""
    for codec in CODECS:
        create_topic(bootstrap, f"{topic}-{codec}", 2)
        produce(bootstrap, Load(f"{topic}-{codec}", 2000, 2, 300, codec=codec, keys="sequence"))


def write_transactions(bootstrap, topic):
    create_topic(bootstrap, topic, 2)
    how = Transactions(f"{topic}-writer", records=50, abort_every=3)
    produce(bootstrap, Load(topic, 3000, 2, 200, transactions=how))


def write_only_aborted(bootstrap, topic):
    create_topic(bootstrap, topic)
    produce(bootstrap, Load(topic, 300, 1, 200, transactions=Transactions(f"{topic}-w", 100, abort_every=1)))


def write_append_time(bootstrap, topic):
    create_topic(bootstrap, topic, 2, **{"message.timestamp.type": "LogAppendTime"})
    for codec in ("none", "zstd"):
        old = {"first_timestamp_ms": 1_600_000_000_000, "headers": (("trace", b"1"),)}
        produce(bootstrap, Load(topic, 500, 2, 200, codec=codec, **old))
        time.sleep(0.05)


def write_big(bootstrap, topic):
    """A record of 10 MB that no codec shrinks, between small ones."""
    create_topic(bootstrap, topic, **{"max.message.bytes": "12000000"})
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 12_000_000, "log_level": 2})
    for value in (b"before", os.urandom(BIG_BYTES), b"after"):
        producer.produce(topic, value)
        producer.flush(30)


def write_open(bootstrap, topic):
    """A transaction that is still open: nothing at or behind it may cross, not even what is plain."""
    create_topic(bootstrap, topic)
    settings = {"bootstrap.servers": bootstrap, "log_level": 2}
    plain = Producer(settings)
    plain.produce(topic, b"before")
    plain.flush(30)
    holder = Producer({**settings, "transactional.id": f"{topic}-w", "transaction.timeout.ms": 600_000})
    holder.init_transactions(30)
    holder.begin_transaction()
    holder.produce(topic, b"open")
    holder.flush(30)
    plain.produce(topic, b"behind")
    plain.flush(30)
    return holder


def write_empty(bootstrap, topic):
    create_topic(bootstrap, topic, 4, **{"retention.ms": "123456789", "max.message.bytes": "2000000"})


WRITERS = {
    "odd": write_odd,
    "singles": write_singles,
    "oddnames": write_odd_names,
    "interleaved": write_interleaved,
    "compacted": write_compacted,
    "compactedtx": write_compacted_transactions,
    "plain": write_plain,
    "tx": write_transactions,
    "aborted": write_only_aborted,
    "appendtime": write_append_time,
    "big": write_big,
    "empty": write_empty,
    "open": write_open,
}


def keep_as_it_is(bootstrap, topic):
    """No more cleaning."""
    alter_topic(bootstrap, topic, min_cleanable_dirty_ratio="1.0")


def holes(cluster, topic, partition):
    """How many offsets below the last one hold nothing."""
    stored = stored_batches(cluster, topic, partition)
    return stored[-1].last_offset + 1 - sum(len(batch.records) for batch in stored)


def force_compaction(cluster, places):
    """Lets the cleaner run until every partition has holes, then stops it for good: the log must not move."""
    with quick_cleaner(cluster.bootstrap):
        wait_until(lambda: all(holes(cluster, *place) > 50 for place in places), "compaction", 60)
        for topic in {topic for topic, _ in places}:
            keep_as_it_is(cluster.bootstrap, topic)
        time.sleep(0.6)  # a cleaning under way ends; on so few records it takes milliseconds


@pytest.fixture(scope="module")
def mirrored(bench, fleet, measured):
    prefix = f"fidelity-{os.getpid()}"
    source = fleet["source"]
    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(write, source.bootstrap, f"{prefix}-{stem}") for stem, write in WRITERS.items()]
        held = [done.result() for done in work]
    places = [(f"{prefix}-compacted", 0), (f"{prefix}-compactedtx", 0), (f"{prefix}-compactedtx", 1)]
    force_compaction(source, places)
    properties = bench.properties(f"{prefix}-.*")
    answer = bench.catch_up(properties, "-o", "json")
    measured(f"one run over all topics: {answer.seconds:.1f} s")
    yield Mirrored(fleet, prefix, answer, bench.flow(properties))
    del held  # the producer of the open transaction lived until here


def test_the_run_ends_by_itself_with_a_row_for_each_partition(mirrored):
    assert (mirrored.answer.code, mirrored.answer.stderr.count("halted")) == (0, 0), mirrored.answer.stderr
    rows = mirrored.answer.rows
    assert {(row["state"], row["lag_records"], row["reason"]) for row in rows} == {("caught_up", 0, "")}
    assert len([row for row in rows if row["topic"].startswith(mirrored.prefix)]) == 30


@pytest.mark.parametrize("stem", [s for s in WRITERS if s not in ("oddnames", "plain")])
def test_records_are_the_same_in_the_same_order_in_the_same_partition(mirrored, stem):
    differing = {p: str(v) for p, v in mirrored.verdicts(stem).items() if not v.is_identical}
    assert differing == {}


@pytest.mark.parametrize("codec", CODECS)
def test_a_real_producers_batches_arrive_as_they_were_sent(mirrored, codec):
    """Same records, same batches, same bytes of records: only the header is ours."""
    verdicts = mirrored.verdicts(f"plain-{codec}")
    batches = {
        side: [
            (batch.codec, len(batch.records), batch.base_timestamp, batch.max_timestamp)
            for partition in (0, 1)
            for batch in data_batches(mirrored.fleet[side], topic, partition)
        ]
        for side, topic in (
            ("source", mirrored.source(f"plain-{codec}")),
            ("target", mirrored.target(f"plain-{codec}")),
        )
    }
    assert {str(verdict) for verdict in verdicts.values()} == {"1000 records, identical"}
    assert batches["target"] == batches["source"]
    assert {batch[0] for batch in batches["target"]} == {codec}


def test_batches_of_one_record_are_joined(mirrored):
    there = data_batches(mirrored.fleet["target"], mirrored.target("singles"), 0)
    assert sum(len(batch.records) for batch in there) == SINGLES
    assert len(there) <= SINGLES / 20


def test_the_bytes_of_odd_records_are_kept(mirrored):
    """Names that are no UTF-8, null header values and times before 1970 or unset: as stored on disk."""

    def stored(side, topic, partitions):
        return [
            (b.codec, [(r.timestamp, r.key, r.value, r.headers) for r in b.records])
            for p in range(partitions)
            for b in data_batches(mirrored.fleet[side], topic, p)
        ]

    for stem, partitions in (("odd", 3), ("oddnames", 1)):
        expected = stored("source", mirrored.source(stem), partitions)
        assert expected
        assert stored("target", mirrored.target(stem), partitions) == expected


def test_nothing_of_an_aborted_transaction_crosses_and_no_marker_is_written(mirrored):
    """Mirrored topics hold mirrored records only: no control batch, no transactional bit."""
    assert mirrored.read_target("aborted") == []
    for stem, partitions in (("tx", 2), ("interleaved", 1), ("compactedtx", 2), ("aborted", 1)):
        stored = [
            batch
            for partition in range(partitions)
            for batch in stored_batches(mirrored.fleet["target"], mirrored.target(stem), partition)
        ]
        assert {batch.flags for batch in stored} <= {0}


def test_nothing_at_or_behind_an_open_transaction_crosses(mirrored):
    assert [record.value for record in mirrored.read_target("open")] == [b"before"]


def test_compacted_logs_are_mirrored_without_their_holes(mirrored):
    """The source really had holes and a delete horizon; the target is dense and has neither."""
    source, target = mirrored.fleet["source"], mirrored.fleet["target"]
    for stem, partition in (("compacted", 0), ("compactedtx", 0), ("compactedtx", 1)):
        assert holes(source, mirrored.source(stem), partition) > 50
        assert holes(target, mirrored.target(stem), partition) == 0
    flags = [batch.flags for batch in stored_batches(source, mirrored.source("compacted"), 0)]
    assert any(flag & DELETE_HORIZON for flag in flags)


def test_log_append_times_are_kept_as_create_times(mirrored):
    stored = stored_batches(mirrored.fleet["source"], mirrored.source("appendtime"), 0)
    assert all(batch.flags & LOG_APPEND_TIME for batch in stored)
    mirrored_ones = stored_batches(mirrored.fleet["target"], mirrored.target("appendtime"), 0)
    assert not any(batch.flags & LOG_APPEND_TIME for batch in mirrored_ones)


def test_topics_get_the_partitions_and_the_settings_of_their_source(mirrored):
    admin = AdminClient({"bootstrap.servers": mirrored.fleet["target"].bootstrap, "log_level": 2})
    name = mirrored.target("empty")
    resource = ConfigResource("topic", name)
    configs = admin.describe_configs([resource])[resource].result(20)
    assert len(admin.list_topics(name, timeout=20).topics[name].partitions) == 4
    assert (configs["retention.ms"].value, configs["max.message.bytes"].value) == ("123456789", "2000000")


def test_a_record_of_ten_megabytes_crosses(mirrored):
    lengths = [len(record.value) for record in mirrored.read_target("big")]
    assert lengths == [len(b"before"), BIG_BYTES, len(b"after")]


def test_every_offset_of_every_partition_translates_exactly_both_ways(mirrored, measured):
    """Markers, aborted ranges, compaction holes, empty partitions and the very end included."""
    stems = [s for s in WRITERS if s not in ("oddnames", "plain", "open")] + [
        f"plain-{codec}" for codec in CODECS
    ]
    topics = [mirrored.source(stem) for stem in stems]
    asked, wrong = wrong_translations(
        mirrored.flow, mirrored.fleet["source"], mirrored.fleet["target"], topics
    )
    measured(f"{asked} offsets translated, forward and back")
    assert wrong[:5] == []
