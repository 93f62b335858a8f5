"""Blocks make up one map, in any order, or are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.runs import ORDERS, ModelMirror, Slot, live, lives, mirrors, slots
from mmtool.translation.blocks import MirrorStart, NothingMirrored, WriterState
from mmtool.translation.errors import InvariantError, UnreadableStateError
from mmtool.translation.partition_map import PartitionMap, join_blocks
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.runs import RunMap
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicId, UpstreamOffset

START = MirrorStart(UpstreamOffset(0), DownstreamOffset(10))
WRITER = WriterState(1, 0, 0)


def chain():
    """Three blocks of three runs each."""
    mirror = ModelMirror([Slot.RECORD, Slot.MARKER] * 9, START)
    mirror.ship(18)
    mirror.flush()
    return [mirror.stored[key] for key in sorted(mirror.stored)]


@given(mirrors(), st.randoms())
def test_the_order_of_the_blocks_does_not_matter(mirror: ModelMirror, random):
    mirror.flush()
    blocks = list(mirror.stored.values())
    random.shuffle(blocks)
    assert join_blocks(blocks) == mirror.partition_map()


@given(slots(), lives(), st.integers(1, 5))
def test_a_hand_over_at_any_point_leaves_the_same_map(log, life, max_runs):
    handed_over, undisturbed = (ModelMirror(log, START, max_runs=max_runs) for _ in range(2))
    for step in life:
        live(handed_over, [step])
        handed_over.hand_over()
        live(undisturbed, [step])
    assert handed_over.partition_map() == undisturbed.partition_map()


def test_the_map_knows_where_it_ends_and_from_where_it_is_known():
    whole, rest = join_blocks(chain()), join_blocks(chain()[1:])
    ends = whole.last_block_start, whole.upstream_frontier
    assert (whole.complete, whole.known_from, *ends) == (True, 0, 12, 18)
    assert (rest.complete, rest.known_from, rest.runs.first.upstream_start) == (False, 5, 6)


def test_a_mirror_that_has_just_begun_is_an_empty_map():
    block = MapRecorder.begin(ORDERS, START).take()[0]
    assert join_blocks([block]) == PartitionMap.empty(ORDERS, START, block.tail)


FIRST, SECOND, LAST = chain()
OLDER = replace(FIRST, runs=RunMap.from_runs(list(FIRST.runs)[:-1]))
ANOTHER = replace(SECOND, about=replace(SECOND.about, topic_id=TopicId("z")))
NOTHING_YET = replace(FIRST.tail, downstream_end=NothingMirrored(DownstreamOffset(10)))


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        ([], "none to join"),
        ([FIRST, LAST], "a block is missing"),
        ([OLDER, SECOND], "a block is missing"),
        ([FIRST, ANOTHER], "another partition or flow"),
        ([FIRST, replace(SECOND, mirror_start=replace(START, upstream=UpstreamOffset(1)))], "another start"),
        ([FIRST, replace(SECOND, previous=None)], "claims to be the first block"),
        ([FIRST, replace(SECOND, runs=FIRST.runs)], "blocks overlap: its offset runs contradict each other"),
        (
            [replace(FIRST, runs=RunMap.from_runs(()), tail=NOTHING_YET), SECOND],
            "claims to be the first block",
        ),
    ],
)
def test_blocks_that_do_not_belong_together_are_refused(blocks, why):
    with pytest.raises(UnreadableStateError, match=why):
        join_blocks(blocks)


def test_a_recorder_has_something_to_store_only_after_a_change():
    recorder = MapRecorder.begin(ORDERS, START)
    assert (len(recorder.take()), recorder.tail.writer) == (1, UNKNOWN)
    assert (recorder.changed, recorder.take()) == (False, [])
    recorder.passed(UpstreamOffset(0))
    recorder.claimed(WRITER)
    assert (recorder.changed, recorder.tail.writer) == (True, WRITER)


def test_a_log_that_was_looked_at_is_known_to_its_end_until_more_is_mirrored_and_nothing_is_booked_below():
    recorder = MapRecorder.resume(chain()[-1], max_runs=3)
    end = recorder.tail.downstream_end.position
    recorder.checked(DownstreamOffset(end + 2))
    ends = recorder.tail.target_verified_end, recorder.tail.downstream_end.position
    assert (recorder.changed, *ends) == (True, end + 2, end)
    with pytest.raises(InvariantError):
        recorder.appended(UpstreamOffset(99), DownstreamOffset(end + 1), 1, writer=WRITER)
    recorder.appended(UpstreamOffset(99), DownstreamOffset(end + 2), 1, writer=WRITER)
    assert (recorder.tail.checked_to, recorder.tail.target_verified_end) == (UNKNOWN, end + 3)


def test_a_full_block_is_sealed_and_stored_before_the_one_that_follows_it():
    assert [(block.sealed, len(block.runs)) for block in chain()] == [(True, 3), (True, 3), (False, 3)]


@pytest.mark.parametrize(("upstream", "downstream", "letter"), [(20, 9, "C"), (16, 19, "B"), (15, 30, "B")])
def test_a_recorder_refuses_to_go_backwards_across_blocks(upstream, downstream, letter):
    last = chain()[-1]
    recorder = MapRecorder.resume(last, max_runs=3)
    with pytest.raises(InvariantError) as refused:
        recorder.appended(UpstreamOffset(upstream), DownstreamOffset(downstream), 1, writer=WRITER)
    assert refused.value.letter == letter
