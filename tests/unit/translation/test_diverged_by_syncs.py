"""The way home of a flow that MirrorMaker 2 ran, against a model of how MM2 copies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.mm2_model import MARKER, Copying, copyings
from mmtool.translation.answers import Bounded, Exact, Reason, Refused, SourceLog, TargetLog
from mmtool.translation.divergence import DivergedTail, Homeward, TailPart, go_home_by_syncs
from mmtool.translation.sync_map import OffsetPair, SyncMap

pytestmark = pytest.mark.long

MORE = st.integers(0, 5)


def tail_of(history: Copying, known: SyncMap | None, more: int) -> tuple[DivergedTail, list[int]]:
    """What home holds behind the last record that MM2 told of, some of which came after MM2 had stopped."""
    end = history.source[-1] + 1
    source = [*history.source, *range(end, end + more)]
    start = known.told[-1] + 1 if known and known.told else 0
    records = [record for record in source if record >= start]
    parts = (TailPart(start, end + more, len(records)),) if records else ()
    return DivergedTail(start, end + more, parts, is_final=False, brought_to=end + more), source


def homeward(history: Copying, more: int):
    """Every answer, with what the group has read away by then."""
    known = SyncMap.of(history.syncs, exactly_once=history.exactly_once)
    tail, source = tail_of(history, known, more)
    away, home = TargetLog(0, len(history.target)), SourceLog(0, tail.end)
    for commit in range(len(history.target) + 1):
        found = go_home_by_syncs(known, tail, commit, away=away, home=home)
        if isinstance(found, Homeward):
            yield commit, found, set(history.target[:commit]) - {MARKER}, tail, source


@given(copyings(tells_of_restarts=False), MORE)
def test_n_whatever_is_below_the_answer_was_read_away_or_is_in_the_tail(history, more):
    for _, found, read, tail, source in homeward(history, more):
        below = {record for record in source if record < found.answer.offset}
        copied = set(history.target)
        assert {record for record in below - read if record in copied} == set()
        assert all(record >= tail.start for record in below - read)


@given(copyings(tells_of_restarts=False), MORE)
def test_r_no_more_is_read_again_than_is_said(history, more):
    for _, found, read, _, _ in homeward(history, more):
        again = sum(record >= found.answer.offset for record in read)
        assert again <= (found.answer.reread_max if isinstance(found.answer, Bounded) else 0)


@given(copyings(tells_of_restarts=False), MORE)
def test_t_each_record_of_the_tail_is_passed_over_or_ahead(history, more):
    for _, found, _, tail, _ in homeward(history, more):
        assert found.diverged_records + found.diverged_ahead == tail.records


@given(copyings(tells_of_restarts=False), MORE)
def test_p_the_tail_is_passed_by_whoever_has_read_all_and_by_nobody_else(history, more):
    for commit, found, _, tail, _ in homeward(history, more):
        has_read_all = commit == len(history.target)
        assert found.diverged_records == (tail.records if has_read_all else 0)
        assert not has_read_all or found.answer == Exact(tail.end)


TAIL = DivergedTail(1, 9, (), is_final=False, brought_to=9)


def test_where_home_ends_before_the_tail_did_it_is_refused():
    known = SyncMap.of([OffsetPair(0, 0, 0)])
    away = TargetLog(0, 5)
    assert go_home_by_syncs(known, TAIL, 5, away=away, home=SourceLog(0, 7)) == Refused(
        Reason.BEYOND_SOURCE_END
    )


def test_of_a_partition_that_nobody_told_of_nothing_is_said():
    found = go_home_by_syncs(None, TAIL, 0, away=TargetLog(0, 5), home=SourceLog(0, 9))
    assert found == Refused(Reason.NEVER_RAN)
