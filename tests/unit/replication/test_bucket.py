"""The token bucket: never faster than the rate, never slower than it must be, and no batch too large for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.replication.pump.budget import BURST_SECONDS, STEP_SECONDS, TokenBucket

RATES = st.floats(1024, 1e9)
SIZES = st.lists(st.floats(0.001, 3.0), min_size=2, max_size=60)
PAUSES = st.lists(st.floats(0.0, 2.0), min_size=2, max_size=60)


def takings(rate, sizes, pauses):
    """Whoever takes only when nothing is to be waited for: (when, how much), sizes in seconds of the rate."""
    bucket, now = TokenBucket(rate, 0.0), 0.0
    found = []
    for size, pause in zip(sizes, pauses, strict=False):
        now += pause
        while (seconds := bucket.wait_seconds(now)) > 0:
            now += seconds + 1e-6
        bucket.take(size * rate, now)
        found.append((now, size * rate))
    return found


@given(RATES, SIZES, PAUSES)
def test_no_span_of_time_sees_more_than_the_rate_the_burst_and_one_batch(rate, sizes, pauses):
    found = takings(rate, sizes, pauses)
    for first in range(len(found)):
        for last in range(first, len(found)):
            seconds = found[last][0] - found[first][0]
            before = sum(size for _, size in found[first:last])  # the last one may be of any size
            assert before <= rate * (seconds + BURST_SECONDS) * (1 + 1e-6)


@given(RATES, SIZES)
def test_who_always_has_something_to_move_moves_at_the_rate(rate, sizes):
    """A batch of any size goes, and what it is worth is waited for afterwards and not longer."""
    found = takings(rate, sizes, [0.0] * len(sizes))
    moved = sum(size for _, size in found[:-1])
    assert found[-1][0] <= moved / rate + STEP_SECONDS + 1e-3


def test_what_runs_over_is_told_from_what_was_used():
    bucket = TokenBucket(100.0, 0.0)
    bucket.take(50, 1.0)
    assert bucket.use(1.0).bytes_per_second == pytest.approx(50)
    assert bucket.use(1.0).is_all  # nothing is known of no time at all
    bucket.take(1000, 1.0)
    use = bucket.use(3.0)
    assert (use.is_all, use.bytes_per_second) == (True, pytest.approx(100))
    assert not bucket.use(30.0).is_all


@given(RATES, RATES, st.floats(0, 10))
def test_another_rate_makes_nobody_wait_longer_than_for_what_was_taken(old, new, debt_seconds):
    bucket = TokenBucket(old, 0.0)
    bucket.take(old * debt_seconds, 0.0)
    before = bucket.wait_seconds(0.0)
    bucket.set_rate(new, 0.0)
    assert bucket.wait_seconds(0.0) <= before * (1 + 1e-6) + STEP_SECONDS
    assert bucket.balance(100.0) <= new * BURST_SECONDS * (1 + 1e-6)


def test_a_lower_rate_leaves_no_burst_of_the_higher_one():
    bucket = TokenBucket(1000.0, 0.0)
    bucket.balance(10.0)
    bucket.set_rate(10.0, 10.0)
    assert bucket.balance(10.0) == 10.0 * BURST_SECONDS
