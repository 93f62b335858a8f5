"""Offset syncs are due when MirrorMaker 2 would send them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.translation.mm2_records import OffsetSync
from mmtool.translation.recorder import SyncEmitter
from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset

ORDERS = TopicPartition("orders", 0)


def sync(upstream: int, downstream: int) -> OffsetSync:
    return OffsetSync(ORDERS, UpstreamOffset(upstream), DownstreamOffset(downstream))


def acked(emitter: SyncEmitter, upstream: int, downstream: int, count: int = 1) -> OffsetSync | None:
    emitter.acked(UpstreamOffset(upstream), DownstreamOffset(downstream), count)
    return emitter.due()


def due_offsets(emitter: SyncEmitter, records: range) -> list[int]:
    """Upstream offsets of the syncs due when these records are acked one by one, without holes."""
    return [offset for offset in records if acked(emitter, offset, offset) is not None]


class RecordByRecord:
    """The four rules as MM2 applies them to each record: the reference."""

    def __init__(self, lag_max: int) -> None:
        self.lag_max = lag_max
        self.previous_up = self.previous_down = self.synced = None
        self.pending = self.delayed = None

    def acked(self, up: int, down: int) -> None:
        due = (
            self.synced is None
            or down - (self.synced + 1) >= self.lag_max
            or up != self.previous_up + 1
            or down < self.previous_down
        )
        if due:
            self.synced, self.pending, self.delayed = down, sync(up, down), None
        else:
            self.delayed = sync(up, down)
        self.previous_up, self.previous_down = up, down


def test_the_first_record_is_synced():
    assert acked(SyncEmitter(ORDERS), 7, 3) == sync(7, 3)


def test_steady_records_are_synced_every_offset_lag_max_plus_one():
    assert due_offsets(SyncEmitter(ORDERS), range(400)) == [0, 101, 202, 303]


def test_with_offset_lag_max_zero_each_record_is_synced():
    assert due_offsets(SyncEmitter(ORDERS, offset_lag_max=0), range(5)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("upstream", "downstream", "expected"),
    [(1, 1, None), (2, 1, sync(2, 1)), (0, 1, sync(0, 1)), (1, 5, None), (1, 102, sync(1, 102))],
)
def test_a_hole_or_a_rewind_upstream_or_a_wide_gap_downstream_is_synced(upstream, downstream, expected):
    emitter = SyncEmitter(ORDERS)
    acked(emitter, 0, 0)
    assert acked(emitter, upstream, downstream) == expected


def test_a_target_that_goes_backwards_is_synced():
    emitter = SyncEmitter(ORDERS)
    acked(emitter, 0, 50)
    assert acked(emitter, 1, 10) == sync(1, 10)


def test_a_sync_is_handed_over_once():
    emitter = SyncEmitter(ORDERS)
    acked(emitter, 0, 0)
    assert emitter.due() is None


def test_after_a_quiet_tick_the_last_acked_record_is_synced():
    emitter = SyncEmitter(ORDERS)
    acked(emitter, 0, 20, count=1_050)
    emitter.on_tick()
    assert emitter.due() == sync(1_049, 1_069)


def test_a_second_quiet_tick_sends_nothing():
    emitter = SyncEmitter(ORDERS)
    acked(emitter, 0, 0, count=7)
    emitter.on_tick()
    emitter.due()
    emitter.on_tick()
    assert emitter.due() is None


def test_a_tick_before_anything_was_acked_sends_nothing():
    emitter = SyncEmitter(ORDERS)
    emitter.on_tick()
    assert emitter.due() is None


batches = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1, 5, -3]),  # hole, or rewind, upstream before the batch
        st.sampled_from([0, 0, 0, 1, 40, -2]),  # markers, or a truncation, downstream
        st.integers(1, 60),
        st.sampled_from(["", "due", "tick"]),
    ),
    max_size=25,
)


@given(batches, st.integers(0, 12))
def test_by_the_batch_is_the_same_as_record_by_record(steps, lag_max):
    emitter, reference = SyncEmitter(ORDERS, offset_lag_max=lag_max), RecordByRecord(lag_max)
    up, down = 100, 100
    for hole, marker, count, then in steps:
        up, down = max(0, up + hole), max(0, down + marker)
        emitter.acked(UpstreamOffset(up), DownstreamOffset(down), count)
        for i in range(count):
            reference.acked(up + i, down + i)
        up, down = up + count, down + count
        if then == "tick":
            emitter.on_tick()
            reference.pending, reference.delayed = reference.delayed or reference.pending, None
        if then:
            assert emitter.due() == reference.pending
            reference.pending = None


@given(batches, st.integers(0, 12))
def test_the_newest_record_is_never_further_than_offset_lag_max_from_its_sync(steps, lag_max):
    emitter, up, down, synced = SyncEmitter(ORDERS, offset_lag_max=lag_max), 100, 100, None
    for hole, marker, count, _ in steps:
        up, down = max(0, up + hole), max(0, down + marker)
        synced = acked(emitter, up, down, count) or synced
        up, down = up + count, down + count
        assert 0 <= down - 1 - synced.downstream <= lag_max
