"""Which of a pump's mirrors are read over one connection."""

from __future__ import annotations

from mmtool.plan.documents import State
from mmtool.replication.pump.share import FETCH_BYTES, Share
from mmtool.testing.batches import data
from mmtool.testing.mirror import assigned, fetched, mirror_of

LIMIT = 100


def asked(share):
    request = share.session.request(max_wait_ms=1, max_bytes=1, read_committed=True)
    return {(p.partition, p.offset) for p in request.partitions}


def share_of(*mirrors):
    share = Share(LIMIT)
    share.follow(mirrors)
    return share


def test_a_mirror_is_asked_for_from_where_it_stands():
    mirror = mirror_of()
    share = share_of(mirror)
    assert asked(share) == {(mirror.assignment.partition, mirror.fetch_position)}


def test_a_full_mirror_waits_until_it_has_room_again():
    mirror = mirror_of()
    share = share_of(mirror)
    mirror.offer(fetched(data(0, 20), end=20), now_ms=1)
    share.touch(mirror)
    assert (share.is_open, share.has_full) == (False, True)
    share.refill()
    assert not share.is_open
    mirror.drop_unsent()
    share.refill()
    assert (share.is_open, share.has_full) == (True, False)


def test_a_halted_mirror_is_asked_for_no_more_and_does_not_count_as_full():
    mirror = mirror_of()
    share = share_of(mirror)
    mirror.halt("for a reason")
    share.touch(mirror)
    assert (mirror.state, share.is_open, share.has_full) == (State.HALTED, False, False)


def test_a_mirror_whose_leader_moved_away_is_left_to_another_connection():
    stays, leaves = mirror_of(), mirror_of(assigned(partition=1))
    share = share_of(stays, leaves)
    share.follow([stays])
    assert asked(share) == {(stays.assignment.partition, 0)}


def test_a_partition_may_fill_what_few_partitions_leave_it():
    share = share_of(mirror_of(), mirror_of(assigned(partition=1)))
    share.allow(FETCH_BYTES, throttled=False)
    request = share.session.request(max_wait_ms=1, max_bytes=FETCH_BYTES, read_committed=True)
    assert {p.max_bytes for p in request.partitions} == {FETCH_BYTES // 2}
