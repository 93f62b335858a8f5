"""Numbers that an operator decides on: lag in records and seconds, rates, time to go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.maps import position_of
from mmtool.kafka.state.control_view import ControlView
from mmtool.plan.flow.partition_rows import PartitionRow
from mmtool.plan.records.documents import FlowRecord, OwnerRecord, ShardRecord, State
from mmtool.replication.driver import progress
from mmtool.replication.driver.progress import RateMeter
from mmtool.replication.ownership.claim_and_recover import doubtful
from mmtool.translation.types import TopicPartition


def position(partition=0, *, at=5, end=9, since=0, records=0, state=State.RUNNING, observed=1):
    return replace(
        position_of(TopicPartition("orders", partition), "id", at, end, state),
        owner="me",
        records=records,
        mirrored_bytes=records * 100,
        reason="",
        observed_ms=observed,
        behind_since_ms=since,
    )


@pytest.fixture
def clock(monkeypatch):
    """A hand to turn: ``clock[0]`` are the seconds of the monotonic clock."""
    hand = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: hand[0])
    return hand


def test_the_first_sample_knows_no_rate(clock):
    shown = RateMeter().snapshot("A->B", [position(records=50)], now_ms=1)
    assert (shown.records, shown.records_per_second, shown.eta_seconds) == (50, 0.0, None)


def test_rates_are_over_the_last_ten_seconds(clock):
    meter = RateMeter()
    for second, records in [(0, 0), (5, 1000), (12, 2400)]:
        clock[0] = 100.0 + second
        shown = meter.snapshot("A->B", [position(records=records)], now_ms=1)
    assert (shown.records_per_second, shown.bytes_per_second) == (200.0, 20_000.0)


def test_the_time_to_go_is_what_the_shrinking_lag_promises(clock):
    meter = RateMeter()
    for second, at in [(0, 0), (2, 500)]:
        clock[0] = 100.0 + second
        shown = meter.snapshot("A->B", [position(at=at, end=1000)], now_ms=1)
    assert (shown.lag_records, shown.eta_seconds) == (500, 2.0)


def test_a_growing_lag_promises_no_time(clock):
    meter = RateMeter()
    for second, end in [(0, 1000), (2, 2000)]:
        clock[0] = 100.0 + second
        shown = meter.snapshot("A->B", [position(at=0, end=end)], now_ms=1)
    assert shown.eta_seconds is None


def test_halted_partitions_lag_and_promise_no_time(clock):
    meter = RateMeter()
    for second, at in [(0, 0), (2, 500)]:
        clock[0] = 100.0 + second
        seen = [position(0, at=at, end=1000), position(1, at=0, end=70, state=State.HALTED)]
        shown = meter.snapshot("A->B", seen, now_ms=1, refused=2)
    assert (shown.lag_records, shown.eta_seconds) == (570, 2.0)
    assert dict(shown.states) == {"running": 1, "halted": 3}


def test_before_the_pumps_have_spoken_the_lag_is_not_known(clock):
    seen = [position(0), position(1, at=9, end=9, state=State.CAUGHT_UP, observed=0)]
    shown = RateMeter().snapshot("A->B", seen, now_ms=1)
    assert (shown.lag_records, dict(shown.states)) == (None, {"running": 1, "starting": 1, "halted": 0})


def test_pumps_that_fell_silent_are_said_to_be(clock):
    seen = [position(0, observed=1_000), position(1, observed=5_000)]
    assert RateMeter().snapshot("A->B", seen, now_ms=20_000).silent_seconds is None
    late = RateMeter().snapshot("A->B", seen, now_ms=35_000)
    assert (late.silent_seconds, set(late.states)) == (30.0, {State.WAITING, State.HALTED})


def test_a_successor_that_counts_anew_gives_no_negative_rate(clock):
    meter = RateMeter()
    for second, records in [(0, 1000), (2, 0)]:
        clock[0] = 100.0 + second
        shown = meter.snapshot("A->B", [position(records=records)], now_ms=1)
    assert (shown.records_per_second, shown.bytes_per_second) == (0.0, 0.0)


def test_what_is_left_out_from_now_on_has_been_mirrored_all_the_same(clock):
    meter = RateMeter()
    meter.snapshot("A->B", [position(0, records=5), position(1, records=700)], now_ms=1)
    shown = meter.snapshot("A->B", [position(0, records=6)], now_ms=1)
    assert (shown.records, shown.partitions) == (706, 1)


def test_the_lag_in_seconds_is_that_of_the_worst_partition(clock):
    seen = [position(0, since=1000), position(1, since=3000)]
    assert RateMeter().snapshot("A->B", seen, now_ms=4000).lag_seconds == 3.0


def test_a_lag_of_an_unknown_time_is_not_shown_as_none(clock):
    seen = [position(0, since=1000), position(1, since=9000)]
    assert RateMeter().snapshot("A->B", seen, now_ms=4000).lag_seconds is None


def test_a_flow_without_partitions_has_no_lag_in_seconds(clock):
    assert RateMeter().snapshot("A->B", [], now_ms=1).lag_seconds is None


def test_shards_that_were_not_closed_are_in_doubt():
    view = ControlView()
    for shard, is_open in [(0, True), (1, False), (2, True)]:
        record = ShardRecord(shard, 17, 0, open=is_open, owner="me")
        view.apply(record.key, record.encode(), shard)
    assert doubtful(view) == {0, 2}


@pytest.mark.parametrize("late", [[], [0], [0, 1]])
def test_what_a_replaced_owner_closes_late_is_not_closed(late):
    """It was frozen, say, and told to stop when it woke up."""
    view = ControlView()
    said = [FlowRecord("east-id", "west-id", "east", "west", 2), OwnerRecord("first", "host", 1, 0)]
    said += [ShardRecord(shard, 17, 0, open=True, owner="first") for shard in range(2)]
    said += [OwnerRecord("second", "host", 2, 0)]
    said += [ShardRecord(shard, 17, 1, open=True, owner="second") for shard in range(2)]
    said += [ShardRecord(shard, 17, 0, open=False, owner="first") for shard in late]
    for offset, record in enumerate(said):
        view.apply(record.key, record.encode(), offset)
    assert doubtful(view) == {0, 1}


def test_what_the_last_owner_had_not_claimed_yet_is_in_doubt():
    view = ControlView()
    said = [FlowRecord("east-id", "west-id", "east", "west", 1), OwnerRecord("first", "host", 1, 0)]
    said += [ShardRecord(0, 17, 0, open=False, owner="first"), OwnerRecord("second", "host", 2, 0)]
    for offset, record in enumerate(said):
        view.apply(record.key, record.encode(), offset)
    assert doubtful(view) == {0}


def test_a_flow_that_never_ran_has_nothing_in_doubt():
    assert doubtful(ControlView()) == set()


def test_what_is_paused_is_neither_waited_for_nor_taken_for_silent(clock):
    held = position(partition=1, at=0, end=500, state=State.PAUSED, observed=0)
    meter = RateMeter()
    meter.snapshot("A->B", [position(at=5), held], now_ms=60_000)
    clock[0] += 1.0
    shown = meter.snapshot("A->B", [position(at=9, observed=60_000), held], now_ms=60_000)
    assert (shown.states[State.PAUSED], shown.eta_seconds, shown.silent_seconds) == (1, None, None)
    row = PartitionRow.of("A", "B", held, now_ms=60_000)
    assert (shown.lag_records, row.lag_records, row.lag_seconds) == (0, None, None)
