"""Where MirrorMaker 2 stopped is told by both logs: one that cannot be read now tells nothing yet."""

import asyncio
from types import SimpleNamespace

import pytest

from kit.mirror import SOURCE_ID, TARGET_ID, assigned, fetched
from kit.paired_logs import LogOnWire, PairedLog, disturb, lose_answers
from kit.pairs import HERE
from mmtool.errors import UnreachableError
from mmtool.kafka.wire.codes import Code
from mmtool.plan.flow.mirror_maker import Traces, cut_of
from mmtool.replication.mm2.takeover import mm2_stop_point
from mmtool.transforms.source import SourceTransforms
from mmtool.translation.answers import SourceLog, TargetLog
from mmtool.translation.blocks import MirrorStart
from mmtool.translation.mm2_records import OffsetSync
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition, UpstreamOffset


@pytest.fixture
def logs():
    """A source with five records, and a target to which four of them were copied."""
    source, target = PairedLog(side=HERE), PairedLog(side=HERE)
    source.born(5)
    target.born(4)
    return source, target


def traces_of(logs):
    source, target = logs
    sync = OffsetSync(TopicPartition("orders", 0), UpstreamOffset(1), DownstreamOffset(1))
    return Traces(
        UNKNOWN,
        sync,
        SourceLog(UpstreamOffset(0), UpstreamOffset(source.end)),
        TargetLog(DownstreamOffset(0), DownstreamOffset(target.end)),
    )


def end(logs):
    source, target = logs
    flow = SimpleNamespace(
        source=LogOnWire(source, "source", SOURCE_ID),
        target=LogOnWire(target, "target", TARGET_ID),
        mm2_transforms=SourceTransforms(lambda _: None),
    )
    return asyncio.run(mm2_stop_point(flow, assigned().block.about, traces_of(logs)))


def test_behind_the_last_record_that_both_logs_have_it_stopped(logs):
    assert end(logs) == 4


def test_after_a_start_without_a_take_over_it_goes_on_where_mm2s_sync_is(logs):
    """`replicate` was started, mirrored from the beginning, and its state was forgotten: MM2's sync still fits."""
    _, target = logs
    target.born(1, alike=True)  # the first record once more
    assert end(logs) is UNKNOWN
    cut = cut_of(traces_of(logs), UNKNOWN)
    assert (cut.start, cut.repeats_max) == (MirrorStart(UpstreamOffset(2), DownstreamOffset(5)), 3)


@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
def test_a_log_that_cannot_be_read_now_is_no_log_that_tells_nothing(logs, side):
    """What MM2 has on record is up to a minute old: all since then would be copied again."""
    lose_answers(logs[side], 1)
    with pytest.raises(UnreachableError, match="orders-0: broker 1 does not answer"):
        end(logs)


@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
def test_a_log_that_is_corrupt_there_tells_nothing(logs, side):
    disturb(logs[side], 1 << 30, lambda: fetched(end=0)._replace(error_code=Code.CORRUPT_MESSAGE))
    assert end(logs) is UNKNOWN
