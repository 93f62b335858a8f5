"""What somebody else wrote into a mirror while it had no owner is counted once, and on the control topic."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.mirror import SOURCE_ID, assigned
from mmtool.kafka.state.control_view import ControlView
from mmtool.plan.records.documents import PauseRecord, State
from mmtool.plan.records.identity import decode_control
from mmtool.replication.control.control_follower import booked_position
from mmtool.replication.recovery import recover_shards as others
from mmtool.replication.recovery.recover_shards import told_of_others, with_others
from mmtool.replication.spark.assignment import Tally

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
    assert (control.told.topic, control.told.foreign_said) == (
        "orders",
        (
            "another producer wrote into source.orders-0 on the target: 2 offsets, the last one 1; stop it, unless the"
            " topic's producers have moved to the target"
        ),
    )


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


def test_what_is_written_can_be_read_by_whoever_watches(monkeypatch):
    control = Control(monkeypatch)
    control.find(range(1))
    assert decode_control(control.told.key, control.told.encode()) == control.told
