"""What an operator chose not to mirror is known for ever: no commit is led across it unseen."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kit.runs import ORDERS, ModelMirror, Slot, live, lives, slots
from mmtool.translation.answers import Answer, Bounded, Exact, Reason, Refused, Skipping, SourceLog, TargetLog
from mmtool.translation.block_codec import decode_block, encode_block
from mmtool.translation.blocks import Gap, MirrorStart, WriterState
from mmtool.translation.columns import Answers
from mmtool.translation.recorder import MapRecorder
from mmtool.translation.translate import clamp_skipping, translate, translate_back, translate_many
from mmtool.translation.types import UNKNOWN, DownstreamOffset, Unknown, UpstreamOffset


def skip(mirror: ModelMirror, offsets: int) -> None:
    """An operator seeks forward."""
    mirror.frontier = min(len(mirror.slots), mirror.frontier + offsets)
    mirror.recorder.skip_to(UpstreamOffset(mirror.frontier))


@st.composite
def skipping(draw: st.DrawFn) -> ModelMirror:
    """Mirrors that were sought forward now and then, and otherwise lived as any."""
    start = MirrorStart(UpstreamOffset(0), DownstreamOffset(draw(st.integers(0, 50))))
    mirror = ModelMirror(draw(slots()), start, max_runs=draw(st.integers(1, 5)))
    for offsets in draw(st.lists(st.integers(1, 9), max_size=4)):
        live(mirror, draw(lives()))
        skip(mirror, offsets)
    live(mirror, draw(lives()))
    return mirror


def shipped(runs: int = 10) -> ModelMirror:
    mirror = ModelMirror([Slot.RECORD] * 30, MirrorStart(UpstreamOffset(0), DownstreamOffset(0)))
    mirror.ship(runs)
    return mirror


@given(skipping())
def test_a_commit_has_an_exact_answer_only_where_the_next_record_was_mirrored(mirror: ModelMirror):
    known, target = mirror.partition_map(), mirror.target_log()
    for commit in range(mirror.frontier + 1):
        answer = translate(known, UpstreamOffset(commit), target=target)
        records = range(commit, mirror.frontier)
        following = next((at for at in records if mirror.slots[at] is Slot.RECORD), None)
        if following is None or following in mirror.went:
            end = known.tail.downstream_end.position
            there = end if following is None else mirror.went[following]
            assert answer in (Exact(there), Refused(Reason.NOT_MIRRORED))
            assert answer == Exact(there) or known.gap_at(UpstreamOffset(commit)) is not None
        else:
            assert answer == Refused(Reason.NOT_MIRRORED)


@given(skipping())
def test_one_by_one_and_all_at_once_say_the_same(mirror: ModelMirror):
    known, target = mirror.partition_map(), mirror.target_log()
    column = np.arange(mirror.frontier + 3)
    many = list(Answers(translate_many(known, column, target=target)))
    assert many == [translate(known, UpstreamOffset(int(at)), target=target) for at in column]


@given(skipping())
def test_gaps_come_back_from_their_bytes(mirror: ModelMirror):
    mirror.flush()
    blocks = list(mirror.stored.values())
    assert [decode_block(encode_block(one)) for one in blocks] == blocks


def test_a_block_without_gaps_has_the_bytes_that_it_always_had():
    recorder = MapRecorder.begin(ORDERS, MirrorStart(UpstreamOffset(0), DownstreamOffset(0)))
    recorder.appended(UpstreamOffset(0), DownstreamOffset(0), 3, writer=WriterState(1, 0, 3))
    without = encode_block(recorder.take()[0])
    recorder.skip_to(UpstreamOffset(9))
    (block,) = recorder.take()
    assert block.gaps == (Gap(UpstreamOffset(3), UpstreamOffset(9)),)
    assert len(encode_block(block)) > len(without)


def test_a_second_seek_from_the_same_place_makes_one_gap_of_both():
    mirror = shipped()
    skip(mirror, 5)
    skip(mirror, 5)
    assert mirror.partition_map().gaps == (Gap(UpstreamOffset(10), UpstreamOffset(20)),)


def test_once_the_source_has_deleted_them_nothing_is_missing():
    mirror = shipped()
    skip(mirror, 5)
    mirror.ship(5)
    answers = [
        translate(
            mirror.partition_map(),
            UpstreamOffset(12),
            target=mirror.target_log(),
            source=SourceLog(UpstreamOffset(start), UpstreamOffset(30)),
        )
        for start in (14, 15)
    ]
    assert answers == [Refused(Reason.NOT_MIRRORED), Exact(10)]


def test_who_allows_skipping_is_told_how_many():
    mirror = shipped()
    skip(mirror, 5)
    mirror.ship(5)
    target = TargetLog(DownstreamOffset(0), DownstreamOffset(15))
    answer = clamp_skipping(mirror.partition_map(), UpstreamOffset(12), target=target)
    assert answer == Skipping(10, 3)


# --- back from the target ---------------------------------------------------------------------------------


def rebuilt() -> ModelMirror:
    """Both logs have told a map again, and records that cannot be told from their likes are left out of it.

    Records 0 and 4 are known to be at 0 and 4; 1 to 3 of the target are copies of some of 1 to 3 of the source.
    """
    mirror = ModelMirror([Slot.RECORD] * 5, MirrorStart(UpstreamOffset(0), DownstreamOffset(0)))
    mirror.recorder.appended(UpstreamOffset(0), DownstreamOffset(0), 1, writer=WriterState(1, 0, 1))
    mirror.recorder.skip_to(UpstreamOffset(4))
    mirror.recorder.appended(UpstreamOffset(4), DownstreamOffset(4), 1, writer=WriterState(1, 0, 2))
    mirror.target_end, mirror.frontier = 5, 5
    return mirror


def back(mirror: ModelMirror, commit: int, source: SourceLog | Unknown = UNKNOWN) -> Answer:
    known, target = mirror.partition_map(), mirror.target_log()
    return translate_back(known, DownstreamOffset(commit), target=target, source=source)


def test_back_from_a_place_between_two_records_nothing_of_the_gap_between_them_is_skipped():
    answers = [back(rebuilt(), commit) for commit in range(6)]
    assert answers == [Exact(0), *[Bounded(1, 3)] * 3, Exact(4), Exact(5)]


def test_back_from_a_marker_in_front_of_a_gap_what_an_operator_skipped_is_read_and_said():
    mirror = shipped()
    skip(mirror, 5)
    mirror.interrupt(1)
    mirror.ship(5)
    assert [back(mirror, commit) for commit in (9, 10, 11)] == [Exact(9), Bounded(10, 5), Exact(15)]


def test_back_from_there_once_the_source_has_deleted_the_gap_nothing_of_it_is_missing():
    known = [SourceLog(UpstreamOffset(start), UpstreamOffset(5)) for start in (3, 4)]
    answers = [back(rebuilt(), 2, source) for source in known]
    assert answers == [Refused(Reason.TARGET_LOG_START_PASSED), Exact(4)]
