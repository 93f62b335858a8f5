"""Looking at logs: what is only late is waited for, and never taken for gone or for the end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mmtool.kafka.wire import cluster, scan
from mmtool.kafka.wire.cluster import ConnectionLostError, OutOfRangeError, UnreadableLogError
from mmtool.kafka.wire.codes import Code
from mmtool.testing.batches import data
from mmtool.testing.mirror import SOURCE_ID, fetched
from mmtool.translation.types import TopicPartition

PLACE = TopicPartition("orders", 0)


class Leader:
    """The only broker: gives these answers in turn, the last of them for ever."""

    alias = "west"

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    async def refresh(self, topics):
        del topics

    def topic_id(self, _topic):
        return SOURCE_ID

    def leader(self, *_place):
        return 1

    def check_denied(self, code, what):
        pass

    async def send_to_leader(self, *_request, **_purpose):
        return SimpleNamespace(partitions=[self.next()])

    async def send(self, _node, _request, **_purpose):
        return {PLACE: self.next()}

    def next(self):
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(scan, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(cluster, "_BACKOFF_SECONDS", 0)


def refused(code):
    return fetched(end=0)._replace(error_code=code)


def read(*answers, stop=6, **how):
    """Base offsets of the batches from 0 to ``stop``, or what the reading ended with."""

    async def reading():
        found = scan.read_range(
            Leader(*answers), *PLACE[:1], SOURCE_ID, 0, 0, stop, read_committed=False, **how
        )
        return [view.header.base_offset async for view in found]

    try:
        return asyncio.run(reading())
    except ConnectionLostError as error:
        return type(error), str(error)


LOG = fetched(data(0, 3), data(3, 3), end=6)


@pytest.mark.parametrize(
    "code", [Code.NOT_LEADER_OR_FOLLOWER, Code.KAFKA_STORAGE_ERROR, Code.UNKNOWN_SERVER_ERROR]
)
def test_a_leader_that_moves_or_stumbles_is_asked_again(code):
    assert read(refused(code), refused(code), LOG) == [0, 3]


def test_a_log_whose_leader_cannot_be_found_is_not_read_and_not_empty():
    told = "orders-0 of west cannot be read at offset 0: NOT_LEADER_OR_FOLLOWER"
    assert read(*[refused(Code.NOT_LEADER_OR_FOLLOWER)] * 60) == (ConnectionLostError, told)


@pytest.mark.parametrize(
    ("code", "error"),
    [(Code.OFFSET_OUT_OF_RANGE, OutOfRangeError), (Code.CORRUPT_MESSAGE, UnreadableLogError)],
)
def test_what_no_asking_brings_back_is_told_at_once(code, error):
    assert read(refused(code), LOG) == (error, f"orders-0 of west: {code.name}")
