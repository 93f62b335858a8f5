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
    whole = join_blocks(chain())
    assert (whole.complete, whole.known_from, whole.last_block_start, whole.upstream_frontier) == (
        True,
        0,
        12,
        18,
    )


def test_without_its_oldest_block_the_map_begins_after_it():
    rest = join_blocks(chain()[1:])
    assert (rest.complete, rest.known_from, rest.runs.first.upstream_start) == (False, 5, 6)


def test_a_mirror_that_has_just_begun_is_an_empty_map():
    block = MapRecorder.begin(ORDERS, START).take()[0]
    assert join_blocks([block]) == PartitionMap.empty(ORDERS, START, block.tail)


def test_no_blocks_are_no_map():
    with pytest.raises(UnreadableStateError, match="none to join"):
        join_blocks([])


def test_a_block_missing_between_two_others_is_noticed():
    first, _, last = chain()
    with pytest.raises(UnreadableStateError, match="a block is missing"):
        join_blocks([first, last])


def test_an_older_state_of_a_block_than_the_next_one_follows_is_noticed():
    first, second, _ = chain()
    runs = RunMap.from_runs(list(first.runs)[:-1])
    with pytest.raises(UnreadableStateError, match="a block is missing"):
        join_blocks([replace(first, runs=runs), second])


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (lambda b: replace(b, about=replace(b.about, topic_id=TopicId("z"))), "another partition or flow"),
        (lambda b: replace(b, mirror_start=replace(START, upstream=UpstreamOffset(1))), "another start"),
        (lambda b: replace(b, previous=None), "claims to be the first block"),
        (lambda b: replace(b, runs=chain()[0].runs), "blocks overlap: its offset runs contradict each other"),
    ],
)
def test_blocks_that_do_not_belong_together_are_refused(broken, why):
    first, second, _ = chain()
    with pytest.raises(UnreadableStateError, match=why):
        join_blocks([first, broken(second)])


def test_nothing_can_follow_a_block_without_runs():
    first, second, _ = chain()
    end = NothingMirrored(DownstreamOffset(10))
    empty = replace(first, runs=RunMap.from_runs(()), tail=replace(first.tail, downstream_end=end))
    with pytest.raises(UnreadableStateError, match="claims to be the first block"):
        join_blocks([empty, second])


def test_a_recorder_has_something_to_store_only_after_a_change():
    recorder = MapRecorder.begin(ORDERS, START)
    assert len(recorder.take()) == 1
    assert (recorder.changed, recorder.take()) == (False, [])
    recorder.passed(UpstreamOffset(0))
    recorder.claimed(WRITER)
    assert (recorder.changed, recorder.tail.writer) == (True, WRITER)


def test_a_log_that_was_looked_at_is_known_to_its_end_until_more_is_mirrored():
    recorder = MapRecorder.resume(chain()[-1], max_runs=3)
    end = recorder.tail.downstream_end.position
    recorder.checked(DownstreamOffset(end + 2))
    assert (recorder.changed, recorder.tail.target_verified_end, recorder.tail.downstream_end.position) == (
        True,
        end + 2,
        end,
    )
    recorder.appended(UpstreamOffset(99), DownstreamOffset(end + 2), 1, writer=WRITER)
    assert (recorder.tail.checked_to, recorder.tail.target_verified_end) == (UNKNOWN, end + 3)


def test_nothing_is_booked_below_what_was_looked_at():
    recorder = MapRecorder.resume(chain()[-1], max_runs=3)
    end = recorder.tail.downstream_end.position
    recorder.checked(DownstreamOffset(end + 2))
    with pytest.raises(InvariantError):
        recorder.appended(UpstreamOffset(99), DownstreamOffset(end + 1), 1, writer=WRITER)


def test_a_recorder_knows_nothing_of_writers_before_the_first_claim():
    assert MapRecorder.begin(ORDERS, START).tail.writer is UNKNOWN


def test_a_full_block_is_sealed_and_stored_before_the_one_that_follows_it():
    assert [(block.sealed, len(block.runs)) for block in chain()] == [(True, 3), (True, 3), (False, 3)]


@pytest.mark.parametrize(("upstream", "downstream", "letter"), [(20, 9, "C"), (16, 19, "B"), (15, 30, "B")])
def test_a_recorder_refuses_to_go_backwards_across_blocks(upstream, downstream, letter):
    last = chain()[-1]
    recorder = MapRecorder.resume(last, max_runs=3)
    with pytest.raises(InvariantError) as refused:
        recorder.appended(UpstreamOffset(upstream), DownstreamOffset(downstream), 1, writer=WRITER)
    assert refused.value.letter == letter
