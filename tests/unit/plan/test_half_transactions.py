"""Which transactions of the source are on the target in part."""

import pytest

from kit.maps import map_of
from kit.runs import ORDERS
from mmtool.plan.failover.half_transactions import (
    Arrived,
    Share,
    half_transactions,
    told_by_target,
    transactions_on_target,
)
from mmtool.plan.failover.risks import EmergencyFacts
from mmtool.plan.groups.offsets import PartitionFacts
from mmtool.plan.words import Names
from mmtool.translation.blocks import SeenOffset
from mmtool.translation.types import UNKNOWN, TopicPartition, UpstreamOffset

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def share(place, first, last, *, producer=7, epoch=0, at=0, committed=True):
    return Share(place, producer, epoch, first, last, at, at + 10, committed)


def told(found):
    return [[(s.place, how) for s, how in half.shares] for half in found]


def test_a_transaction_that_arrived_in_one_partition_only_is_half():
    found = half_transactions([share(A, 0, 4), share(B, 9, 9)], {A: 5, B: 9})
    assert told(found) == [[(A, Arrived.ALL), (B, Arrived.NONE)]]
    assert found[0].certain
    parts = "offsets 0-4 of a-0 (mirrored: all), offset 9 of b-0 (mirrored: none)"
    assert str(found[0]) == f"producer id 7, epoch 0: {parts}"


WHOLE = [share(A, 0, 4), share(B, 9, 9)]
ABORTED = [one._replace(committed=False) for one in WHOLE]
OF_TWO = [share(A, 0, 4), share(B, 9, 9, producer=8)]


@pytest.mark.parametrize(
    ("shares", "frontiers"),
    [(WHOLE, (5, 10)), (WHOLE, (0, 9)), (ABORTED, (5, 0)), (OF_TWO, (5, 9))],
    ids=["arrived whole", "not arrived", "aborted: in no mirror", "of two producers"],
)
def test_what_is_no_half_transaction_is_not_told_of(shares, frontiers):
    assert half_transactions(shares, dict(zip((A, B), frontiers, strict=True))) == []


def test_a_mirror_that_stopped_among_a_transaction_s_records_holds_a_part():
    assert told(half_transactions([share(A, 0, 4)], {A: 3})) == [[(A, Arrived.PART)]]


def test_transactions_of_one_epoch_are_told_apart_by_their_times():
    shares = [share(A, 0, 1, at=0), share(B, 0, 1, at=2), share(A, 3, 4, at=50), share(B, 3, 4, at=52)]
    found = half_transactions(shares, {A: 5, B: 3})
    assert told(found) == [[(A, Arrived.ALL), (B, Arrived.NONE)]]
    assert found[0].shares[0][0].first == 3
    assert not found[0].certain
    assert "(mirrored: none); these are likely parts" in str(found[0])


EAST_WEST = Names("east", "west")
PAYMENTS, OTHER = TopicPartition("payments", 0), TopicPartition("payments", 1)
COMMITTED = map_of(ORDERS, [(0, 0, 4)], 5)


def on_target(**ends):
    """``payments-0`` has one transaction and its marker; ``payments-1`` is inside its first one."""
    maps = {PAYMENTS: COMMITTED, OTHER: map_of(ORDERS, [(0, 0, 50)], 50)}
    known = {PAYMENTS: ends.get("first"), OTHER: ends.get("second")}
    return transactions_on_target(facts(maps, {at: end for at, end in known.items() if end}))


def facts(maps, ends):
    partitions = {at: PartitionFacts(at, at, known, UNKNOWN, UNKNOWN) for at, known in maps.items()}
    return EmergencyFacts(
        (), {}, {}, partitions, {at: SeenOffset(UpstreamOffset(end), 0) for at, end in ends.items()}, now_ms=0
    )


def test_from_the_target_alone_a_partition_that_ends_early_may_hold_a_part_also_without_a_marker_of_its_own():
    found = on_target(first=5, second=101)
    assert (found.topics, found.behind) == (("payments",), (OTHER,))
    sentence = told_by_target(found, EAST_WEST)
    assert "transactions may be on west in part: payments-1 may lack records of east" in sentence
    assert "west does not store which transaction a record belongs to" in sentence


def test_so_may_one_whose_end_on_the_source_was_never_seen():
    assert on_target(second=50).behind == (PAYMENTS,)


def test_what_is_mirrored_to_the_last_seen_end_may_lack_what_ended_since():
    found = on_target(first=5, second=50)
    assert found.behind == ()
    assert "transactions that ended after that may be on west in part" in told_by_target(found, EAST_WEST)


def test_a_topic_without_gaps_has_no_complete_transaction():
    found = transactions_on_target(facts({OTHER: map_of(ORDERS, [(0, 0, 5)], 5)}, {OTHER: 9}))
    assert (found.topics, found.behind) == ((), ())
    assert "hold no complete transaction of east" in told_by_target(found, EAST_WEST)


def test_of_topics_that_are_not_selected_nothing_is_told():
    maps = {PAYMENTS: COMMITTED, TopicPartition("orders", 0): COMMITTED}
    assert transactions_on_target(facts(maps, {}), ["orders"]).topics == ("orders",)


def test_of_topics_without_offset_runs_the_target_tells_nothing_of_transactions():
    found = transactions_on_target(facts({PAYMENTS: None}, {}))
    assert "west stores no exact offset map" in told_by_target(found, EAST_WEST)
