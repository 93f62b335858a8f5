"""A topic of ours is read to its end, or it is said that it cannot be; so are records that are not to be trusted."""

import time
from dataclasses import replace

import pytest

from kit.batches import PlainRecord, batch_of
from kit.maps import blocks_of
from kit.mirror import LogBroker
from kit.runs import ORDERS
from mmtool.config import ClusterSettings
from mmtool.errors import NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.state import log_reader, state_log
from mmtool.kafka.state.control_view import ControlView
from mmtool.kafka.state.flow_state import FollowedFlowState
from mmtool.kafka.state.journal import KafkaJournal
from mmtool.kafka.state.log_reader import LogRecord, StoredTopic
from mmtool.kafka.state.state_log import maps_of, read_block_keys, read_control, read_newest_blocks
from mmtool.kafka.wire.blocking_client import BlockingWireClient
from mmtool.kafka.wire.codes import Code
from mmtool.plan.flow.positions import PositionTrails
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.translation.block_codec import encode_block, encode_key
from mmtool.translation.blocks import MAX_RUNS
from mmtool.translation.partition_map import join_blocks
from mmtool.translation.types import ClusterId

WEST = ClusterSettings(alias="west", bootstrap_servers="nowhere:1")
TOPIC = "mmtool-runs"


@pytest.fixture
def read(monkeypatch):
    """The partitions and offsets of the records that are read from a log."""

    def reading(log, *partitions, **how):
        wire = BlockingWireClient(log, 5.0)
        monkeypatch.setattr(log_reader, "shared", lambda *_: wire)
        found = log_reader.read_log(WEST, TOPIC, list(partitions) or None, patience_seconds=0.3, **how)
        return [(record.partition, record.offset) for record in found]

    return reading


def keyed(*offsets, key=b"key", value=b"value"):
    return batch_of([PlainRecord(offset, 7, key, value) for offset in offsets]).write()


def test_every_partition_is_read_to_its_end_and_only_those_that_are_wanted(read):
    log = LogBroker([keyed(0), keyed(1, 2)], [keyed(0)], [])
    assert sorted(read(log)) == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert read(log, 1) == [(1, 0)]


def test_a_record_without_a_key_is_left_out_and_a_tombstone_is_not(read):
    assert read(LogBroker([keyed(0, key=None), keyed(1, value=None)])) == [(0, 1)]


@pytest.mark.parametrize(("start", "first"), [(None, 3), (4, 4), (1, 3), (9, 3), (6, None)])
def test_a_start_that_the_log_does_not_hold_means_its_own_start(start, first, read):
    log = LogBroker([keyed(0, 1, 2, 3, 4, 5)], log_start=3)
    found = read(log, start={} if start is None else {0: start})
    assert found == ([] if first is None else [(0, offset) for offset in range(first, 6)])


def test_a_partition_without_a_leader_is_told_of(read):
    log = LogBroker([keyed(0)], [keyed(0)])
    log.led = {0}
    with pytest.raises(UnreachableError, match="mmtool-runs-1 failed: the partition has no leader"):
        read(log)


def test_what_a_leader_that_was_elected_a_moment_ago_does_not_show_yet_is_read_all_the_same(read):
    """Else an operation that is past its return would seem to be before it (KIP-207)."""
    log = LogBroker([keyed(0), keyed(1)])
    log.ends[0] = [Code.OFFSET_NOT_AVAILABLE, Code.OFFSET_NOT_AVAILABLE, 2]
    assert read(log) == [(0, 0), (0, 1)]


def test_what_comes_while_a_busy_log_is_read_to_its_end_is_not_waited_for(read):
    log = LogBroker([keyed(0), keyed(1, 2, 3)])
    log.ends[0] = [2]
    assert read(log) == [(0, 0), (0, 1)]


def test_a_leader_that_never_tells_where_its_log_ends_is_told_of(read):
    log = LogBroker([keyed(0)])
    log.ends[0] = [Code.OFFSET_NOT_AVAILABLE]
    with pytest.raises(UnreachableError, match="reading offsets of mmtool-runs-0"):
        read(log)


