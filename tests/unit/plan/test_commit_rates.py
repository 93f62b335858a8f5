"""How fast groups commit, and what they are expected to read again: laws and examples."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.groups.commit_rates import (
    SHORTEST_MS,
    WINDOW_MS,
    CommitPace,
    CommitSample,
    expected_reread,
    is_changed,
    observe,
)
from mmtool.translation.types import UNKNOWN

RATES = st.one_of(st.just(0.0), st.floats(0.001, 1e6))
AGES = st.floats(0, 1e6)
MOST = st.integers(0, 10**9)


@st.composite
def looks(draw: st.DrawFn) -> list[CommitSample]:
    """Commits of one partition as they are seen, some seconds apart."""
    at_ms, offset, found = 0, 0, []
    for _ in range(draw(st.integers(1, 80))):
        at_ms += draw(st.integers(500, 20_000))
        offset = max(0, offset + draw(st.integers(-3, 500)))
        found.append(CommitSample(at_ms, offset))
    return found


def seen(samples: list[CommitSample]) -> CommitPace:
    pace = observe(None, samples[0])
    for sample in samples[1:]:
        pace = observe(pace, sample)
    return pace


BEGINNING = CommitSample(0, 0)


def steady(
    per_second: float, seconds: int, *, every: int = 5, since: CommitSample = BEGINNING
) -> list[CommitSample]:
    return [
        CommitSample(since.at_ms + at * 1000, since.offset + round(at * per_second))
        for at in range(0, seconds + 1, every)
    ]


@given(RATES | st.just(UNKNOWN), AGES | st.just(UNKNOWN), MOST | st.just(UNKNOWN))
def test_what_is_expected_is_never_more_than_what_is_possible_and_never_less_than_nothing(rate, age, most):
    expected = expected_reread(rate, age, most)
    assert expected is UNKNOWN or 0 <= expected <= most


@given(RATES, AGES, AGES, MOST)
def test_older_knowledge_never_expects_less(rate, age, more, most):
    assert expected_reread(rate, age, most) <= expected_reread(rate, age + more, most)


@given(AGES, MOST)
def test_a_group_that_was_not_committing_is_expected_to_read_nothing_again(age, most):
    assert expected_reread(0.0, age, most) == 0


@given(AGES, st.integers(1, 10**9))
def test_where_no_rate_is_known_nothing_is_expected_unless_nothing_is_possible(age, most):
    assert expected_reread(UNKNOWN, age, most) is UNKNOWN
    assert expected_reread(UNKNOWN, age, 0) == 0


@given(looks())
def test_a_rate_is_of_at_most_two_windows_and_within_what_was_seen(samples):
    pace = seen(samples)
    steps = [(b.offset - a.offset) / (b.at_ms - a.at_ms) * 1000 for a, b in pairwise(samples)]
    assert pace.last == samples[-1]
    assert pace.last.at_ms - pace.since.at_ms <= 2 * WINDOW_MS + 20_000
    if pace.rate is not UNKNOWN:
        assert 0 <= pace.rate <= max(steps) + 1e-6


@given(st.floats(0, 1e5), st.integers(10, 1000))
def test_a_steady_group_s_rate_is_its_rate(per_second, seconds):
    rate = seen(steady(per_second, seconds)).rate
    assert rate is not UNKNOWN
    assert abs(rate - per_second) <= 0.3


def test_a_group_that_stops_has_no_rate_once_two_windows_are_over():
    worked = steady(100, 300)
    rested = CommitSample(worked[-1].at_ms + 5000, worked[-1].offset)
    idle = steady(0, 2 * WINDOW_MS // 1000 + 10, since=rested)
    assert seen(worked).rate == 100
    assert seen([*worked, *idle]).rate == 0


def test_a_group_that_was_set_back_is_measured_anew():
    pace = seen([*steady(100, 60), CommitSample(61_000, 50)])
    assert pace.rate is UNKNOWN
    assert observe(pace, CommitSample(61_000 + SHORTEST_MS, 80)).rate == 30 / SHORTEST_MS * 1000


def test_one_look_tells_no_rate():
    assert observe(None, CommitSample(0, 7)).rate is UNKNOWN


def test_only_a_rate_that_differs_clearly_is_written_again():
    """A thousand groups of twenty partitions are looked at every five seconds."""
    assert is_changed(None, 0.0)
    assert is_changed(0.0, 0.1)
    assert is_changed(0.1, 0.0)
    assert is_changed(100.0, 140.0)
    assert is_changed(100.0, 70.0)
    assert not is_changed(100.0, 110.0)
    assert not is_changed(0.0, 0.0)
