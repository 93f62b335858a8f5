"""A topic of ours is read to its end, or it is said that it cannot be."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError

from mmtool.config import ClusterSettings
from mmtool.errors import UnreachableError
from mmtool.kafka import log_reader
from mmtool.kafka.journal import KafkaJournal
from mmtool.kafka.log_reader import _until_the_end

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


def end_of(partition):
    return Message(partition, error_=KafkaError(KafkaError._PARTITION_EOF))


class Consumer:
    """Hands out these messages, one at a time."""

    def __init__(self, messages):
        self.messages, self.polls = iter(messages), 0

    def consume(self, count, _):
        self.polls += 1
        assert self.polls < MOST, "it would be read for ever"
        return [] if count > 1 else list(itertools.islice(self.messages, 1))


def read(messages, *partitions):
    return [
        (record.partition, record.offset)
        for record in _until_the_end(Consumer(messages), WEST, "mmtool-runs", set(partitions))
    ]


def test_every_partition_is_read_to_its_end():
    assert read([Message(0, 5), end_of(0), Message(1, 6), end_of(1)], 0, 1) == [(0, 5), (1, 6)]


def test_a_partition_without_a_leader_is_told_of_while_others_are_written_to(monkeypatch):
    """A flow that runs writes its books each second: that must not count as an answer of the partition that is away."""
    monkeypatch.setattr(log_reader, "_STALL_SECONDS", 0.05)
    busy = itertools.chain([end_of(0)], (Message(0, offset) for offset in itertools.count()))
    with pytest.raises(UnreachableError, match="west stopped answering while mmtool-runs was read"):
        read(busy, 0, 1)


def test_a_journal_is_waited_for_as_long_as_the_command_line_says():
    silent = ClusterSettings(alias="west", bootstrap_servers="127.0.0.1:1")
    began = time.monotonic()
    with pytest.raises(UnreachableError):
        KafkaJournal(silent, 1, 0.5).entries()
    assert time.monotonic() - began < 5
