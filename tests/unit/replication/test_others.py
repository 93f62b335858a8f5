"""What somebody else wrote into a mirror is counted once, with an owner or without, and told of."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.batches import PlainRecord, batch_of, data
from kit.mirror import SOURCE_ID, FakeLog, assigned, fetched, mirror_of, mirrored, settle
from mmtool.kafka.state.control_view import ControlView
from mmtool.plan.records.documents import PauseRecord, State
from mmtool.replication.control.control_follower import booked_position, tally_of_all
from mmtool.replication.ownership import claim_and_recover as others
from mmtool.replication.ownership.claim_and_recover import told_of_others, with_others
from mmtool.replication.pump.log_changes import Foreign
from mmtool.replication.spark.assignment import NOTHING_YET, Tally
from mmtool.translation.types import DownstreamOffset

PLACE = (SOURCE_ID, 0)


class Control:
    """The control topic of a flow, in memory."""

    def __init__(self, monkeypatch, *, keeps_names=False):
        self.view = ControlView()
        self.writes = 0
        target = SimpleNamespace()
        self.flow = SimpleNamespace(
            settings=SimpleNamespace(target=target, keeps_names=keeps_names),
            identity=SimpleNamespace(control_topic="control"),
        )
        monkeypatch.setattr(others, "read_control", lambda *_: self.view)
        monkeypatch.setattr(others, "write_documents", self.write)

    async def write(self, _flow, _topic, documents):
        for document in documents:
            self.view.apply(document.key, document.encode(), self.view.end)
            self.writes += 1

    def find(self, *ranges):
        """The next owner finds these."""
        return asyncio.run(told_of_others(self.flow, {PLACE: assigned().block}, {PLACE: list(ranges)}))

    @property
    def told(self):
        return self.view.written_position(*PLACE)


@given(st.integers(0, 20), st.lists(st.integers(1, 5), max_size=12))
def test_no_offset_is_counted_twice_whatever_was_counted_by_a_pump_before(end, lengths):
    ranges, at = [], 0
    for number, length in enumerate(lengths):
        if number % 2:
            ranges.append(range(at, at + length))
        at += length
    before = booked_position(assigned(tally=Tally(foreign=7, foreign_end=end)), "owner-1")
    after = with_others(before, ranges)
    new = [offset for one in ranges for offset in one if offset >= end]
    assert after.foreign == 7 + len(new)
    assert after.foreign_end == max([end, *(offset + 1 for offset in new)])
    assert with_others(after, ranges) == after


def test_it_is_added_to_what_the_last_owner_s_pumps_told(monkeypatch):
    control = Control(monkeypatch)
    told = booked_position(assigned(tally=Tally(9, 90, foreign=2, foreign_end=4)), "owner-1")
    control.view.apply(told.key, told.encode(), 0)
    found = control.find(range(3, 5), range(6, 9))
    assert control.told == replace(told, foreign=6, foreign_end=9)
    assert found == {PLACE: control.told}


def test_of_a_partition_of_which_no_pump_told_anything_the_books_do(monkeypatch):
    control = Control(monkeypatch)
    control.find(range(2))
    said = "another producer wrote into source.orders-0 on the target: 2 offsets, the last one 1; stop it"
    assert control.told.topic == "orders"
    assert control.told.foreign_said.startswith(said)


def test_a_pause_that_the_position_is_shown_with_is_not_written_into_it(monkeypatch):
    """Else it would be said for ever."""
    control = Control(monkeypatch)
    told = booked_position(assigned(), "owner-1")
    pause = PauseRecord(SOURCE_ID, "orders", paused=True, by="ann@east", since_ms=1, reason="disk")
    for word in (told, pause):
        control.view.apply(word.key, word.encode(), 0)
    control.find(range(1))
    assert control.view.positions[PLACE].state is State.PAUSED
    assert control.told == replace(told, foreign=1, foreign_end=1)


@pytest.mark.parametrize("ranges", [(), (range(2, 4),)])
def test_nothing_new_writes_nothing(ranges, monkeypatch):
    control = Control(monkeypatch)
    told = booked_position(assigned(tally=Tally(foreign=2, foreign_end=4)), "owner-1")
    control.view.apply(told.key, told.encode(), 0)
    assert (control.find(*ranges), control.writes) == ({}, 0)


def test_where_topics_keep_their_names_others_may_write(monkeypatch):
    control = Control(monkeypatch, keeps_names=True)
    assert (control.find(range(5)), control.told) == ({}, None)


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
    mirror, log = mirrored(fetched(data(0, 2), end=2), foreign=Foreign(0))
    stranger(log)
    mirror.offer(fetched(data(2, 2), end=4), now_ms=1)
    settle(mirror, log)
    assert (mirror.foreign.count, mirror.foreign.end) == (1, 3)


def test_at_rest_the_log_s_end_tells_it_and_no_offset_is_moved_by_it():
    mirror, log = mirrored(fetched(data(0, 2), end=2), foreign=Foreign(0))
    target_verified_end = mirror.take_blocks()[-1].tail.target_verified_end
    stranger(log)
    mirror.dirty = False
    mirror.looked(mirror.mark, DownstreamOffset(log.end))
    assert (mirror.foreign.count, mirror.foreign.end, mirror.dirty) == (1, 3, True)
    assert (mirror.take_blocks(), target_verified_end) == ([], 2)


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
