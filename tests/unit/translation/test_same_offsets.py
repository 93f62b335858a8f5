"""Mirrors with the source's own offsets are translated by the identity, whatever their offset runs still hold."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kit.maps import map_of
from kit.runs import ORDERS
from mmtool.translation.answers import Bounded, Exact, Reason, Refused, SourceLog, TargetLog
from mmtool.translation.block_codec import decode_block, encode_block
from mmtool.translation.blocks import Gap
from mmtool.translation.columns import Answers
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.runs import RunMap
from mmtool.translation.translate import (
    translate,
    translate_back,
    translate_in_pair,
    translate_in_pair_many,
    translate_many,
)
from mmtool.translation.types import UNKNOWN, DownstreamOffset, UpstreamOffset


@st.composite
def same_maps(draw):
    """The map of a mirror that kept offsets; some have lost their oldest blocks."""
    start = at = draw(st.integers(0, 9))
    runs = []
    for before, count in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=6)):
        runs.append((at + before, at + before, count))
        at += before + count
    frontier = at + draw(st.integers(0, 3))
    found = map_of(ORDERS, runs, frontier, start=(start, draw(st.sampled_from([0, start]))))
    tail = replace(found.tail, same_offsets=True, checked_to=DownstreamOffset(frontier))
    lost = draw(st.integers(0, max(0, len(found.runs) - 1)))
    if lost:
        kept = RunMap.from_runs(list(found.runs)[lost:])
        return replace(found, tail=tail, runs=kept, known_from=found.runs[lost - 1].upstream_end)
    return replace(found, tail=tail)


@given(same_maps(), st.integers(0, 60), st.integers(0, 60))
def test_every_commit_that_the_mirror_has_reached_and_the_target_still_holds_is_itself(
    known, log_start, commit
):
    log_start = min(log_start, known.upstream_frontier)
    target = TargetLog(DownstreamOffset(log_start), DownstreamOffset(known.upstream_frontier))
    answer = translate(known, UpstreamOffset(commit), target=target)
    if commit > known.upstream_frontier:
        assert answer == Refused(Reason.BEYOND_MIRROR)
    elif commit >= max(log_start, known.mirror_start.upstream):
        assert answer == Exact(commit)
    assert not isinstance(answer, Bounded)


@given(same_maps(), st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_and_so_it_is_on_the_way_back(known, log_start, log_end, commit):
    """Behind the mirror are records that were born on the target."""
    end = max(known.upstream_frontier, log_end)
    target = TargetLog(DownstreamOffset(0), DownstreamOffset(end))
    source = SourceLog(UpstreamOffset(log_start), UpstreamOffset(max(known.upstream_frontier, log_start)))
    answer = translate_back(known, DownstreamOffset(commit), target=target, source=source)
    if commit > end:
        assert answer == Refused(Reason.BEYOND_SOURCE_END)
    elif known.mirror_start.upstream <= commit <= known.upstream_frontier:
        assert answer == (Exact(commit) if commit >= log_start else Refused(Reason.TARGET_LOG_START_PASSED))
    elif commit > known.upstream_frontier:
        assert answer == Bounded(max(known.upstream_frontier, log_start), commit - known.upstream_frontier)


@given(same_maps(), st.integers(0, 60), st.integers(0, 60), st.one_of(st.just(UNKNOWN), st.integers(0, 60)))
def test_a_column_is_translated_as_its_elements_are(known, start, end, source_end):
    bounds = {
        "target": TargetLog(DownstreamOffset(start), DownstreamOffset(end)),
        "source": UNKNOWN
        if source_end is UNKNOWN
        else SourceLog(UpstreamOffset(0), UpstreamOffset(source_end)),
    }
    commits = np.arange(60)
    many = Answers(translate_many(known, commits, **bounds))
    assert list(many) == [translate(known, UpstreamOffset(c), **bounds) for c in commits.tolist()]


@given(same_maps(), same_maps(), st.integers(0, 30), st.integers(0, 60), st.integers(0, 60))
def test_where_both_directions_keep_offsets_a_commit_is_itself_as_far_as_either_has_come(
    there, back, start, end, source_end
):
    bounds = {
        "target": TargetLog(DownstreamOffset(start), DownstreamOffset(end)),
        "source": SourceLog(UpstreamOffset(0), UpstreamOffset(source_end)),
    }
    commits = np.arange(60)
    answers = [translate_in_pair(there, back, UpstreamOffset(c), **bounds) for c in commits.tolist()]
    first = max(start, min(there.mirror_start.upstream, back.mirror_start.upstream))
    reached = min(end, source_end, max(there.upstream_frontier, back.upstream_frontier))
    assert all(answers[c] == Exact(c) for c in range(first, reached + 1) if c < len(answers))
    assert list(Answers(translate_in_pair_many(there, back, commits, **bounds))) == answers


def test_what_an_operator_skipped_stays_refused():
    known = replace(
        map_of(ORDERS, [(0, 0, 4), (8, 8, 2)], 10), gaps=(Gap(UpstreamOffset(4), UpstreamOffset(8)),)
    )
    known = replace(known, tail=replace(known.tail, same_offsets=True))
    target = TargetLog(DownstreamOffset(0), DownstreamOffset(10))
    answers = [translate(known, UpstreamOffset(c), target=target) for c in (4, 5, 8)]
    assert answers == [Refused(Reason.NOT_MIRRORED), Refused(Reason.NOT_MIRRORED), Exact(8)]
    assert translate_back(known, DownstreamOffset(5), target=target) == Bounded(4, 4)


def test_stored_state_says_that_a_mirror_keeps_offsets():
    """A release that does not know the flag refuses the block, and so writes no fence to such a mirror."""
    recorder = MapRecorder.begin(ORDERS, map_of(ORDERS, [], 0).mirror_start)
    recorder.same_offsets = True
    (block,) = recorder.take()
    assert decode_block(encode_block(block)) == block
    assert MapRecorder.resume(block).tail.same_offsets
