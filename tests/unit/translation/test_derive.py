"""What the two logs tell of a lost map is true, and what they do not tell is left out."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.runs import ModelMirror, Slot, live, lives, slots
from mmtool.translation.blocks import MirrorStart
from mmtool.translation.derive import (
    NOTHING_TOLD,
    AmbiguousError,
    KnownOffsets,
    Logged,
    derive,
    gaps_between,
    next_record,
)
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.translation.runs import Run


def logged(records: dict[int, int]) -> Logged:
    """Offset to fingerprint."""
    return Logged(np.array(list(records), dtype=np.int64), np.array(list(records.values()), dtype=np.int64))


def runs(
    source: dict[int, int], target: dict[int, int], told: KnownOffsets = NOTHING_TOLD
) -> list[tuple[int, int, int]]:
    return rows(derive(logged(source), logged(target), told))


def rows(runs: Iterable[Run]) -> list[tuple[int, int, int]]:
    return [(r.upstream_start, r.downstream_start, r.count) for r in runs]


@st.composite
def mirrors(draw: st.DrawFn) -> ModelMirror:
    log = draw(slots())
    start = MirrorStart(
        UpstreamOffset(draw(st.integers(0, len(log)))), DownstreamOffset(draw(st.integers(0, 9)))
    )
    mirror = ModelMirror(log, start)
    live(mirror, draw(lives()))
    return mirror


def truth(mirror: ModelMirror, values: list[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Both logs by offset: record ``n`` of the source holds ``values[n]``."""
    source = {at: values[at] for at, slot in enumerate(mirror.slots) if slot is Slot.RECORD}
    return source, {down: values[up] for up, down in mirror.went.items()}


@given(mirrors())
def test_of_records_that_are_no_two_alike_the_whole_map_is_found_again(mirror: ModelMirror):
    found = runs(*truth(mirror, list(range(100))))
    known = rows(mirror.partition_map().runs)
    assert found == known


@given(mirrors(), st.integers(0, 40), st.integers(0, 40))
def test_what_retention_has_deleted_is_left_out_and_the_rest_is_found(
    mirror: ModelMirror, up: int, down: int
):
    source, target = truth(mirror, list(range(100)))
    source = {at: value for at, value in source.items() if at >= up}
    target = {at: value for at, value in target.items() if at >= down}
    left = {u: d for u, d in mirror.went.items() if u >= up and d >= down}
    pairs = {u + i: d + i for u, d, count in runs(source, target) for i in range(count)}
    assert pairs == left


@given(mirrors(), st.lists(st.integers(0, 2), min_size=60, max_size=60), st.data())
def test_among_likes_the_records_that_belong_together_are_found_or_none_is_claimed(
    mirror: ModelMirror, likes: list[int], data: st.DataObject
):
    """The last record shipped is one of a kind, so the walk has where to begin."""
    values = [*likes, *range(100, 140)]
    if mirror.went:
        values[max(mirror.went)] = 1_000
    source, target = truth(mirror, values)
    pairs = {u + i: d + i for u, d, count in runs(source, target) for i in range(count)}
    assert pairs == mirror.went


TEN = {n: n for n in range(10)}
ONLY_THE_LIKE = {1: 11, 2: 12, 3: 7}
"""Compaction took 0 from the source, as 3 is of the same key and has the same value: 1 and 2 would be lost."""
MOSTLY_ALIKE = dict.fromkeys(range(8), 7) | {3: 1}


@pytest.mark.parametrize(
    ("source", "target", "told", "found"),
    [
        (TEN, TEN | {10 + n: 6 + n for n in range(4)}, NOTHING_TOLD, [(6, 10, 4)]),
        ({n: n for n in TEN if n != 4}, TEN, NOTHING_TOLD, [(0, 0, 4), (5, 5, 5)]),
        (ONLY_THE_LIKE, {0: 7}, KnownOffsets(1, 1), []),
        (ONLY_THE_LIKE | {4: 13}, {0: 7, 1: 11}, KnownOffsets(1, 1), [(1, 1, 1)]),
        (MOSTLY_ALIKE, {n: MOSTLY_ALIKE[n] for n in range(4)}, KnownOffsets(4, 4), [(0, 0, 4)]),
    ],
    ids=[
        "began anew: the later copies",
        "compacted",
        "not mirrored yet",
        "its like is gone",
        "alike, and mirrored",
    ],
)
def test_a_map_holds_what_both_logs_prove(source, target, told, found):
    assert runs(source, target, told) == found


def test_records_that_were_passed_over_are_a_gap_and_markers_are_none():
    source = logged({**{n: n for n in range(5)}, **{n: n for n in range(6, 12)}})
    target = logged({**{n: n for n in range(5)}, 5: 6, 6: 7, 8: 10, 9: 11})
    found = derive(source, target)
    assert rows(found) == [(0, 0, 5), (6, 5, 2), (10, 8, 2)]
    assert gaps_between(source, found) == [10]


@given(mirrors(), st.lists(st.integers(0, 9), min_size=60, max_size=60), st.sets(st.integers(0, 59)))
def test_nothing_is_found_that_the_mirror_had_not_reached(
    mirror: ModelMirror, values: list[int], compacted: set[int]
):
    source, target = truth(mirror, [*values, *range(100, 140)])
    left = {at: value for at, value in source.items() if at not in compacted}
    try:
        found = runs(left, target, KnownOffsets(mirror.frontier, mirror.target_end))
    except AmbiguousError:
        return
    assert all(up + count <= mirror.frontier for up, _, count in found)


@given(mirrors(), st.integers(0, 60))
def test_what_was_told_at_any_time_hides_nothing(mirror: ModelMirror, at: int):
    below = [down for up, down in mirror.went.items() if up < at]
    told = KnownOffsets(at, max(below) + 1) if below else NOTHING_TOLD
    known = rows(mirror.partition_map().runs)
    assert runs(*truth(mirror, list(range(100))), told) == known


def test_where_the_end_fits_twice_nothing_is_guessed():
    with pytest.raises(AmbiguousError):
        runs({0: 7, 1: 7, 2: 7}, {0: 7, 1: 7})


@given(mirrors())
def test_found_runs_obey_the_letters_of_runs(mirror: ModelMirror):
    found = derive(*(logged(log) for log in truth(mirror, list(range(100)))))
    found.check_invariants()
    assert all(a.upstream_end <= b.upstream_start for a, b in pairwise(found))


def test_the_frontier_is_the_next_record_or_the_end_that_was_read():
    source = logged({0: 1, 3: 2})
    found = [next_record(source, UpstreamOffset(at), UpstreamOffset(9)) for at in (0, 1, 3, 4)]
    assert found == [0, 3, 3, 9]
