"""The letters M, N, R, X, I and S of translate, against a model that knows each record."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.runs import ModelMirror, Slot, live, lives, mirrors
from mmtool.translation.answers import Bounded, Exact, Reason, Refused, SourceLog, TargetLog
from mmtool.translation.blocks import MirrorStart
from mmtool.translation.columns import Answers
from mmtool.translation.translate import translate, translate_back, translate_many
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

RECORDS = [Slot.RECORD] * 10


def mirrored(slots, *, upstream: int = 0, downstream: int = 0, ship: int = 100) -> ModelMirror:
    mirror = ModelMirror(list(slots), MirrorStart(UpstreamOffset(upstream), DownstreamOffset(downstream)))
    mirror.ship(ship)
    return mirror


def forward(mirror: ModelMirror, commit: int, **bounds):
    log = bounds.pop("target", mirror.target_log())
    return translate(mirror.partition_map(), UpstreamOffset(commit), target=log, **bounds)


def back(mirror: ModelMirror, commit: int, **bounds):
    log = bounds.pop("target", mirror.target_log())
    return translate_back(mirror.partition_map(), DownstreamOffset(commit), target=log, **bounds)


def commits(mirror: ModelMirror) -> range:
    """Each commit that the mirror has an answer for."""
    return range(mirror.start.upstream, mirror.frontier + 1)


WHOLE = mirrored(RECORDS)


@pytest.mark.parametrize(
    ("mirror", "commit", "bounds", "answer"),
    [
        pytest.param(mirrored([Slot.RECORD, Slot.COMPACTED, Slot.RECORD]), 1, {}, Exact(1), id="in a hole"),
        pytest.param(mirrored([Slot.RECORD, Slot.MARKER]), 2, {}, Exact(1), id="behind the last marker"),
        pytest.param(mirrored([], downstream=42), 0, {}, Exact(42), id="nothing was mirrored yet"),
        pytest.param(mirrored(RECORDS, upstream=5), 2, {}, Exact(0), id="began at the log start"),
        pytest.param(mirrored(RECORDS, ship=5), 6, {}, Reason.BEYOND_MIRROR, id="past the frontier"),
        pytest.param(WHOLE, 9, {"source": SourceLog(0, 8)}, Reason.BEYOND_SOURCE_END, id="past the source"),
        pytest.param(
            WHOLE, 4, {"target": WHOLE.target_log(5)}, Reason.TARGET_LOG_START_PASSED, id="deleted there"
        ),
        pytest.param(WHOLE, 7, {"target": TargetLog(0, 6)}, Reason.BEYOND_MIRROR, id="past the target's end"),
    ],
)
def test_a_commit_has_the_answer_of_its_next_record_or_a_reason(mirror, commit, bounds, answer):
    assert forward(mirror, commit, **bounds) == (Refused(answer) if isinstance(answer, Reason) else answer)


def test_a_partition_without_a_map_never_ran():
    log = TargetLog(DownstreamOffset(0), DownstreamOffset(9))
    assert translate(None, UpstreamOffset(0), target=log) == Refused(Reason.NEVER_RAN)
    assert translate_back(None, DownstreamOffset(0), target=log) == Refused(Reason.NEVER_RAN)
    assert list(Answers(translate_many(None, np.arange(2), target=log))) == [Refused(Reason.NEVER_RAN)] * 2


def test_a_caught_up_group_needs_nothing_of_what_the_target_deleted():
    mirror = mirrored(RECORDS)
    mirror.interrupt(3)
    assert forward(mirror, 10, target=mirror.target_log(12)) == Exact(12)


def test_records_before_a_late_start_were_never_mirrored_until_the_source_has_deleted_them():
    late = ModelMirror(RECORDS, MirrorStart(UpstreamOffset(5), DownstreamOffset(0)), unmirrored=5)
    assert [forward(late, commit) for commit in (4, 5)] == [Refused(Reason.NOT_MIRRORED), Exact(0)]

    source = SourceLog(UpstreamOffset(5), UpstreamOffset(10))
    assert forward(late, 4, source=source) == Exact(0)


LATER = 100
"""Where a cut lies on the target: what is below it was copied by somebody else."""


def behind_a_cut():
    return ModelMirror(RECORDS, MirrorStart(UpstreamOffset(5), DownstreamOffset(LATER)), unmirrored=5)


def test_nothing_below_a_cut_is_exact_and_everything_from_the_cut_on_is():
    """The target holds copies of those records that no run tells of, whatever the source still holds."""
    cut = behind_a_cut()
    cut.ship(5)
    source = SourceLog(UpstreamOffset(5), UpstreamOffset(10))
    log = cut.target_log(0)
    for bounds in ({}, {"source": source}):
        answers = [forward(cut, commit, target=log, **bounds) for commit in (0, 4, 5, 10)]
        assert answers == [Refused(Reason.NOT_MIRRORED)] * 2 + [Exact(LATER), Exact(LATER + 5)]
    assert forward(cut, 4, target=cut.target_log(LATER), source=source) == Exact(LATER)


def test_back_from_below_a_cut_is_refused_while_the_source_holds_what_was_copied_there():
    cut = behind_a_cut()
    cut.ship(5)
    deleted = SourceLog(UpstreamOffset(5), UpstreamOffset(10))
    log = cut.target_log(0)
    answers = [back(cut, commit, target=log) for commit in (0, LATER - 1, LATER, LATER + 5)]
    assert answers == [Refused(Reason.NOT_MIRRORED)] * 2 + [Exact(5), Exact(10)]
    assert back(cut, LATER - 1, target=log, source=deleted) == Exact(5)


def test_blocks_dropped_behind_the_targets_log_start_are_not_guessed():
    mirror = mirrored([Slot.RECORD, Slot.MARKER] * 9)
    mirror.flush()
    del mirror.stored[min(mirror.stored)]
    assert [forward(mirror, commit) for commit in (4, 5, 6)] == [
        Refused(Reason.TARGET_LOG_START_PASSED),
        Exact(3),
        Exact(3),
    ]
    assert [back(mirror, commit) for commit in (2, 3)] == [Refused(Reason.TARGET_LOG_START_PASSED), Exact(6)]


@given(mirrors())
def test_m_a_later_commit_never_gets_an_earlier_answer(mirror: ModelMirror):
    answers = [forward(mirror, commit).offset for commit in commits(mirror)]
    assert answers == sorted(answers)


@given(mirrors())
def test_n_every_surviving_record_at_or_after_the_commit_is_at_or_after_the_answer(mirror: ModelMirror):
    for commit in commits(mirror):
        answer = forward(mirror, commit).offset
        skipped = [up for up, down in mirror.went.items() if up >= commit and down < answer]
        assert skipped == []


@given(mirrors())
def test_r_no_record_below_the_commit_is_at_or_after_the_answer(mirror: ModelMirror):
    for commit in commits(mirror):
        answer = forward(mirror, commit).offset
        reread = [up for up, down in mirror.went.items() if up < commit and down >= answer]
        assert reread == []


@given(mirrors())
def test_x_a_commit_on_a_record_is_answered_with_that_record(mirror: ModelMirror):
    answers = {commit: forward(mirror, commit).offset for commit in mirror.went}
    assert answers == mirror.went


@given(mirrors())
def test_i_forward_then_back_is_where_one_came_from(mirror: ModelMirror):
    returned = [back(mirror, forward(mirror, commit).offset) for commit in mirror.went]
    assert returned == [Exact(commit) for commit in mirror.went]


@given(mirrors(), lives())
def test_s_what_is_mirrored_later_moves_an_answer_over_markers_only(mirror: ModelMirror, later):
    before = {commit: forward(mirror, commit).offset for commit in commits(mirror)}
    had = dict(mirror.went)
    live(mirror, later)
    for commit, answer in before.items():
        after = forward(mirror, commit).offset
        assert after >= answer
        assert after == answer or not any(up >= commit for up in had)
        assert not any(answer <= down < after for down in mirror.went.values())


@given(mirrors())
def test_answers_stay_within_the_targets_log(mirror: ModelMirror):
    for log_start in range(mirror.target_end + 1):
        log = mirror.target_log(log_start)
        for commit in commits(mirror):
            answer = forward(mirror, commit, target=log)
            if isinstance(answer, Exact):
                assert log_start <= answer.offset <= mirror.target_end
            else:
                assert any(up >= commit and down < log_start for up, down in mirror.went.items())


@given(
    mirrors(),
    st.integers(0, 60),
    st.integers(0, 100),
    st.integers(0, 100),
    st.booleans(),
)
def test_a_column_is_translated_as_its_elements_are(mirror, dropped, log_start, log_end, with_source):
    mirror.flush()
    for key in sorted(mirror.stored)[: min(dropped, len(mirror.stored) - 1)]:
        del mirror.stored[key]
    bounds = {"target": TargetLog(DownstreamOffset(log_start), DownstreamOffset(log_end))}
    if with_source:
        bounds["source"] = SourceLog(UpstreamOffset(0), UpstreamOffset(len(mirror.slots) // 2))
    partition, column = mirror.partition_map(), np.arange(80, dtype=np.int64)
    one_by_one = [translate(partition, UpstreamOffset(commit), **bounds) for commit in range(80)]
    assert list(Answers(translate_many(partition, column, **bounds))) == one_by_one


def test_back_past_the_mirrors_end_is_bounded_by_what_is_not_known():
    mirror = mirrored(RECORDS)
    mirror.interrupt(3)
    assert [back(mirror, commit) for commit in (10, 12)] == [Exact(10), Bounded(10, 2)]


def test_back_from_behind_a_fence_is_exact_and_bounded_only_past_it():
    mirror = mirrored(RECORDS)
    mirror.take_over(2)
    mirror.interrupt(1)
    assert [back(mirror, commit) for commit in (10, 11, 12, 13)] == [Exact(10)] * 3 + [Bounded(10, 1)]


def test_back_from_behind_a_fence_is_stable_when_more_is_mirrored():
    mirror = mirrored([*RECORDS, *RECORDS], ship=10)
    mirror.take_over(2)
    before = back(mirror, 12)
    mirror.ship(10)
    assert (before, back(mirror, 12)) == (Exact(10), Exact(10))


@pytest.mark.parametrize(
    ("log_start", "log_end", "commit", "expected"),
    [
        (6, 10, 5, Refused(Reason.TARGET_LOG_START_PASSED)),
        (0, 4, 5, Refused(Reason.BEYOND_SOURCE_END)),
        (0, 9, 10, Refused(Reason.BEYOND_SOURCE_END)),
        (0, 10, 11, Refused(Reason.BEYOND_SOURCE_END)),
        (11, 20, 10, Exact(11)),
    ],
)
def test_back_stays_within_the_sources_log(log_start, log_end, commit, expected):
    source = SourceLog(UpstreamOffset(log_start), UpstreamOffset(log_end))
    assert back(mirrored(RECORDS), commit, source=source) == expected


@given(mirrors())
def test_back_never_skips_a_mirrored_record(mirror: ModelMirror):
    for commit in range(mirror.start.downstream, mirror.target_end + 1):
        answer = back(mirror, commit)
        assert isinstance(answer, Exact | Bounded)
        assert all(up >= answer.offset for up, down in mirror.went.items() if down >= commit)
        assert all(up < answer.offset for up, down in mirror.went.items() if down < commit)
