"""A throttled flow moves at its rate, however its work is spread over the tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.flow.slots import Use, divide, first_shares, is_news

RATES = st.floats(1024, 1e10)
WORK = st.lists(st.floats(0, 1e10), min_size=1, max_size=40)
USES = st.none() | st.builds(Use, st.floats(0, 1e10), is_all=st.booleans())


@given(RATES, st.lists(USES, min_size=1, max_size=40))
def test_shares_add_up_to_the_rate_and_nobody_is_left_without(rate, uses):
    shares = divide(rate, dict(enumerate(uses)))
    assert sum(shares.values()) == pytest.approx(rate)
    assert min(shares.values()) > 0


@given(RATES, WORK)
def test_first_shares_follow_what_there_is_to_carry(rate, weights):
    shares = first_shares(rate, dict(enumerate(weights)))
    assert sum(shares.values()) == pytest.approx(rate)
    assert min(shares.values()) > 0
    assert [shares[n] for n in sorted(shares, key=lambda n: weights[n])] == sorted(shares.values())


@given(RATES, WORK)
def test_steady_work_soon_gets_nine_tenths_of_what_can_be_had(rate, work):
    """Each task uses what it has to carry, or its share if that is less, and says so."""
    shares = first_shares(rate, dict.fromkeys(range(len(work)), 1.0))
    for _ in range(8):
        used = {task: min(share, work[task]) for task, share in shares.items()}
        shares = divide(rate, {t: Use(use, is_all=use >= shares[t] * 0.95) for t, use in used.items()})
    moved = sum(min(share, work[task]) for task, share in shares.items())
    assert moved >= 0.9 * min(rate, sum(work))


def test_what_one_task_leaves_goes_to_those_that_want_more():
    shares = divide(100.0, {0: Use(5.0, is_all=False), 1: Use(33.0, is_all=True), 2: None})
    assert shares == {0: pytest.approx(6.35, abs=0.01), 1: pytest.approx(46.82, abs=0.01), 2: shares[1]}


def test_a_burst_of_a_quiet_task_does_not_halve_the_share_of_a_busy_one():
    shares = divide(100.0, {0: Use(2.0, is_all=True), 1: Use(97.0, is_all=True)})
    assert (shares[0], shares[1]) == (pytest.approx(10), pytest.approx(90))


@pytest.mark.parametrize(
    ("told", "shares", "news"),
    [
        ({0: None}, {0: None}, False),
        ({0: None}, {0: 5.0}, True),
        ({0: 5.0}, {0: None}, True),
        ({0: 100.0, 1: 100.0}, {0: 102.0, 1: 98.0}, False),
        ({0: 100.0, 1: 100.0}, {0: 110.0, 1: 90.0}, True),
        ({0: 100.0}, {0: 102.0}, True),
    ],
)
def test_another_rate_is_news_and_a_little_back_and_forth_is_not(told, shares, news):
    assert is_news(told, shares) is news
