"""The letters N, R, T and P of going home, against a model that knows each record on both sides."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.lost_home import AWAY, HOME, ModelHomecoming, homecomings, shipped
from kit.maps import map_of
from kit.pairs import ModelPair
from kit.runs import ORDERS
from mmtool.translation.answers import Bounded, Exact, Reason, Refused, SourceLog, TargetLog
from mmtool.translation.divergence import DivergedTail, Homeward, TailPart, go_home, go_home_in_pair
from mmtool.translation.errors import InvariantError
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

ANY = st.one_of(homecomings(shared=False), homecomings(shared=True))


def commits(back):
    return st.integers(0, len(back.pair.logs[AWAY]))


def answered(back, data):
    """A group's commit away, and its answer, where there is one."""
    commit = data.draw(commits(back))
    found = back.answer(commit)
    return commit, None if isinstance(found, Refused) else found


def read_again(back, commit, offset):
    return sum(back.at_home(record) >= offset for record in back.seen(0, commit))


@given(ANY, st.data())
def test_no_record_that_is_unread_away_is_skipped_at_home(back, data):
    commit, found = answered(back, data)
    if found is not None:
        unread = back.seen(commit, len(back.pair.logs[AWAY]))
        assert [r for r in unread if back.at_home(r) < found.answer.offset] == []


@given(ANY, st.data())
def test_what_is_read_again_at_home_is_never_more_than_was_said(back, data):
    commit, found = answered(back, data)
    if found is not None:
        said = found.answer.reread_max if isinstance(found.answer, Bounded) else 0
        assert read_again(back, commit, found.answer.offset) <= said


@given(ANY, st.data())
def test_each_record_that_diverged_is_either_passed_over_or_ahead(back, data):
    _, found = answered(back, data)
    if found is not None:
        own, offset = back.own_behind(), found.answer.offset
        assert found.diverged_records == sum(at < offset for at in own)
        assert found.diverged_ahead == sum(at >= offset for at in own)


@given(ANY, st.data())
def test_who_has_not_read_all_that_was_mirrored_passes_nothing_of_the_tail(back, data):
    commit, found = answered(back, data)
    behind = any(record[0] == HOME for record in back.seen(commit, len(back.pair.logs[AWAY])))
    if found is not None and behind:
        assert found.diverged_records == 0


@given(homecomings(shared=False, settled=True), st.data())
def test_with_a_name_of_its_own_away_every_position_is_exact(back, data):
    commit = data.draw(commits(back))
    found = back.answer(commit)
    unread = back.seen(commit, len(back.pair.logs[AWAY]))
    assert isinstance(found, Homeward)
    assert isinstance(found.answer, Exact)
    assert found.diverged_records == (0 if unread else back.tail.records)


@given(homecomings(shared=True, settled=True).map(shipped), st.data())
def test_with_one_name_exactly_as_much_is_read_again_as_was_said(back, data):
    commit = data.draw(commits(back))
    found = back.answer(commit)
    assert isinstance(found, Homeward)
    said = found.answer.reread_max if isinstance(found.answer, Bounded) else 0
    assert said == read_again(back, commit, found.answer.offset)


@given(homecomings(shared=True, settled=True).map(shipped), st.data())
def test_who_read_on_away_past_the_failover_reads_nothing_again_and_passes_the_whole_tail(back, data):
    commit = data.draw(st.integers(back.away_at_death, len(back.pair.logs[AWAY])))
    found = back.answer(commit)
    assert isinstance(found, Homeward)
    assert isinstance(found.answer, Exact)
    assert found.diverged_records >= back.died_with  # and what was written at home later, up to the answer


@given(homecomings(shared=True, settled=True).map(shipped))
def test_who_read_everything_that_is_away_has_nothing_of_the_tail_ahead(back):
    found = back.answer(len(back.pair.logs[AWAY]))
    assert (found.diverged_records, found.diverged_ahead) == (len(back.own_behind()), 0)


@given(homecomings(shared=True, settled=True).map(shipped), st.data())
def test_a_later_commit_never_gets_an_earlier_place_at_home(back, data):
    first, later = sorted(data.draw(st.tuples(commits(back), commits(back))))
    assert back.answer(first).answer.offset <= back.answer(later).answer.offset


def lived(*steps, shared):
    back = ModelHomecoming(shared)
    for step, side, count in steps:
        step(back.pair, side, count)
    back.find_tail()
    return back


DIED = (
    (ModelPair.born, HOME, 5),
    (ModelPair.mirror, HOME, 5),
    (ModelPair.store, HOME, 0),
    (ModelPair.born, HOME, 3),
)
"""Five records went away, and three diverged."""


def test_before_the_way_back_has_brought_what_was_read_there_is_no_answer():
    back = lived(*DIED, shared=True)
    back.pair.born(AWAY, 4)
    assert back.answer(7) == Refused(Reason.BEYOND_MIRROR)


