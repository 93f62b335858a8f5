"""A topic of ours is read to its end, or it is said that it cannot be; so are records that are not to be trusted."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, replace

import pytest
from confluent_kafka import KafkaError, KafkaException

from kit.maps import blocks_of
from kit.runs import ORDERS
from mmtool.config import ClusterSettings
from mmtool.errors import RefusedError, UnreachableError
from mmtool.kafka.state import log_reader, state_log
from mmtool.kafka.state.control_view import ControlView
from mmtool.kafka.state.flow_state import FollowedFlowState
from mmtool.kafka.state.journal import KafkaJournal
from mmtool.kafka.state.log_reader import LogRecord, StoredTopic, _until_the_end
from mmtool.kafka.state.state_log import maps_of, read_control
from mmtool.plan.flow.position_trails import PositionTrails
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.translation.block_codec import encode_block, encode_key
from mmtool.translation.blocks import MAX_RUNS
from mmtool.translation.partition_map import join_blocks
from mmtool.translation.types import ClusterId

WEST = ClusterSettings(alias="west", bootstrap_servers="nowhere:1")
MOST = 100_000
"""Polls after which a test ends that would not."""


@dataclass
class Message:
    """As much of the library's as is looked at."""

    partition_: int
    offset_: int = 0
    error_: KafkaError | None = None

    def partition(self):
        return self.partition_

    def offset(self):
        return self.offset_

    def error(self):
        return self.error_

    def key(self):
        return b"key"

    def value(self):
        return b"value"

    def timestamp(self):
        return 1, 7

    def headers(self):
        return None


def end_of(partition, offset=0):
    return Message(partition, offset, KafkaError(KafkaError._PARTITION_EOF))


class Consumer:
    """Hands out these messages, one at a time; leaders are asked for their ends and give these answers in turn."""

    def __init__(self, messages, ends=()):
        self.messages, self.polls = iter(messages), 0
        self.ends = iter(ends)

    def consume(self, count, _):
        self.polls += 1
        assert self.polls < MOST, "it would be read for ever"
        return [] if count > 1 else list(itertools.islice(self.messages, 1))

    def get_watermark_offsets(self, *_place, **_options):
        end = next(self.ends, 0)
        if isinstance(end, int):
            return 0, end
        raise KafkaException(end)


def read(messages, *partitions, ends=(), stall_seconds=30.0):
    return [
        (record.partition, record.offset)
        for record in _until_the_end(
            Consumer(messages, ends), WEST, "mmtool-runs", set(partitions), stall_seconds
        )
    ]


def test_every_partition_is_read_to_its_end():
    assert read([Message(0, 5), end_of(0), Message(1, 6), end_of(1)], 0, 1) == [(0, 5), (1, 6)]


def test_a_partition_without_a_leader_is_told_of_while_others_are_written_to():
    """A flow that runs writes its books each second: that must not count as an answer of the partition that is away."""
    busy = itertools.chain([end_of(0)], (Message(0, offset) for offset in itertools.count()))
    with pytest.raises(UnreachableError, match="west stopped answering while mmtool-runs was read"):
        read(busy, 0, 1, stall_seconds=0.05)


CANNOT_TELL = KafkaError(KafkaError.OFFSET_NOT_AVAILABLE)
# librdkafka's word while no broker has told it the leader
CUT_OFF = KafkaError(KafkaError._UNKNOWN_PARTITION)


@pytest.mark.parametrize("told", [(8,), (CANNOT_TELL, CANNOT_TELL, 8), (CUT_OFF, CUT_OFF, 8)])
def test_what_a_leader_that_was_elected_a_moment_ago_does_not_show_yet_is_read_all_the_same(told):
    """Else an operation that is past its return would seem to be before it (KIP-207)."""
    seems_to_end = [Message(0, 5), end_of(0, 6)]
    log = [*seems_to_end, Message(0, 6), Message(0, 7), end_of(0, 8), Message(0, 8)]
    assert read(log, 0, ends=told) == [(0, 5), (0, 6), (0, 7)]


def test_what_comes_while_a_busy_log_is_read_to_its_end_is_not_waited_for():
    busy = itertools.chain([end_of(0, 3)], (Message(0, offset) for offset in itertools.count(3)))
    assert read(busy, 0, ends=[6]) == [(0, 3), (0, 4), (0, 5)]


def test_a_leader_that_never_tells_where_its_log_ends_is_told_of():
    with pytest.raises(UnreachableError, match="west stopped answering while mmtool-runs was read"):
        read([Message(0, 5), end_of(0, 6)], 0, ends=itertools.repeat(CANNOT_TELL), stall_seconds=0.05)


def test_who_may_not_ask_where_a_log_ends_is_told_so():
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        read([end_of(0, 6)], 0, ends=[KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)])


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


def why(*stored):
    with pytest.raises(RefusedError) as refused:
        maps_of(stored, FLOW)
    assert refused.value.code == "unreadable_state"
    return refused.value.message


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


def test_of_many_blocks_the_one_that_cannot_be_read_is_named():
    first, second = blocks()
    assert f"{at(1)} checksum" in why(
        record(0, first), record(1, second, value=encode_block(second)[:-1] + b"\x00")
    )


def test_a_block_under_another_block_s_key_is_refused():
    first, second = blocks()
    assert f"{at(1)} the key of the record does not fit its value" in why(
        record(0, first), record(1, first, key=encode_key(second.key))
    )


def test_a_block_of_other_clusters_is_refused():
    (block,) = blocks(replace(ORDERS, source_cluster_id=ClusterId("elsewhere")), 1)
    assert f"{at(0)} it was written for other clusters than" in why(record(0, block))


def test_a_missing_block_is_refused():
    first, _, third = blocks(runs=2 * MAX_RUNS + 1)
    assert "a block is missing" in why(*records(first, third))


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