def test_who_may_not_read_a_topic_is_told_so_and_one_that_is_not_there_is_empty(read):
    log = LogBroker([keyed(0)])
    log.code = Code.UNKNOWN_TOPIC_OR_PARTITION
    assert read(log) == []
    log.code = Code.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(NotAuthorisedError, match="READ on topic mmtool-runs"):
        read(log)


def test_a_journal_is_waited_for_as_long_as_the_command_line_says():
    silent = ClusterSettings(alias="west", bootstrap_servers="127.0.0.1:1")
    began = time.monotonic()
    with pytest.raises(UnreachableError):
        KafkaJournal(silent, 1, 0.5).entries()
    assert time.monotonic() - began < 5


FLOW = FlowIdentity(ORDERS.source_cluster_id, ORDERS.target_cluster_id, "east", "west")
OTHER = replace(ORDERS, partition=8)


def blocks(about=ORDERS, runs=MAX_RUNS + 1):
    return blocks_of(about, [(11 * i, 10 * i, 10) for i in range(runs)], 11 * runs)


def record(offset, block, *, key=None, value=None):
    return LogRecord(0, offset, key or encode_key(block.key), value or encode_block(block), 0)


def records(*blocks):
    return [record(offset, block) for offset, block in enumerate(blocks)]


def test_each_partition_has_the_map_of_its_blocks():
    ours, theirs = blocks(), blocks(OTHER, 2)
    found = maps_of(records(*theirs, *ours), FLOW)
    assert found == {
        (about.topic_id, about.partition): join_blocks(of) for about, of in ((ORDERS, ours), (OTHER, theirs))
    }


def test_the_last_record_of_a_key_counts_and_a_tombstone_takes_it_away():
    first, second = blocks()
    struck_out = LogRecord(0, 3, encode_key(second.key), None, 0)
    (known,) = maps_of([*records(first, second), record(2, first), struck_out], FLOW).values()
    assert known == join_blocks([first])


def test_no_record_is_no_map():
    assert maps_of([], FLOW) == {}


def at(offset):
    """How the error of the record at an offset begins."""
    topic = "mmtool-offset-runs.east.internal on west"
    return f"the record at offset {offset} in partition 0 of {topic} cannot be read:"


FIRST, SECOND, THIRD = blocks(runs=2 * MAX_RUNS + 1)
(ELSEWHERE,) = blocks(replace(ORDERS, source_cluster_id=ClusterId("elsewhere")), 1)


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (
            [record(0, FIRST), record(1, SECOND, value=encode_block(SECOND)[:-1] + b"\x00")],
            f"{at(1)} checksum",
        ),
        ([record(0, FIRST), record(1, FIRST, key=encode_key(SECOND.key))], f"{at(1)} the key of the record"),
        ([record(0, ELSEWHERE)], f"{at(0)} it was written for other clusters than"),
        (records(FIRST, THIRD), "a block is missing"),
    ],
    ids=["cut", "another block's key", "other clusters", "missing"],
)
def test_of_blocks_that_are_no_map_the_one_that_cannot_be_read_is_named(stored, why):
    with pytest.raises(RefusedError) as refused:
        maps_of(stored, FLOW)
    assert (refused.value.code, why in refused.value.message) == ("unreadable_state", True)


STRAY = LogRecord(0, 0, b"whose is this", b"not mmtool's", 0)


def struck_out(block):
    return LogRecord(0, 9, encode_key(block.key), None, 0)


@pytest.mark.parametrize(
    ("stored", "newest"),
    [
        (records(FIRST, SECOND), [SECOND]),
        (records(SECOND, FIRST), [SECOND]),
        ([*records(FIRST, SECOND), struck_out(FIRST)], [SECOND]),
        ([*records(FIRST, SECOND), struck_out(SECOND)], [FIRST]),
        ([*records(FIRST, SECOND), struck_out(FIRST), struck_out(SECOND)], []),
        ([*records(FIRST, SECOND), struck_out(SECOND), record(4, SECOND)], [SECOND]),
        ([STRAY, *records(FIRST), STRAY._replace(value=None)], [FIRST]),
    ],
    ids=["two", "turned", "old", "newest", "all", "anew", "stray"],
)
def test_the_newest_block_is_the_last_one_that_was_not_struck_out(monkeypatch, stored, newest):
    monkeypatch.setattr(state_log, "read_log", lambda *_: stored)
    assert [*read_newest_blocks(WEST, FLOW).values()] == newest
    live = {block.key for block in (FIRST, SECOND) if encode_key(block.key) in alive(stored)}
    assert read_block_keys(WEST, FLOW) == live