def test_a_copy_among_the_tail_that_is_unread_away_keeps_the_rest_of_the_tail_ahead():
    back = lived(
        *DIED[:3], (ModelPair.born, HOME, 2), (ModelPair.born, AWAY, 1), (ModelPair.mirror, AWAY, 9),
        (ModelPair.born, HOME, 1), (ModelPair.store, AWAY, 0), shared=True,
    )  # fmt: skip
    assert back.tail.parts == (TailPart(5, 7, 2), TailPart(8, 9, 1))
    assert back.answer(5) == Homeward(Exact(7), 2, 1)
    assert back.answer(6) == Homeward(Exact(9), 3, 0)


def test_while_records_may_be_away_that_are_in_no_book_nobody_is_put_behind_the_tail():
    back = lived(*DIED, shared=False)
    back.pair.mirror(HOME, 2)
    back.find_tail()
    assert not back.tail.is_final
    assert back.answer(5) == Homeward(Exact(5), 0, 3)
    assert back.answer(7) == Homeward(Bounded(5, 2), 0, 3)


def test_with_one_name_records_that_came_away_and_are_in_no_book_are_counted_as_read_again():
    back = lived(*DIED[:2], shared=True)
    assert not back.tail.is_final
    assert shipped(back).answer(5) == Homeward(Bounded(0, 5), 0, 5)


def test_where_the_way_back_may_have_brought_more_than_is_booked_no_part_of_the_tail_is_passed_by_half():
    back = lived(*DIED, (ModelPair.look, AWAY, 0), (ModelPair.born, HOME, 2), shared=True)
    back.tail = replace(back.tail, brought_to=back.tail.end)
    assert shipped(back).answer(5) == Homeward(Exact(5), 0, 5)


def tail_of(start, end, *parts, brought_to=0):
    told = tuple(TailPart(UpstreamOffset(a), UpstreamOffset(b), n) for a, b, n in parts)
    return DivergedTail(
        UpstreamOffset(start), UpstreamOffset(end), told, is_final=True, brought_to=UpstreamOffset(brought_to)
    )


TAIL = tail_of(5, 8, (5, 8, 3))
FLOW = map_of(ORDERS, [(0, 0, 5)], 5)


def at_home(start, end):
    return SourceLog(UpstreamOffset(start), UpstreamOffset(end))


def go(flow, commit, home, tail=TAIL):
    away = TargetLog(DownstreamOffset(0), DownstreamOffset(5))
    return go_home(flow, tail, DownstreamOffset(commit), away=away, home=home)


@pytest.mark.parametrize(
    ("flow", "commit", "home", "answer"),
    [
        pytest.param(FLOW, 5, (0, 7), Refused(Reason.BEYOND_SOURCE_END), id="home has lost the tail"),
        pytest.param(FLOW, 5, (10, 12), Homeward(Exact(10), 3, 0), id="home has deleted the tail"),
        pytest.param(FLOW, 3, (4, 8), Refused(Reason.TARGET_LOG_START_PASSED), id="and unread records"),
        pytest.param(None, 0, (0, 8), Refused(Reason.NEVER_RAN), id="the flow never had it"),
    ],
)
def test_what_became_of_home_since_is_heeded(flow, commit, home, answer):
    assert go(flow, commit, at_home(*home)) == answer


def pair_without_flow(tail):
    back = map_of(ORDERS, [(0, 3, 2)], 2, start=(0, 3))
    away = TargetLog(DownstreamOffset(0), DownstreamOffset(2))
    return go_home_in_pair(None, back, tail, DownstreamOffset(1), away=away, home=at_home(0, 5))


def test_a_topic_that_was_made_away_comes_home_by_the_way_back_alone():
    assert pair_without_flow(tail_of(0, 0)) == Homeward(Exact(4), 0, 0)
    assert pair_without_flow(tail_of(0, 3, (0, 3, 3))) == Refused(Reason.NEVER_RAN)


@pytest.mark.parametrize(
    ("letter", "bounds", "parts", "brought_to"),
    [
        ("A", (3, 2), (), 0),
        ("B", (0, 9), ((2, 4, 0),), 0),
        ("B", (0, 9), ((2, 4, 1), (3, 5, 1)), 0),
        ("B", (3, 9), ((2, 4, 1),), 0),
        ("B", (0, 9), ((8, 10, 1),), 0),
        ("C", (0, 9), (), 10),
    ],
)
def test_a_tail_that_contradicts_itself_is_not_made(letter, bounds, parts, brought_to):
    with pytest.raises(InvariantError) as caught:
        tail_of(*bounds, *parts, brought_to=brought_to)
    assert caught.value.letter == letter
