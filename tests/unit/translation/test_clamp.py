"""Clamped answers say how much is read again, or skipped, at most."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.testing.runs import ModelMirror, Slot, mirrors
from mmtool.translation.answers import Bounded, Exact, Refused, Skipping, TargetLog
from mmtool.translation.blocks import MirrorStart
from mmtool.translation.clamp import clamp_ahead, clamp_skipping
from mmtool.translation.refusals import Reason
from mmtool.translation.translate import translate
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
