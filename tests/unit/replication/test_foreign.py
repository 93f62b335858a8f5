"""Offsets of a mirror that somebody else wrote are counted, once, and told of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kit.batches import PlainRecord, batch_of, data
from kit.mirror import FakeLog, assigned, fetched, mirror_of, settle
from mmtool.replication.control.control_follower import booked_position, tally_of_all
from mmtool.replication.pump.gaps import Foreign
from mmtool.replication.spark.assignment import NOTHING_YET, Tally
from mmtool.translation.types import DownstreamOffset

STEPS = st.lists(st.tuples(st.sampled_from(["ours", "theirs", "look"]), st.integers(1, 5)), max_size=30)


@given(STEPS, st.integers(0, 3))
def test_a_every_offset_is_ours_or_foreign_or_not_seen_yet(steps, start):
    foreign, end, theirs, last = Foreign(start), start, [], 0
    for what, count in steps:
        if what == "theirs":
            theirs += range(end, end + count)
            end += count
        elif what == "ours":
            foreign.appended(end, end + count)
            end += count
            last = len(theirs)
        else:
            foreign.reached(end)
            last = len(theirs)
    assert foreign.count == last
    assert foreign.end == (theirs[last - 1] + 1 if last else 0)


def stranger(log, value=b"theirs"):
    log.append(batch_of([PlainRecord(0, value=value)], producer=(99, 0, 0)).write())


def test_what_lies_between_two_batches_is_somebody_else_s():
    mirror, log = mirror_of(foreign=Foreign(0)), FakeLog()
    mirror.offer(fetched(data(0, 2), end=2), now_ms=1)
    settle(mirror, log)
    stranger(log)
    mirror.offer(fetched(data(2, 2), end=4), now_ms=1)
    settle(mirror, log)
    assert (mirror.foreign.count, mirror.foreign.end) == (1, 3)


def test_at_rest_the_log_s_end_tells_it_and_no_offset_is_moved_by_it():
    mirror, log = mirror_of(foreign=Foreign(0)), FakeLog()
    mirror.offer(fetched(data(0, 2), end=2), now_ms=1)
    settle(mirror, log)
    target_verified_end = mirror.take_blocks()[-1].tail.target_verified_end
    stranger(log)
    mirror.dirty = False
    mirror.looked(mirror.mark, DownstreamOffset(log.end))
    assert (mirror.foreign.count, mirror.foreign.end, mirror.dirty) == (1, 3, True)
    assert (mirror.take_blocks(), target_verified_end) == ([], 2)


def test_a_look_that_began_before_a_batch_of_ours_tells_nothing():
    mirror, log = mirror_of(foreign=Foreign(0)), FakeLog()
    mark = mirror.mark
    mirror.offer(fetched(data(0, 2), end=2), now_ms=1)
    settle(mirror, log)
    mirror.looked(mark, DownstreamOffset(2))
    assert mirror.foreign.count == 0


def test_who_begins_behind_what_was_there_before_finds_nothing_foreign():
    """Its own fence, and a mirror that begins in a topic with records of its own."""
    begun = assigned(upstream=5, downstream=7)
    mirror = mirror_of(begun, foreign=Foreign.of(begun))
    mirror.looked(mirror.mark, DownstreamOffset(7))
    assert mirror.foreign.count == 0


def test_what_is_counted_goes_on_from_round_to_round_and_from_owner_to_owner():
    """The word of the round that has just ended may reach its driver before the pump's last position does."""
    told = booked_position(assigned(tally=Tally(7, 70, 1, 3, 18, 5, 15)), "owner-1")
    assert tally_of_all(NOTHING_YET, told, "owner-2") == Tally(0, 0, 1, 3, 18, 5, 15)
    more = Tally(9, 90, 2, 5, 30, 8, 40)
    assert tally_of_all(more, told, "owner-2") == more
    assert tally_of_all(Tally(9, 90), told, "owner-2") == Tally(9, 90, 1, 3, 18, 5, 15)
    assert tally_of_all(Tally(9, 90), None, "owner-2") == Tally(9, 90)


def test_latencies_go_on_from_round_to_round_and_begin_anew_with_an_owner():
    told = booked_position(assigned(tally=Tally(7, 70, latency=(5, 2), latency_ms=900)), "owner-1")
    assert (told.latency, told.latency_ms) == ((5, 2), 900)
    ours = tally_of_all(Tally(4, 40, latency=(4, 0), latency_ms=100), told, "owner-1")
    assert (ours.latency, ours.latency_ms) == ((5, 2), 900)
    later = tally_of_all(Tally(9, 90, latency=(6, 3), latency_ms=1000), told, "owner-1")
    assert (later.latency, later.latency_ms) == ((6, 3), 1000)
    assert tally_of_all(NOTHING_YET, told, "owner-2").latency == ()


def test_records_of_a_round_that_did_not_live_to_tell_its_end_are_counted_all_the_same():
    told = booked_position(assigned(tally=Tally(7, 70)), "owner-1")
    assert tally_of_all(Tally(3, 30), told, "owner-1") == Tally(7, 70)


def test_where_others_may_write_nothing_is_foreign():
    mirror, log = mirror_of(), FakeLog()
    stranger(log)
    mirror.looked(mirror.mark, DownstreamOffset(1))
    assert (mirror.foreign, mirror.take_blocks()[-1].tail.target_verified_end) == (None, 1)


def test_who_begins_where_others_wrote_last_does_not_count_them_again():
    """A flow that ended cleanly: its books end with its own last record, below what was told as foreign."""
    begun = assigned(upstream=5, downstream=7, tally=NOTHING_YET._replace(foreign=3, foreign_end=10))
    mirror = mirror_of(begun, foreign=Foreign.of(begun))
    mirror.looked(mirror.mark, DownstreamOffset(10))
    assert (mirror.foreign.count, mirror.foreign.end) == (3, 10)
    mirror.looked(mirror.mark, DownstreamOffset(11))
    assert (mirror.foreign.count, mirror.foreign.end) == (4, 11)
