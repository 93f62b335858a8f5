"""What is told from pumps' earlier words: rates, and since when a state holds."""

from dataclasses import replace

import pytest

from kit.maps import position_of
from mmtool.plan.flow.positions import PositionTrails, Rates
from mmtool.plan.records.documents import State
from mmtool.translation.types import TopicPartition

PLACE = TopicPartition("orders", 0)
FIRST = position_of(PLACE, "id-orders", 0, 0, State.RUNNING, reason='"state":"halted"')


def word(seconds, records=0, state=State.RUNNING, owner="me"):
    return replace(
        FIRST,
        observed_ms=seconds * 1000,
        records=records,
        mirrored_bytes=10 * records,
        state=state,
        owner=owner,
    )


def trails_of(*words):
    trails = PositionTrails()
    for one in words:
        trails.note(one.key, one.encode(), one.observed_ms)
    return trails


def since(trails, state):
    return trails.state_since_ms("id-orders", 0, state)


def test_a_rate_is_measured_over_the_last_ten_to_twenty_seconds():
    words = [word(n, records=100 * n if n < 50 else 5000 + 7 * (n - 50)) for n in range(100)]
    assert trails_of(*words).rates(words[-1]) == Rates(7.0, 70.0)


def test_one_word_alone_and_two_within_three_seconds_tell_no_rate():
    assert trails_of(word(1)).rates(word(1)) is None
    assert trails_of(word(1), word(3, 9)).rates(word(3, 9)) is None
    assert PositionTrails().rates(word(1)) is None


def test_what_another_owner_wrote_is_no_part_of_a_rate():
    words = [word(0, 5000, owner="old"), word(11, 0), word(16, 50)]
    assert trails_of(*words).rates(words[-1]) == Rates(10.0, 100.0)


def test_a_partition_at_rest_has_a_rate_of_zero():
    words = [word(10 * n, 500) for n in range(5)]
    assert trails_of(*words).rates(words[-1]) == Rates(0.0, 0.0)


def test_a_state_holds_since_the_first_word_of_it():
    trails = trails_of(word(1), word(5, state=State.HALTED), word(15, state=State.HALTED))
    assert since(trails, State.HALTED) == 5000
    assert since(trails, State.RUNNING) is None


def test_a_state_whose_beginning_is_not_stored_any_more_holds_since_its_first_word_that_is():
    assert since(trails_of(word(4), word(14), word(24)), State.RUNNING) == 4000


def test_a_state_begins_again_with_a_new_owner():
    words = [word(1, owner="old"), word(500), word(510)]
    assert since(trails_of(*words), State.RUNNING) == 500_000


def test_a_reason_that_looks_like_a_state_is_none():
    assert since(trails_of(word(1), replace(word(11), reason="fine")), State.RUNNING) == 1000


def test_a_tombstone_ends_the_trail_and_other_records_have_none():
    trails = trails_of(word(1), word(11, 50))
    trails.note(FIRST.key, None, 12_000)
    trails.note(b"owner", b"{}", 12_000)
    assert trails.rates(word(11, 50)) is None


@pytest.mark.parametrize("damaged", [b"", b"not json", b'{"state":"running"}'])
def test_an_earlier_word_that_cannot_be_read_says_nothing(damaged):
    trails = PositionTrails()
    trails.note(FIRST.key, damaged, 0)
    trails.note(FIRST.key, word(10).encode(), 10_000)
    assert trails.rates(word(10)) is None
