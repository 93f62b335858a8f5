"""Numbers that an operator decides on: lag in records and seconds, rates, time to go."""

from dataclasses import replace

import pytest

from kit.maps import position_of
from mmtool.kafka.state.control_view import ControlView
from mmtool.plan.flow.positions import PartitionRow
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


def shown(clock, *samples):
    """The progress of one partition after each sample: its second, records, frontier and end."""
    meter = RateMeter()
    for second, records, at, end in samples:
        clock[0] = 100.0 + second
        found = meter.snapshot("A->B", [position(records=records, at=at, end=end)], now_ms=1)
    return found


@pytest.mark.parametrize(
    ("records", "rate"),
    [({0: 50}, 0.0), ({0: 0, 5: 1000, 12: 2400}, 200.0), ({0: 1000, 2: 0}, 0.0)],
    ids=["a first sample", "over the last ten seconds", "a successor that counts anew"],
)
def test_rates_are_over_the_last_ten_seconds_and_never_negative(clock, records, rate):
    found = shown(clock, *((second, count, 5, 9) for second, count in records.items()))
    assert (found.records_per_second, found.bytes_per_second) == (rate, rate * 100)
    assert (found.records, found.eta_seconds) == (list(records.values())[-1], None)


@pytest.mark.parametrize(("at", "end", "lag", "eta"), [(500, 1000, 500, 2.0), (0, 2000, 2000, None)])
def test_the_time_to_go_is_what_the_shrinking_lag_promises(clock, at, end, lag, eta):
    found = shown(clock, (0, 0, 0, 1000), (2, 0, at, end))
    assert (found.lag_records, found.eta_seconds) == (lag, eta)


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


def test_what_is_left_out_from_now_on_has_been_mirrored_all_the_same(clock):
    meter = RateMeter()
    meter.snapshot("A->B", [position(0, records=5), position(1, records=700)], now_ms=1)
    shown = meter.snapshot("A->B", [position(0, records=6)], now_ms=1)
    assert (shown.records, shown.partitions) == (706, 1)


@pytest.mark.parametrize(("since", "lag"), [([1000, 3000], 3.0), ([1000, 9000], None), ([], None)])
def test_the_lag_in_seconds_is_that_of_the_worst_partition_where_each_is_known(clock, since, lag):
    seen = [position(number, since=ms) for number, ms in enumerate(since)]
    assert RateMeter().snapshot("A->B", seen, now_ms=4000).lag_seconds == lag


FLOW = FlowRecord("east-id", "west-id", "east", "west", 2)
FIRST, SECOND = OwnerRecord("first", "host", 1, 0), OwnerRecord("second", "host", 2, 0)


def shards(owner, epoch=0, *, is_open, numbers=(0, 1)):
    return [ShardRecord(number, 17, epoch, open=is_open, owner=owner) for number in numbers]


SECOND_HAS_IT = [FLOW, FIRST, *shards("first", is_open=True), SECOND, *shards("second", 1, is_open=True)]


@pytest.mark.parametrize(
    ("records", "doubt"),
    [
        ([], set()),
        ([*shards("me", is_open=True, numbers=(0, 2)), *shards("me", is_open=False, numbers=(1,))], {0, 2}),
        ([FLOW, FIRST, *shards("first", is_open=False), SECOND], {0, 1}),
        (SECOND_HAS_IT, {0, 1}),
        ([*SECOND_HAS_IT, *shards("first", is_open=False, numbers=(0,))], {0, 1}),
        ([*SECOND_HAS_IT, *shards("first", is_open=False)], {0, 1}),
    ],
    ids=["never ran", "not closed", "not claimed yet", "open", "closed late in part", "closed late"],
)
def test_shards_that_their_last_owner_has_not_closed_are_in_doubt(records, doubt):
    """A replaced owner may close some late: it was frozen, say, and told to stop when it woke up."""
    view = ControlView()
    for offset, record in enumerate(records):
        view.apply(record.key, record.encode(), offset)
    assert doubtful(view) == doubt


def test_what_is_paused_is_neither_waited_for_nor_taken_for_silent(clock):
    held = position(partition=1, at=0, end=500, state=State.PAUSED, observed=0)
    meter = RateMeter()
    meter.snapshot("A->B", [position(at=5), held], now_ms=60_000)
    clock[0] += 1.0
    shown = meter.snapshot("A->B", [position(at=9, observed=60_000), held], now_ms=60_000)
    assert (shown.states[State.PAUSED], shown.eta_seconds, shown.silent_seconds) == (1, None, None)
    row = PartitionRow.of("A", "B", held, now_ms=60_000)
    assert (shown.lag_records, row.lag_records, row.lag_seconds) == (0, None, None)