def alive(stored):
    return {key for key, one in {one.key: one for one in stored}.items() if one.value is not None}


def test_a_stray_record_is_refused_by_who_reads_only_keys(monkeypatch):
    monkeypatch.setattr(state_log, "read_log", lambda *_: [STRAY, *records(FIRST)])
    with pytest.raises(RefusedError, match=at(0)):
        read_block_keys(WEST, FLOW)


def test_who_reads_on_is_refused_again_and_again_by_what_cannot_be_read(monkeypatch):
    """``status --watch``: the second look must not pass over what the first one refused."""
    marks = [FailedOverRecord(topic, True, "operation", "ann@host-1", 1) for topic in ("a", "b", "c")]
    log = [LogRecord(0, at, mark.key, mark.encode(), 0) for at, mark in enumerate(marks)]
    damaged = log[1]._replace(value=marks[1].encode()[:-9])
    stored = [log[0], damaged, log[2]]
    monkeypatch.setattr(state_log, "read_log", lambda *_, start: stored[start.get(0, 0) :])
    view = ControlView()
    for _ in range(3):
        with pytest.raises(RefusedError, match=r"record at offset 1 in partition 0 of .*internal on west"):
            read_control(WEST, FLOW, view)
    stored.append(log[1]._replace(offset=3))
    assert read_control(WEST, FLOW, view).failed_over.keys() == {"a", "b", "c"}


@pytest.fixture
def runs(monkeypatch):
    """The runs topic, as a list; who begins behind its end begins at its beginning, as the library does."""
    log = []

    def read_log(_, __, start=None, patience_seconds=None):
        del patience_seconds
        begins = (start or {}).get(0, 0)
        return log[begins:] if begins <= len(log) else log[:]

    monkeypatch.setattr(log_reader, "read_log", read_log)
    return log


def test_who_follows_the_runs_reads_what_is_new(runs):
    first, second = blocks()
    followed = FollowedFlowState(ClusterSettings(alias="west", bootstrap_servers="nowhere:1"))
    for stored in ([first], [first, second]):
        runs[:] = records(*stored)
        assert list(followed.maps(FLOW).values()) == [join_blocks(stored)]


def test_who_follows_the_runs_forgets_those_of_a_topic_that_was_made_again(runs):
    """Deleted and derived again (``flow rebuild``) under a process that goes on: old and new blocks are not one map."""
    followed = FollowedFlowState(ClusterSettings(alias="west", bootstrap_servers="nowhere:1"))
    runs[:] = records(*blocks())
    followed.maps(FLOW)
    (anew,) = blocks(runs=7)
    runs[:] = records(anew)
    assert list(followed.maps(FLOW).values()) == [join_blocks([anew])]


def test_who_follows_the_control_topic_forgets_the_marks_of_one_that_was_made_again(runs, monkeypatch):
    monkeypatch.setattr(state_log, "read_log", log_reader.read_log)
    marks = [FailedOverRecord(topic, True, "operation", "ann@host-1", 1) for topic in ("a", "b", "c")]
    runs[:] = [LogRecord(0, at, mark.key, mark.encode(), 0) for at, mark in enumerate(marks[:2])]
    view = read_control(WEST, FLOW, ControlView(trails=PositionTrails()))
    runs[:] = [LogRecord(0, 0, marks[2].key, marks[2].encode(), 0)]
    anew = read_control(WEST, FLOW, view)
    assert (anew.failed_over.keys(), anew.end, anew.trails is None) == ({"c"}, 1, False)


@pytest.mark.parametrize("taken", [True, False])
def test_who_did_not_take_what_was_read_reads_it_again(runs, taken):
    runs += [LogRecord(0, at, key, b"value", 0) for at, key in enumerate((b"a", b"b", b"a"))]
    topic, forgotten = StoredTopic(WEST), []
    assert [record.offset for record in topic.follow("runs", forgotten.clear)] == [2, 1]
    if taken:
        topic.taken()
    assert [record.offset for record in topic.follow("runs", forgotten.clear)] == ([] if taken else [2, 1])
