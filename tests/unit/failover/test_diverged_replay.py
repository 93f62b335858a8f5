"""The diverged tail as new records of the other cluster: once, however often the writer is killed."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.batches import data
from kit.clusters import FakeCluster
from kit.memory_logs import FakeAppender, FakeBatches
from kit.scene import Scene
from mmtool.errors import RefusedError, UnreachableError
from mmtool.failover.diverged_tail.tail_replay import (
    BeforeReplay,
    before_replay,
    into_counterpart,
    into_topic,
    replay_tail,
    transactional_id,
)
from mmtool.failover.diverged_tail.tails import FoundTail, FoundTails, TailKind
from mmtool.kafka.batches import decode, iter_batches
from mmtool.translation.divergence import DivergedTail, TailPart
from mmtool.translation.types import ClusterId, TopicId, TopicPartition, UpstreamOffset

PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 1)]
BROUGHT = 72
SALVAGE = into_topic("salvage")
BEFORE = BeforeReplay(dict.fromkeys(PLACES, 0), 99)


def tail_of(place, start, stop):
    first, last = UpstreamOffset(start), UpstreamOffset(stop)
    tail = DivergedTail(first, last, (TailPart(first, last, 1),), is_final=True, brought_to=first)
    return FoundTail(place, TopicId(place.topic), TailKind.DIVERGED, tail)


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


def expected(source, tails, place):
    views = [v for v in iter_batches(source.logs[place]) if v.header.producer_id != BROUGHT]
    start = tails.of(place).tail.start
    return [record[1:] for view in views for record in decode(view) if record.offset >= start]


BATCHES = st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["none", "gzip"])), min_size=1, max_size=6)


@given(BATCHES, st.lists(st.integers(0, 6), max_size=6), st.booleans())
def test_each_record_is_there_once_and_in_order_however_often_its_writer_is_killed(batches, lives, one_topic):
    source, tails = source_of(batches)
    to = SALVAGE if one_topic else (lambda place: place)
    before = BeforeReplay(
        dict.fromkeys(map(to, PLACES), 0), sum(len(expected(source, tails, p)) for p in PLACES)
    )
    target = FakeAppender(lives=list(lives))
    given_ = None
    while given_ is None:
        with suppress(UnreachableError):
            given_ = replay_tail(source, target, tails, before, to)
    for place in {to(place) for place in PLACES}:
        from_each = [expected(source, tails, came) for came in PLACES if to(came) == place]
        assert [record[1:] for record in target.log[place]] == list(chain(*from_each))
    assert given_ == {place: len(expected(source, tails, place)) for place in PLACES}


@given(BATCHES)
def test_a_batch_that_is_too_large_for_the_topic_is_split(batches):
    source, tails = source_of(batches)
    target = FakeAppender()
    replay_tail(source, target, tails, BEFORE, lambda place: place, max_batch_bytes=100)
    assert [r[1:] for r in target.log[PLACES[0]]] == expected(source, tails, PLACES[0])


def test_where_the_source_has_deleted_records_between_two_tries_nothing_is_guessed():
    source, tails = source_of([(4, "none"), (4, "none")])
    target = FakeAppender(lives=[1])
    with pytest.raises(UnreachableError):
        replay_tail(source, target, tails, BEFORE, lambda place: place)
    with pytest.raises(RefusedError, match="the flow's source now holds 15 of the 99 diverged records"):
        replay_tail(source, target, tails, BEFORE, lambda place: place)


def test_what_is_in_the_topic_already_is_not_counted_as_ours():
    cluster = FakeCluster("west", ClusterId("west"))
    cluster.add_topic("salvage", "id", 7, 9)
    _, tails = source_of([(4, "none")])
    assert before_replay(cluster, tails, SALVAGE).ends == {("salvage", 0): 7, ("salvage", 1): 9}


def test_a_topic_with_too_few_partitions_is_refused_before_anything_is_written():
    cluster = FakeCluster("west", ClusterId("west"))
    cluster.add_topic("salvage", "id", 0)
    _, tails = source_of([(4, "none")])
    with pytest.raises(RefusedError, match="cluster west has no partition salvage-1") as caught:
        before_replay(cluster, tails, SALVAGE)
    assert "at least 2 partitions" in caught.value.remedy


def test_replay_goes_to_the_topic_that_was_mirrored_to(tmp_path):
    scene = Scene(tmp_path)
    scene.has("orders", 1, 1)
    assert into_counterpart(scene.look())(PLACES[1]) == ("east.orders", 1)


def test_the_writer_s_name_is_one_that_mmtool_s_rights_cover():
    assert transactional_id("op-1") == "mmtool.diverged.op-1"
