"""The letters N and R of translate_in_pair, against a model that knows each record on both sides."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kit.maps import map_of
from kit.pairs import HERE, THERE, ModelPair, pairs
from kit.runs import ORDERS
from mmtool.translation.answers import Bounded, Exact, Reason, Refused, SourceLog, TargetLog
from mmtool.translation.columns import Answers
from mmtool.translation.translate import translate_in_pair, translate_in_pair_many
from mmtool.translation.types import DownstreamOffset, UpstreamOffset


def answer_of(pair, commit, target=None):
    return translate_in_pair(
        pair.map(HERE),
        pair.map(THERE),
        UpstreamOffset(commit),
        target=target or pair.target_log(),
        source=pair.source_log(),
    )


def lived(*steps):
    pair = ModelPair()
    for step, side, count in steps:
        step(pair, side, count)
    return pair


@given(pairs(), st.data())
def test_nothing_that_the_group_has_not_read_is_skipped(pair, data):
    commit = data.draw(st.integers(0, len(pair.logs[HERE])))
    answer = answer_of(pair, commit)
    if isinstance(answer, Refused):
        return
    everything = pair.at_or_after(0)
    assert everything - pair.read(commit) <= pair.at_or_after(answer.offset)


@given(pairs(), st.data())
def test_what_is_read_again_is_never_more_than_was_said(pair, data):
    commit = data.draw(st.integers(0, len(pair.logs[HERE])))
    answer = answer_of(pair, commit)
    if isinstance(answer, Refused):
        return
    again = pair.read(commit) & pair.at_or_after(answer.offset)
    assert len(again) <= (answer.reread_max if isinstance(answer, Bounded) else 0)


@st.composite
def maps(draw):
    """The map of any mirror, whatever its logs hold."""
    start = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    (upstream, downstream), runs = start, []
    for before, there, count in draw(
        st.lists(st.tuples(*[st.integers(0, 3)] * 2, st.integers(1, 4)), max_size=6)
    ):
        runs.append((upstream + before, downstream + there, count))
        upstream, downstream = upstream + before + count, downstream + there + count
    return map_of(ORDERS, runs, upstream + draw(st.integers(0, 3)), start=start)


@given(maps(), maps(), st.integers(0, 30), st.integers(0, 60), st.integers(0, 60))
def test_by_any_two_maps_a_column_is_translated_as_its_elements_are(there, back, start, end, source_end):
    bounds = {
        "target": TargetLog(DownstreamOffset(start), DownstreamOffset(end)),
        "source": SourceLog(UpstreamOffset(0), UpstreamOffset(source_end)),
    }
    many = Answers(translate_in_pair_many(there, back, np.arange(60), **bounds))
    assert list(many) == [translate_in_pair(there, back, UpstreamOffset(at), **bounds) for at in range(60)]


@given(pairs())
def test_a_commit_that_the_mirror_has_passed_always_has_an_answer(pair):
    commit = pair.map(HERE).upstream_frontier
    assert not isinstance(answer_of(pair, commit), Refused)


def test_a_group_that_has_read_everything_re_reads_nothing_once_both_sides_stand_still():
    pair = lived(
        (ModelPair.born, HERE, 4),
        (ModelPair.mirror, HERE, 4),
        (ModelPair.born, THERE, 3),
        (ModelPair.mirror, THERE, 7),
        (ModelPair.mirror, HERE, 7),
        (ModelPair.look, HERE, 1),
        (ModelPair.look, THERE, 1),
    )
    assert answer_of(pair, 7) == Exact(7)


def test_a_record_of_the_other_side_that_has_not_come_yet_is_not_skipped():
    pair = lived(
        (ModelPair.born, THERE, 2),
        (ModelPair.born, HERE, 3),
        (ModelPair.mirror, HERE, 3),
        (ModelPair.store, HERE, 1),
    )
    assert answer_of(pair, 3) == Bounded(0, 3)


def test_a_record_that_has_come_there_and_is_in_no_book_is_not_skipped():
    """Right behind what is booked, with the way back past it: it passes over what came from here."""
    pair = lived(
        (ModelPair.born, HERE, 2),
        (ModelPair.mirror, HERE, 2),
        (ModelPair.store, HERE, 1),
        (ModelPair.born, HERE, 1),
        (ModelPair.mirror, HERE, 1),
        (ModelPair.mirror, THERE, 3),
        (ModelPair.look, THERE, 1),
    )
    assert answer_of(pair, 2) == Exact(2)


def test_an_unread_record_of_the_other_side_that_is_deleted_there_is_refused():
    pair = lived(
        (ModelPair.born, THERE, 2),
        (ModelPair.mirror, THERE, 2),
        (ModelPair.store, THERE, 1),
        (ModelPair.mirror, HERE, 2),
        (ModelPair.store, HERE, 1),
    )
    cut = TargetLog(DownstreamOffset(1), DownstreamOffset(2))
    assert answer_of(pair, 0, cut) == Refused(Reason.TARGET_LOG_START_PASSED)


# --- where a flow began anew ------------------------------------------------------------------------------


def began_anew(commit, *, target_start=0, start=1):
    """There are b0, b1 and h; here b0, b1, b1 once more, as an operator sought back to it, and h."""
    here = map_of(ORDERS, [(3, 2, 1)], 4)
    there = map_of(ORDERS, [(1, 2, 1)], 3, start=(start, 2))
    log = TargetLog(DownstreamOffset(target_start), DownstreamOffset(3))
    source = SourceLog(UpstreamOffset(0), UpstreamOffset(4))
    return translate_in_pair(here, there, UpstreamOffset(commit), target=log, source=source)


def test_where_the_other_flow_began_anew_nothing_is_skipped_of_what_it_brought_before():
    refused = Refused(Reason.NOT_MIRRORED)
    assert [began_anew(commit) for commit in range(4)] == [refused, refused, Exact(1), Exact(2)]


def test_where_there_was_nothing_before_the_other_flow_s_beginning_that_is_no_matter():
    assert began_anew(0, target_start=1) == Exact(1)


def test_where_all_before_its_beginning_came_from_here_that_is_no_matter():
    here, there = map_of(ORDERS, [(0, 0, 4)], 4), map_of(ORDERS, [], 4, start=(4, 4))
    log = TargetLog(DownstreamOffset(0), DownstreamOffset(4))
    source = SourceLog(UpstreamOffset(0), UpstreamOffset(4))
    answers = [translate_in_pair(here, there, UpstreamOffset(at), target=log, source=source) for at in (1, 4)]
    assert answers == [Exact(1), Exact(4)]
