"""A home that comes back with records that were never mirrored, on real brokers, without Spark.

The flow runs from ``target`` to ``source``, so that no other test's flow is taken over by accident.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kit.lookups import batches_of, flow_now
from kit.mirror_flow import Owner
from kit.tail_files import exported_records
from kit.wire import signed
from mmtool.config import load_settings
from mmtool.errors import RefusedError
from mmtool.failover.diverged_tail.tail_file import export_tail, read_export
from mmtool.failover.diverged_tail.tail_writer import ends_of, transactional_id, write_tail, written_to
from mmtool.failover.diverged_tail.tails import TailKind, find_tail
from mmtool.insight.partitions import partition_facts
from mmtool.kafka.logs.sequence_append import KafkaAppender
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets, read_topic
from mmtool.plan.failover.tail_progress import Begun
from mmtool.plan.groups.offsets import Direction
from mmtool.translation.answers import Bounded
from mmtool.translation.divergence import Homeward, go_home
from mmtool.translation.types import DownstreamOffset, TopicPartition

if TYPE_CHECKING:
    from mmtool.config import FlowSettings

HOME, AWAY = "target", "source"
SECONDS = 30.0


@dataclass
class Clusters:
    """A topic of two partitions at home, which is mirrored and dies, and the way back."""

    fleet: object
    out: FlowSettings
    back: FlowSettings
    topic: str

    @property
    def remote(self):
        return self.out.remote_topic(self.topic)

    def bootstrap(self, side):
        return self.fleet[side].bootstrap

    def produce(self, side, values, topic=None, **config):
        """Plain records: into the first partition those of even numbers, into the second the others."""
        producer = Producer({"bootstrap.servers": self.bootstrap(side), "linger.ms": 20} | config)
        for number, value in enumerate(values):
            producer.produce(topic or self.topic, value, b"key", partition=number % 2)
        assert producer.flush(SECONDS) == 0

    def transact(self, side, values, *, commit):
        producer = Producer(
            {"bootstrap.servers": self.bootstrap(side), "transactional.id": f"{self.topic}-tx"}
        )
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for value in values:
            producer.produce(self.topic, value, partition=0)
        producer.flush(SECONDS)
        before = end_offsets(self.bootstrap(side), self.topic)[0]
        (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)
        # the marker is written after the end of a transaction is answered
        wait_until(lambda: end_offsets(self.bootstrap(side), self.topic)[0] > before, "the marker", SECONDS)

    def mirror(self, flow):
        async def run():
            owner = await Owner.take(flow)
            await owner.catch_up()
            await owner.close()

        asyncio.run(run())

    def tails(self):
        return find_tail(flow_now(self.out), **batches_of(self.out))

    def consumed(self, side=HOME, topic=None):
        """What a plain read_committed consumer sees, by partition."""
        found = {0: [], 1: []}
        for record in read_topic(self.bootstrap(side), topic or self.topic):
            found[record.partition].append(record)
        return found


def clusters(fleet, directory, topic, **extra):
    ways = (f"{HOME}->{AWAY}", f"{AWAY}->{HOME}")
    own = {f"{way}.topics": f"{topic}.*" for way in ways}
    settings = {**own, **{f"{way}.heartbeats.replication.enabled": "false" for way in ways}, **extra}
    path = directory / "mm2.properties"
    path.write_text(fleet.properties([(HOME, AWAY), (AWAY, HOME)], **settings), encoding="utf-8")
    (out,), (back,) = (load_settings(path, {}).select(*way) for way in ((HOME, AWAY), (AWAY, HOME)))
    made = Clusters(fleet, out, back, topic)
    create_topic(fleet[HOME].bootstrap, topic, 2)
    return made


def odd_tail(home):
    """Every kind of record that a producer can leave behind."""
    odd = Producer({"bootstrap.servers": home.bootstrap(HOME), "compression.type": "zstd", "linger.ms": 50})
    odd.produce(
        home.topic, None, b"\xff\xfe", partition=0, headers=[("h", None), ("h", b"\x00\x80"), ("i", b"")]
    )
    odd.produce(home.topic, b"", None, partition=0)
    odd.produce(home.topic, "gr\u00fc\u00df\u2028\n".encode(), b"", partition=0, timestamp=1_700_000_000_123)
    assert odd.flush(SECONDS) == 0
    home.transact(HOME, [b"committed %d" % n for n in range(5)], commit=True)
    home.transact(HOME, [b"aborted %d" % n for n in range(7)], commit=False)
    home.produce(HOME, [b"last %d" % n for n in range(500)], **{"compression.type": "lz4"})


@pytest.fixture(scope="module")
def prefixed(fleet, tmp_path_factory):
    """40 records went away; what is behind them never did."""
    home = clusters(fleet, tmp_path_factory.mktemp("prefixed"), "diverged-prefixed")
    home.produce(HOME, [b"first %d" % n for n in range(40)])
    home.transact(HOME, [b"mirrored, aborted"], commit=False)
    home.mirror(home.out)
    odd_tail(home)
    return home


def behind(records, start):
    return [record for record in records if record.offset >= start]


def test_the_tail_is_what_a_consumer_finds_behind_the_frontier(prefixed):
    tails, consumed = prefixed.tails(), prefixed.consumed()
    for partition in (0, 1):
        found = tails.of(TopicPartition(prefixed.topic, partition))
        assert found.kind is TailKind.DIVERGED
        assert found.tail.is_final
        assert found.tail.records == len(behind(consumed[partition], found.tail.start))
    assert tails.diverged_records == 3 + 5 + 500


def test_the_export_holds_what_a_consumer_reads_byte_for_byte(prefixed, tmp_path):
    tails, path = prefixed.tails(), tmp_path / "tail.jsonl"
    logs = batches_of(prefixed.out)["source"]
    export = export_tail(logs, tails, path, operation_id="op", source_cluster_id="home")
    assert read_export(path) == export
    expected = [
        (partition, r.offset, r.timestamp_ms, r.key, r.value, tuple((n.encode(), v) for n, v in r.headers))
        for partition, records in prefixed.consumed().items()
        for r in behind(records, tails.of(TopicPartition(prefixed.topic, partition)).tail.start)
    ]
    assert [(row.place.partition, *row.record) for row in exported_records(path)] == expected


def test_records_that_are_away_and_in_no_book_keep_everybody_before_the_tail(fleet, tmp_path, topic_name):
    home = clusters(fleet, tmp_path, topic_name("unbooked"))
    home.produce(HOME, [b"%d" % n for n in range(20)])

    async def die_before_the_books_are_written():
        owner = await Owner.take(home.out)
        await owner.catch_up()
        log, shard = await owner.target_log(home.topic), owner.signature(home.topic)
        assert (await log.produce(signed([b"20", b"21"], shard, 10))).error_code == 0
        await owner.kill()

    asyncio.run(die_before_the_books_are_written())
    home.produce(HOME, [b"%d" % n for n in range(20, 30)])
    tails = home.tails()
    assert [found.tail.is_final for found in tails.partitions] == [False, True]
    known = partition_facts(flow_now(home.out), Direction.REVERSE)[TopicPartition(home.remote, 0)]
    found = go_home(
        known.map,
        tails.partitions[0].tail,
        DownstreamOffset(12),
        away=known.target_log,
        home=known.source_log,
    )
    assert found == Homeward(Bounded(10, 2), 0, 5)


class KilledError(Exception):
    """What a test ends a writer with."""


class MortalAppender(KafkaAppender):
    """Dies after some batches."""

    left = 3

    def append(self, place, batch):
        if not self.left:
            raise KilledError
        self.left -= 1
        super().append(place, batch)


def begun_in(side, clusters, topic, tails):
    """As the journal has it before the first record is written into the topic."""
    known = flow_now(clusters.out).clusters
    ends = ends_of(known.source if side == HOME else known.target, topic, tails)
    return Begun(ends, {found.place: found.tail.parts for found in tails.to_export})


def test_the_tail_is_produced_anew_once_although_its_first_writer_was_killed(prefixed, topic_name):
    salvage, tails = topic_name("salvage"), prefixed.tails()
    create_topic(prefixed.bootstrap(AWAY), salvage, 2)
    prefixed.produce(AWAY, [b"was there"] * 4, salvage)
    source, begun = batches_of(prefixed.out)["source"], begun_in(AWAY, prefixed, salvage, tails)
    name = transactional_id(salvage)
    with pytest.raises(KilledError):
        write_tail(source, MortalAppender(prefixed.out.target, name, SECONDS), tails, begun, salvage)
    writer = KafkaAppender(prefixed.out.target, name, SECONDS)
    write_tail(source, writer, tails, begun, salvage)
    written = written_to(source, writer, tails, begun, salvage)
    assert sum(count for _, count in written.values()) == tails.diverged_records
    there = prefixed.consumed(AWAY, salvage)
    for partition, records in prefixed.consumed().items():
        start = tails.of(TopicPartition(prefixed.topic, partition)).tail.start
        expected = [(r.timestamp_ms, r.key, r.value, r.headers) for r in behind(records, start)]
        assert [(r.timestamp_ms, r.key, r.value, r.headers) for r in there[partition][2:]] == expected


def test_a_compacted_topic_takes_no_record_without_a_key_and_says_so(prefixed, topic_name):
    salvage, tails = topic_name("compacted"), prefixed.tails()
    create_topic(prefixed.bootstrap(HOME), salvage, 2, 1, **{"cleanup.policy": "compact"})
    source, begun = batches_of(prefixed.out)["source"], begun_in(HOME, prefixed, salvage, tails)
    writer = KafkaAppender(prefixed.out.source, transactional_id(salvage), SECONDS)
    with pytest.raises(RefusedError, match="INVALID_RECORD") as caught:
        write_tail(source, writer, tails, begun, salvage)
    assert "cleanup.policy=delete" in caught.value.remedy
    written = written_to(source, writer, tails, begun, salvage)
    held = prefixed.consumed(HOME, salvage)
    assert {place.partition: count for place, (_, count) in written.items()} == {
        0: len(held[0]),
        1: len(held[1]),
    }
