"""Halted partitions are tried again: soon where a right is missing, ever less often where something else is."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mmtool.replication.driver.halt_retry import FIRST_SECONDS, GRANT_IT, HaltRetry

DENIED, REFUSED = f"WRITE on target topic a {GRANT_IT}", "the target refuses the batch at source offset 7"


def tries(reasons, seconds):
    """When it was tried in that time, by a clock that ticks each second."""
    again = HaltRetry()
    return [now for now in range(seconds) if again.due(frozenset(reasons), float(now))]


def test_a_missing_right_is_tried_every_fifteen_seconds_for_as_long_as_it_takes():
    assert tries([DENIED], 100) == [15, 30, 45, 60, 75, 90]


def test_anything_else_is_tried_less_and_less_often():
    assert tries([REFUSED], 300) == [15, 45, 105, 225]


def test_a_missing_right_is_not_kept_waiting_by_anything_else():
    assert tries([DENIED, REFUSED], 70) == [15, 30, 45, 60]


def test_nothing_is_tried_where_nothing_is_halted():
    assert tries([], 1000) == []


def test_what_is_new_is_tried_soon_and_what_is_halted_again_is_not_new():
    again = HaltRetry()
    assert not again.due({REFUSED}, 0)
    assert again.due({REFUSED}, 15)
    assert not again.due(set(), 16)
    assert not again.due({REFUSED}, 20)
    assert not again.due({REFUSED, DENIED}, 21)
    assert again.due({REFUSED, DENIED}, 36)


def test_a_right_that_is_missing_again_is_tried_as_soon_as_the_first_time():
    again = HaltRetry()
    for now in range(700):
        again.due({REFUSED, DENIED} if now < 30 else {REFUSED}, now)
    due = [now for now in range(700, 800) if again.due({REFUSED, DENIED}, now)]
    assert due[0] - 700 <= FIRST_SECONDS
    assert [later - earlier for earlier, later in pairwise(due)] == [15] * (len(due) - 1)


@given(st.lists(st.sets(st.sampled_from([DENIED, REFUSED, "gone"])), max_size=200))
def test_tries_are_never_closer_than_fifteen_seconds(halted):
    again = HaltRetry()
    due = [now for now, reasons in enumerate(halted) if again.due(frozenset(reasons), float(now))]
    assert all(later - earlier >= FIRST_SECONDS for earlier, later in pairwise(due))
