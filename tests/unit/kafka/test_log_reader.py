"""A topic of ours is read to its end, or it is said that it cannot be."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError, KafkaException

from mmtool.config import ClusterSettings
from mmtool.errors import UnreachableError
from mmtool.kafka.state.journal import KafkaJournal
from mmtool.kafka.state.log_reader import _until_the_end

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
