"""The diverged tail as new records of one topic: once, however often the writer is killed."""

from contextlib import suppress
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.batches import data
from kit.clusters import FakeCluster
from kit.memory_logs import FakeAppender, FakeBatches
from mmtool.errors import RefusedError, UnreachableError
from mmtool.failover.diverged_tail.tail_writer import ends_of, transactional_id, write_tail
from mmtool.failover.diverged_tail.tails import FoundTails, PartitionTail, TailKind
from mmtool.kafka.batches import decode, iter_batches
from mmtool.plan.failover.tail_progress import Begun
from mmtool.translation.divergence import DivergedTail, TailPart
from mmtool.translation.types import ClusterId, TopicId, TopicPartition, UpstreamOffset

PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 1)]
BROUGHT = 72
SALVAGE = [TopicPartition("salvage", 0), TopicPartition("salvage", 1)]


def tail_of(place, start, stop):
    first, last = UpstreamOffset(start), UpstreamOffset(stop)
    tail = DivergedTail(first, last, (TailPart(first, last, 1),), is_final=True, brought_to=first)
    return PartitionTail(place, TopicId(place.topic), TailKind.DIVERGED, tail)


def source_of(batches):
    """Three partitions with these batches each, from offset 0 on: (records, codec)."""
    source, stop = FakeBatches(), sum(count for count, _ in batches)
    for place in PLACES:
        log, at = b"", 0
        for count, codec in batches:
            log, at = log + data(at, count, codec=codec), at + count
        source.logs[place] = log + data(at, 2, pid=BROUGHT)
    found = tuple(tail_of(place, min(3, stop - 1), stop) for place in PLACES)
    return source, FoundTails(found, frozenset({BROUGHT}), committed=True)


def begun_with(records):
    """As the journal has it before the first record, in empty partitions."""
    part = TailPart(UpstreamOffset(0), UpstreamOffset(records), records)
    return Begun(dict.fromkeys(SALVAGE, 0), {PLACES[0]: (part,)})


def expected(source, tails, place):
    views = [v for v in iter_batches(source.logs[place]) if v.header.producer_id != BROUGHT]
    start = tails.of(place).tail.start
    return [record[1:] for view in views for record in decode(view) if record.offset >= start]


BATCHES = st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["none", "gzip"])), min_size=1, max_size=6)


def all_expected(source, tails, number):
    """Of every partition with this number, one topic after the other."""
    return list(chain(*(expected(source, tails, place) for place in PLACES if place.partition == number)))


@given(BATCHES, st.lists(st.integers(0, 6), max_size=6))
def test_each_record_is_there_once_and_in_order_however_often_its_writer_is_killed(batches, lives):
    source, tails = source_of(batches)
    begun = begun_with(sum(len(expected(source, tails, place)) for place in PLACES))
    target, ended = FakeAppender(lives=list(lives)), False
    while not ended:
        with suppress(UnreachableError):
            write_tail(source, target, tails, begun, "salvage")
            ended = True
    for place in SALVAGE:
        assert [record[1:] for record in target.log[place]] == all_expected(source, tails, place.partition)


@given(BATCHES)
def test_a_batch_that_is_too_large_for_the_topic_is_split(batches):
    source, tails = source_of(batches)
    target = FakeAppender()
    write_tail(source, target, tails, begun_with(99), "salvage", max_batch_bytes=100)
    assert [record[1:] for record in target.log[SALVAGE[0]]] == all_expected(source, tails, 0)


def test_where_the_source_has_deleted_records_between_two_tries_nothing_is_guessed():
    source, tails = source_of([(4, "none"), (4, "none")])
    target = FakeAppender(lives=[1])
    with pytest.raises(UnreachableError):
        write_tail(source, target, tails, begun_with(99), "salvage")
    with pytest.raises(RefusedError, match="the flow's source now holds 15 of the 99 diverged records"):
        write_tail(source, target, tails, begun_with(99), "salvage")


def test_what_is_in_the_topic_already_is_not_counted_as_ours():
    cluster = FakeCluster("west", ClusterId("west"))
    cluster.add_topic("salvage", "id", 7, 9)
    _, tails = source_of([(4, "none")])
    assert ends_of(cluster, "salvage", tails) == {("salvage", 0): 7, ("salvage", 1): 9}


def test_a_topic_with_too_few_partitions_is_refused_before_anything_is_written():
    cluster = FakeCluster("west", ClusterId("west"))
    cluster.add_topic("salvage", "id", 0)
    _, tails = source_of([(4, "none")])
    with pytest.raises(RefusedError, match="cluster west has no partition salvage-1") as caught:
        ends_of(cluster, "salvage", tails)
    assert "at least 2 partitions" in caught.value.remedy


def test_the_writer_s_name_is_one_that_mmtool_s_rights_cover():
    assert transactional_id("op-1") == "mmtool.diverged.op-1"
