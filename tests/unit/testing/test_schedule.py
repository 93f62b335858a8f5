"""A seed stands for its faults: the same ones each time, and over when the window is."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.chaos.schedule import (
    OF_ANSWERS,
    OF_BROKERS,
    OF_COMMAND,
    OF_LINKS,
    WINDOW_SECONDS,
    Side,
    What,
    schedule_of,
)

SEEDS = st.integers(0, 1 << 32)


@given(SEEDS)
def test_faults_begin_in_order_and_end_in_the_window(seed):
    faults = schedule_of(seed).faults
    assert faults
    assert [f.at_seconds for f in faults] == sorted(f.at_seconds for f in faults)
    assert all(f.at_seconds >= 0 and f.ends_at_seconds <= WINDOW_SECONDS + 0.02 for f in faults)


@given(SEEDS)
def test_faults_of_one_side_follow_each_other(seed):
    for side in Side:
        mine = [fault for fault in schedule_of(seed).faults if fault.side is side]
        assert all(one.ends_at_seconds < other.at_seconds for one, other in pairwise(mine))


@given(SEEDS, st.integers(1, 3))
def test_what_happens_to_a_cluster_happens_to_brokers_that_it_has_and_only_links_fail_together(seed, brokers):
    for fault in schedule_of(seed, brokers).faults:
        assert set(fault.brokers) <= set(range(brokers))
        expected = {0} if fault.what in OF_COMMAND else {1, brokers} if fault.what in OF_LINKS else {1}
        assert len(fault.brokers) in expected


@given(SEEDS)
def test_at_once_the_same_faults_begin_with_the_first_one(seed):
    drawn, sooner = schedule_of(seed), schedule_of(seed).at_once()
    first = drawn.faults[0].at_seconds
    assert sooner.faults[0].at_seconds == 0
    assert [(f.what, f.side, f.seconds) for f in sooner.faults] == [
        (f.what, f.side, f.seconds) for f in drawn.faults
    ]
    assert [f.at_seconds + first for f in sooner.faults] == pytest.approx(
        [f.at_seconds for f in drawn.faults]
    )


def test_fifty_seeds_know_every_fault():
    drawn = {fault.what for seed in range(1, 51) for fault in schedule_of(seed).faults}
    assert drawn == {*OF_LINKS, *OF_BROKERS, *OF_COMMAND} == set(What) - {*OF_ANSWERS}
    assert {schedule_of(seed).from_the_start for seed in range(1, 51)} == {False, True}


def test_where_offsets_are_kept_thirty_seeds_know_lost_answers_as_well_and_of_the_target_alone():
    drawn = [fault for seed in range(1, 31) for fault in schedule_of(seed, 3, same=True).faults]
    assert {fault.what for fault in drawn} == set(What)
    assert {(f.side, f.brokers) for f in drawn if f.what in OF_ANSWERS} == {(Side.TARGET, (0, 1, 2))}
