"""Runs obey A to D, and lookups find the first record at or after."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.runs import ModelMirror, mirrors
from mmtool.translation.errors import InvariantError
from mmtool.translation.runs import Run, RunBuilder, RunMap
from mmtool.translation.types import DownstreamOffset, UpstreamOffset


def run(upstream: int, downstream: int, count: int) -> Run:
    return Run(UpstreamOffset(upstream), DownstreamOffset(downstream), count)


def built(*batches: tuple[int, int, int]) -> list[Run]:
    builder = RunBuilder()
    for upstream, downstream, count in batches:
        builder.append(UpstreamOffset(upstream), DownstreamOffset(downstream), count)
    return list(builder.snapshot())


@pytest.mark.parametrize(
    ("batch", "letter"),
    [((10, 15, 0), "A"), ((10, 15, -1), "A"), ((9, 15, 1), "B"), ((10, 14, 1), "C")],
)
def test_a_batch_that_goes_backwards_is_refused_by_letter(batch, letter):
    with pytest.raises(InvariantError) as refused:
        built((0, 5, 10), batch)
    assert refused.value.letter == letter


def test_a_refused_batch_leaves_the_builder_as_it_was():
    builder = RunBuilder([run(0, 5, 10)])
    with pytest.raises(InvariantError):
        builder.append(UpstreamOffset(3), DownstreamOffset(20), 1)
    assert list(builder.snapshot()) == [run(0, 5, 10)]


@pytest.mark.parametrize(
    ("runs", "letter"),
    [
        ([run(0, 0, 0)], "A"),
        ([run(0, 0, 5), run(4, 9, 1)], "B"),
        ([run(0, 0, 5), run(9, 4, 1)], "C"),
        ([run(0, 0, 5), run(5, 5, 1)], "D"),
    ],
)
def test_each_invariant_is_checked_by_letter(runs, letter):
    with pytest.raises(InvariantError) as refused:
        RunMap.from_runs(runs).check_invariants()
    assert refused.value.letter == letter


def test_a_snapshot_does_not_change_with_later_appends():
    builder = RunBuilder([run(0, 0, 1)])
    before = builder.snapshot()
    builder.append(UpstreamOffset(1), DownstreamOffset(1), 1)
    assert list(before) == [run(0, 0, 1)]


def test_joining_fuses_what_could_be_one_run():
    parts = [
        RunMap.from_runs(runs) for runs in ([run(0, 0, 2), run(5, 2, 1)], [], [run(6, 3, 4)], [run(20, 7, 1)])
    ]
    assert list(RunMap.joined(parts)) == [run(0, 0, 2), run(5, 2, 5), run(20, 7, 1)]
    assert list(RunMap.joined([])) == []


@pytest.mark.parametrize(("second", "letter"), [(run(4, 9, 1), "B"), (run(9, 4, 1), "C")])
def test_joining_overlapping_parts_is_refused(second, letter):
    with pytest.raises(InvariantError) as refused:
        RunMap.joined([RunMap.from_runs([run(0, 0, 5)]), RunMap.from_runs([second])])
    assert refused.value.letter == letter


@given(mirrors())
def test_what_is_recorded_obeys_every_invariant(mirror: ModelMirror):
    mirror.partition_map().runs.check_invariants()


@given(mirrors())
def test_the_runs_are_the_truth_record_by_record(mirror: ModelMirror):
    runs = mirror.partition_map().runs
    mapped = {r.upstream_start + i: r.downstream_start + i for r in runs for i in range(r.count)}
    assert mapped == mirror.went
    assert runs.records == len(mirror.went)


@given(mirrors(), st.integers(0, 200))
def test_either_way_the_first_record_at_or_after_is_found(mirror: ModelMirror, offset: int):
    runs = mirror.partition_map().runs
    forward = min((down for up, down in mirror.went.items() if up >= offset), default=None)
    reverse = min((up for up, down in mirror.went.items() if down >= offset), default=None)
    assert (runs.find_forward(UpstreamOffset(offset)), runs.find_reverse(DownstreamOffset(offset))) == (
        forward,
        reverse,
    )


@given(mirrors(), st.integers(0, 80))
def test_around_an_offset_are_the_last_record_below_it_and_the_first_one_from_it_on(
    mirror: ModelMirror, offset: int
):
    went = sorted(mirror.went.items())
    below, on = [pair for pair in went if pair[0] < offset], [pair for pair in went if pair[0] >= offset]
    expected = (below[-1] if below else None, on[0] if on else None)
    assert mirror.partition_map().runs.around(UpstreamOffset(offset)) == expected


@given(mirrors())
def test_records_below_an_offset_are_counted_on_both_sides(mirror: ModelMirror):
    runs = mirror.partition_map().runs
    upstream, downstream = mirror.went.keys(), mirror.went.values()
    found = [(runs.records_below(at), runs.records_below_downstream(at)) for at in range(200)]
    assert found == [
        (sum(up < at for up in upstream), sum(down < at for down in downstream)) for at in range(200)
    ]


@given(mirrors())
def test_a_column_is_looked_up_as_its_elements_are(mirror: ModelMirror):
    runs, column = mirror.partition_map().runs, np.arange(200, dtype=np.int64)
    for many, one in (
        (runs.find_forward_many(column), runs.find_forward),
        (runs.find_reverse_many(column), runs.find_reverse),
    ):
        values = [int(value) if found else None for value, found in zip(*many, strict=True)]
        assert values == [one(offset) for offset in range(200)]
