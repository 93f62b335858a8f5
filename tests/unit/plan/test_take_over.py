"""Where a mirror goes on that MirrorMaker 2 began."""

from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.flow.mirror_maker import Traces, cut_of
from mmtool.translation.answers import SourceLog, TargetLog
from mmtool.translation.mm2_records import OffsetSync
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition, UpstreamOffset


def traces(last=None, sync=None, source_end=1000, target_end=500):
    pair = None if sync is None else OffsetSync(TopicPartition("t", 0), *sync)
    return Traces(
        UNKNOWN if last is None else UpstreamOffset(last),
        UNKNOWN if pair is None else pair,
        SourceLog(UpstreamOffset(0), UpstreamOffset(source_end)),
        TargetLog(DownstreamOffset(0), DownstreamOffset(target_end)),
    )


def test_what_was_compared_decides_and_then_nothing_repeats():
    cut = cut_of(traces(last=400, sync=(450, 470)), UpstreamOffset(480))
    assert (cut.start.upstream, cut.start.downstream, cut.repeats_max) == (480, 500, 0)


def test_else_the_later_word_of_mm2_s_decides_and_the_sync_bounds_what_repeats():
    for last, sync, start, most in [
        (400, (450, 470), 451, 29),
        (490, (450, 470), 491, 29),
        (None, (450, 470), 451, 29),
        (400, None, 401, UNKNOWN),
    ]:
        cut = cut_of(traces(last, sync), UNKNOWN)
        assert (cut.start.upstream, cut.repeats_max) == (start, most)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_whatever_mm2_s_word_is_worth_no_record_below_the_start_is_missing(copied, stale_last, stale_sync):
    """MM2 copied the first ``copied + 1`` records, one to one, and both its words are about some of them."""
    last, sync = min(stale_last, copied), min(stale_sync, copied)
    cut = cut_of(traces(last, (sync, sync), 1000, copied + 1), UNKNOWN)
    assert cut.start.upstream <= copied + 1
    assert copied + 1 - cut.start.upstream <= cut.repeats_max


def test_a_partition_without_traces_or_without_records_is_none_of_mm2_s():
    assert [traces().is_empty, traces(last=5, target_end=0).is_empty, traces(last=5).is_empty] == [
        True,
        True,
        False,
    ]


def test_traces_past_the_end_of_either_log_are_of_another_one():
    assert "source's log ends at 1000" in traces(last=1000).contradiction
    assert "source's log ends at 1000" in traces(sync=(1000, 5)).contradiction
    assert "target's log ends at 500" in traces(last=999, sync=(5, 500)).contradiction
    assert traces(last=999, sync=(999, 499)).contradiction == ""
