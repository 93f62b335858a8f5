"""Clamped answers say how much is read again, or skipped, at most."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.maps import map_of
from kit.pairs import HERE, live, lives, pairs
from kit.runs import ORDERS, ModelMirror, Slot, mirrors
from mmtool.translation.answers import Bounded, Exact, Reason, Refused, Skipping, TargetLog
from mmtool.translation.blocks import MirrorStart, SeenOffset
from mmtool.translation.translate import (
    clamp_ahead,
    clamp_checkpoint,
    clamp_skipping,
    translate,
    translate_in_pair,
)
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

SHORT = TargetLog(DownstreamOffset(0), DownstreamOffset(3))


def mirrored(*, upstream: int = 0, ship: int = 10) -> ModelMirror:
    start = MirrorStart(UpstreamOffset(upstream), DownstreamOffset(0))
    mirror = ModelMirror([Slot.RECORD] * 20, start, unmirrored=upstream)
    mirror.ship(ship)
    return mirror


@pytest.mark.parametrize(("commit", "unstored", "reread"), [(15, 0, 0), (15, 3, 3), (12, 3, 2)])
def test_a_group_ahead_goes_on_at_the_mirrors_end(commit, unstored, reread):
    mirror = mirrored()
    known = mirror.partition_map()
    mirror.ship(unstored)
    clamped = clamp_ahead(known, UpstreamOffset(commit), target=mirror.target_log())
    assert clamped == Bounded(10, reread)


@pytest.mark.parametrize("clamp", [clamp_ahead, clamp_skipping])
def test_no_clamp_goes_past_the_targets_end(clamp):
    known = mirrored().partition_map()
    assert clamp(known, UpstreamOffset(10), target=SHORT) == Refused(Reason.BEYOND_MIRROR)


def test_a_group_ahead_is_not_moved_by_allowing_skips():
    mirror = mirrored()
    clamped = clamp_skipping(mirror.partition_map(), UpstreamOffset(11), target=mirror.target_log())
    assert clamped == Refused(Reason.BEYOND_MIRROR)


def test_deleted_records_are_counted_one_by_one():
    mirror = mirrored()
    clamped = clamp_skipping(mirror.partition_map(), UpstreamOffset(2), target=mirror.target_log(7))
    assert clamped == Skipping(7, 5)


def test_records_never_mirrored_are_bounded_by_their_offsets():
    mirror = mirrored(upstream=5)
    clamped = clamp_skipping(mirror.partition_map(), UpstreamOffset(2), target=mirror.target_log(1))
    assert clamped == Skipping(1, 3 + 1)


@given(mirrors(), st.integers(0, 80))
def test_the_number_of_skipped_records_is_exact_within_the_map(mirror: ModelMirror, log_start: int):
    log = mirror.target_log(min(log_start, mirror.target_end))
    for commit in range(mirror.start.upstream, mirror.frontier + 1):
        clamped = clamp_skipping(mirror.partition_map(), UpstreamOffset(commit), target=log)
        skipped = [down for up, down in mirror.went.items() if up >= commit and down < clamped.offset]
        assert clamped.skip_max == len(skipped)


@given(mirrors())
def test_where_there_is_an_exact_answer_nothing_is_skipped(mirror: ModelMirror):
    known, log = mirror.partition_map(), mirror.target_log()
    for commit in range(mirror.start.upstream, mirror.frontier + 1):
        exact = translate(known, UpstreamOffset(commit), target=log)
        assert isinstance(exact, Exact)
        assert clamp_skipping(known, UpstreamOffset(commit), target=log) == Skipping(exact.offset, 0)


# --- a checkpoint where records are born on both sides ----------------------------------------------------


def at_checkpoint(known, upstream, downstream, log_start, log_end=60):
    log = TargetLog(DownstreamOffset(log_start), DownstreamOffset(log_end))
    return clamp_checkpoint(known, UpstreamOffset(upstream), DownstreamOffset(downstream), target=log)


@pytest.mark.parametrize(
    ("runs", "upstream", "skipped"),
    [
        pytest.param([(0, 0, 60)], 5, 15, id="all of them mirrored, none of them read"),
        pytest.param([(0, 0, 10), (10, 30, 30)], 5, 15, id="ten of them born on the target"),
        pytest.param([(0, 6, 54)], 9, 6, id="nine of them mirrored and read"),
        pytest.param([(0, 6, 54)], 50, 1, id="all that was mirrored is read"),
    ],
)
def test_deleted_records_behind_a_checkpoint_are_skipped_unless_the_map_tells_that_they_were_read(
    runs, upstream, skipped
):
    assert at_checkpoint(map_of(ORDERS, runs, 60), upstream, 5, 20) == Skipping(20, skipped)


@pytest.mark.parametrize(
    ("known", "commit", "answer"),
    [
        pytest.param(None, (50, 5), Skipping(20, 15), id="without a map all that was deleted counts"),
        pytest.param(map_of(ORDERS, [(0, 0, 60)], 60), (25, 25), Bounded(25, 35), id="still there"),
        pytest.param(map_of(ORDERS, [(0, 0, 60)], 60), (60, 70), Bounded(60, 0), id="past the target's end"),
    ],
)
def test_behind_a_checkpoint_only_what_the_target_has_deleted_is_skipped(known, commit, answer):
    assert at_checkpoint(known, *commit, 20) == answer


def in_a_gap(*, source_start):
    """Records 10 to 19 were passed over by choice; the checkpoint is of the twelfth."""
    mirror = mirrored()
    mirror.recorder.skip_to(UpstreamOffset(20))
    seen = SeenOffset(UpstreamOffset(20), 0), SeenOffset(UpstreamOffset(source_start), 0)
    mirror.recorder.saw_source(*seen)
    return at_checkpoint(mirror.partition_map(), 12, 10, 0, 10)


def test_records_that_were_passed_over_by_choice_are_skipped_from_a_checkpoint_as_well():
    assert in_a_gap(source_start=0) == Skipping(10, 8)


def test_what_the_source_had_deleted_by_then_is_not_skipped():
    assert in_a_gap(source_start=20) == Bounded(10, 0)


@given(pairs(), lives(), st.data())
def test_of_what_a_group_has_not_read_no_more_is_deleted_behind_its_checkpoint_than_is_said(
    pair, later, data
):
    """However the pair lives on after the checkpoint was written, by the map of one direction alone."""
    commit = UpstreamOffset(data.draw(st.integers(0, len(pair.logs[HERE]))))
    maps, bounds = (pair.map(HERE), pair.map(1 - HERE)), (pair.target_log(), pair.source_log())
    written = translate_in_pair(*maps, commit, target=bounds[0], source=bounds[1])
    if isinstance(written, Refused):
        return
    live(pair, later)
    log_end = pair.target_log().log_end
    log_start = data.draw(st.integers(0, log_end))
    answer = at_checkpoint(pair.map(HERE), commit, written.offset, log_start, log_end)
    unread = pair.at_or_after(0) - pair.read(commit)
    deleted = unread - pair.at_or_after(log_start)
    assert unread - deleted <= pair.at_or_after(answer.offset)
    assert len(deleted) <= (answer.skip_max if isinstance(answer, Skipping) else 0)
