"""Which transactions of the source are on the target in part."""

from mmtool.plan.half_transactions import Arrived, Share, half_transactions
from mmtool.translation.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def share(place, first, last, *, producer=7, epoch=0, at=0, committed=True):
    return Share(place, producer, epoch, first, last, at, at + 10, committed)


def told(found):
    return [[(s.place, how) for s, how in half.shares] for half in found]


def test_a_transaction_that_arrived_in_one_partition_only_is_half():
    found = half_transactions([share(A, 0, 4), share(B, 9, 9)], {A: 5, B: 9})
    assert told(found) == [[(A, Arrived.ALL), (B, Arrived.NONE)]]
    assert found[0].certain


def test_what_arrived_whole_or_not_at_all_is_not_told_of():
    both = [share(A, 0, 4), share(B, 9, 9)]
    assert half_transactions(both, {A: 5, B: 10}) == []
    assert half_transactions(both, {A: 0, B: 9}) == []


def test_a_mirror_that_stopped_among_a_transaction_s_records_holds_a_part():
    assert told(half_transactions([share(A, 0, 4)], {A: 3})) == [[(A, Arrived.PART)]]


def test_an_aborted_transaction_is_in_no_mirror():
    assert (
        half_transactions([share(A, 0, 4, committed=False), share(B, 9, 9, committed=False)], {A: 5, B: 0})
        == []
    )


def test_transactions_of_one_epoch_are_told_apart_by_their_times():
    shares = [share(A, 0, 1, at=0), share(B, 0, 1, at=2), share(A, 3, 4, at=50), share(B, 3, 4, at=52)]
    found = half_transactions(shares, {A: 5, B: 3})
    assert told(found) == [[(A, Arrived.ALL), (B, Arrived.NONE)]]
    assert found[0].shares[0][0].first == 3
    assert not found[0].certain


def test_another_producer_s_records_are_another_transaction():
    assert half_transactions([share(A, 0, 4), share(B, 9, 9, producer=8)], {A: 5, B: 9}) == []
