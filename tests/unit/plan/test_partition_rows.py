"""The row that ``replicate`` and ``status`` share."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.maps import position_of
from mmtool.plan.flow.positions import PartitionRow, lag_seconds, waiting_since
from mmtool.plan.records.documents import State
from mmtool.translation.types import TopicPartition


def position(*, at=5, end=9, since=0):
    found = position_of(TopicPartition("orders", 0), "id", at, end, State.RUNNING)
    return replace(found, behind_since_ms=since)


@pytest.mark.parametrize(
    ("at", "since", "seconds"),
    [(9, 0, 0.0), (9, 1000, 0.0), (5, 1000, 2.5), (5, 9000, None), (5, 0, None)],
    ids=["caught up", "just caught up", "behind", "a clock ahead of ours", "behind, nobody knows since when"],
)
def test_lag_in_seconds_is_since_when_the_frontier_is_behind(at, since, seconds):
    assert lag_seconds(position(at=at, since=since), now_ms=3500) == seconds


def test_a_gap_that_was_accepted_is_told_as_long_as_the_flow_lives():
    row = PartitionRow.of("A", "B", replace(position(), reason="", gaps=1_005, gaps_end=1_515), now_ms=1)
    assert row.reason.startswith(
        "the source deleted 1,005 unmirrored offsets up to 1514; mirroring continues"
    )


TIMES = st.none() | st.integers(0, 2_000)


@given(TIMES, TIMES, TIMES)
def test_a_record_has_not_waited_since_a_time_ahead_of_the_clock_or_before_the_mirror_was_at_the_end(
    written, at_end, behind
):
    since = waiting_since(1_000, written, at_end, behind)
    past = {ms for ms in (written, at_end, behind) if ms and ms <= 1_000}
    assert since in past or (since, past) == (None, set())
    if at_end in past:
        assert since >= at_end
        assert written in past or since == at_end
