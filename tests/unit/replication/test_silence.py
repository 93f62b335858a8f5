"""Who owes an answer, and for how long; and the longer the way to a broker, the larger the batches."""

from hypothesis import given
from hypothesis import strategies as st

from mmtool.replication.pump.budget import PendingReplies, RoundTrips


def test_who_is_asked_owes_an_answer_since_the_first_question_that_is_under_way_and_the_longest_silence_counts():
    unanswered = PendingReplies()
    for now in (10.0, 20.0):
        unanswered.asked(2, now)
    unanswered.asked(1, 12.0)
    assert [unanswered.seconds(whom, 20.0) for whom in ([1], [2], [1, 2], [3])] == [8.0, 10.0, 10.0, 0.0]
    unanswered.answered(2, 20.0, owes_more=True)
    assert unanswered.seconds([2], 25.0) == 5.0
    unanswered.answered(2, 26.0)
    unanswered.let_go(1)
    assert (unanswered.seconds([1, 2], 30.0), list(unanswered.whom)) == (0.0, [])


def told(*answers, partitions=8):
    trips = RoundTrips()
    for now, seconds in answers:
        trips.note(seconds, set(range(partitions)), now)
    return trips


def test_a_long_link_is_filled_by_five_batches_of_each_partition():
    trips = told((0, 0.160))
    assert trips.goal_bytes * 5 * 8 / 0.160 >= 100e6


def test_near_by_batches_are_left_as_they_are():
    assert told((0, 0.009)).goal_bytes == 0


def test_an_answer_that_waited_does_not_make_the_way_longer():
    assert told((0, 0.002), (1, 0.5), (2, 0.9)).goal_bytes == told((0, 0.002)).goal_bytes


def test_a_way_that_has_become_longer_is_noticed_within_a_minute():
    later = [(31.0 * n, 0.160) for n in range(1, 4)]
    assert told((0, 0.002), *later).goal_bytes == told((0, 0.160)).goal_bytes


def test_fewer_partitions_need_larger_batches():
    assert told((0, 0.040), partitions=1).goal_bytes > told((0, 0.040), partitions=8).goal_bytes


@given(st.lists(st.tuples(st.floats(0, 60), st.floats(0, 10)), min_size=1))
def test_a_batch_is_never_larger_than_a_broker_takes_by_default(answers):
    assert told(*sorted(answers)).goal_bytes <= 1 << 20
