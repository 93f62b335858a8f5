"""Which of a pump's mirrors are read over one connection."""

from kit.batches import PlainRecord, batch_of, data
from kit.mirror import assigned, fetched, mirror_of
from mmtool.plan.records.documents import State
from mmtool.replication.pump.reader import FETCH_BYTES, FetchSet

LIMIT = 100


def asked(followed):
    request = followed.session.request(max_wait_ms=1, max_bytes=1, read_committed=True)
    return {(p.partition, p.offset) for p in request.partitions}


def followed_by(*mirrors):
    followed = FetchSet(LIMIT)
    followed.follow(mirrors)
    return followed


def test_a_mirror_is_asked_for_from_where_it_stands():
    mirror = mirror_of()
    followed = followed_by(mirror)
    assert asked(followed) == {(mirror.assignment.partition, mirror.fetch_position)}


def test_a_full_mirror_waits_until_it_has_room_again():
    mirror = mirror_of()
    followed = followed_by(mirror)
    mirror.offer(fetched(data(0, 20), end=20), now_ms=1)
    followed.touch(mirror)
    assert (followed.is_open, followed.has_full) == (False, True)
    followed.refill()
    assert not followed.is_open
    mirror.drop_unsent()
    followed.refill()
    assert (followed.is_open, followed.has_full) == (True, False)


def test_a_halted_mirror_is_asked_for_no_more_and_does_not_count_as_full():
    mirror = mirror_of()
    followed = followed_by(mirror)
    mirror.halt("for a reason")
    followed.touch(mirror)
    assert (mirror.state, followed.is_open, followed.has_full) == (State.HALTED, False, False)


def test_a_mirror_that_halts_once_what_it_holds_is_sent_is_asked_for_no_more():
    """However long the target takes for that, what cannot go would be fetched again each time."""
    mirror = mirror_of(assigned(max_batch_bytes=200))
    followed = followed_by(mirror)
    large = batch_of([PlainRecord(1, value=b"x" * 500)]).write()
    mirror.offer(fetched(data(0), large, end=2), now_ms=1)
    followed.touch(mirror)
    assert (mirror.state, followed.is_open, followed.has_full) == (State.RUNNING, False, False)


def test_a_mirror_whose_leader_moved_away_is_left_to_another_connection():
    stays, leaves = mirror_of(), mirror_of(assigned(partition=1))
    followed = followed_by(stays, leaves)
    followed.follow([stays])
    assert asked(followed) == {(stays.assignment.partition, 0)}


def test_a_partition_may_fill_what_few_partitions_leave_it():
    followed = followed_by(mirror_of(), mirror_of(assigned(partition=1)))
    followed.allow(FETCH_BYTES, throttled=False)
    request = followed.session.request(max_wait_ms=1, max_bytes=FETCH_BYTES, read_committed=True)
    assert {p.max_bytes for p in request.partitions} == {FETCH_BYTES // 2}
