"""Who lives keeps its lease, and whoever died is waited for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.kafka.groups.lease import NOBODY_WAITS_SECONDS, SESSION_SECONDS, LeaseWait, waits
from mmtool.plan.flow.status import FlowMember


def member(name):
    return FlowMember(name, "10.0.0.7", holds=True)


def over_at(holder_at, until=120):
    """The first second at which the wait is over."""
    waiting = LeaseWait(1000.0)
    return next(now for now in range(until) if waiting.ends(holder_at(now), 1000.0 + now))


@pytest.mark.parametrize("first_seen", [0, 3])
def test_a_live_holder_is_told_of_after_fifteen_seconds(first_seen):
    """Its own rejoining hides it for some seconds, whoever it is."""
    assert over_at(lambda now: member("a") if now >= first_seen and now % 5 else None) in {15, 16}


def test_one_that_died_right_before_is_waited_for_until_its_session_ends():
    with pytest.raises(StopIteration):
        over_at(lambda now: member("dead") if now < 10 else None, until=60)


def test_one_that_died_while_it_joined_and_is_given_the_lease_is_waited_for_as_well():
    def holder(now):
        return member("dead") if now < 10 else member("also dead") if 12 <= now < 22 else None

    assert over_at(holder) == NOBODY_WAITS_SECONDS


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(1, 10)), max_size=8))
def test_a_whoever_holds_it_no_longer_than_a_session_ends_no_wait(turns):
    """Two turns of one member would be one that lives."""
    waiting, now, had = LeaseWait(0.0), 0.0, set()
    for name, seconds in turns:
        if name in had or now + seconds > NOBODY_WAITS_SECONDS:
            break
        had |= {name} - {""}
        for _ in range(seconds):
            assert not waiting.ends(member(name) if name else None, now)
            now += 1.0
    assert SESSION_SECONDS == 10.0


def test_in_words_a_wait_for_nobody_says_for_whom():
    assert waits(member("a")) == "15 s at the most"
    assert waits(None) == "60 s at the most, until the sessions of processes that died have ended"
