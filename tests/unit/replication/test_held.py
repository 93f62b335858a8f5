"""A partition whose committed end stands still says who holds it, once that has taken long, and takes it back."""

from __future__ import annotations

import asyncio

import pytest

from kit.mirror import fetched, mirror_of
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.request import UnsupportedByBrokerError
from mmtool.kafka.wire.transactions import DescribedProducers, ProducerState
from mmtool.replication.pump.open_transactions import LONG_MS, OpenTransactionWatch
from mmtool.translation.types import TopicPartition

NOW_MS = 1_790_000_000_000
AT = TopicPartition("orders", 0)


class Source:
    """A leader that remembers producers, or does not tell."""

    def __init__(self, *producers, error=None, code=Code.NONE):
        self.producers, self.error, self.code, self.asked = list(producers), error, code, 0

    async def send_to_leader(self, topic, partition, request, *, purpose):
        self.asked += 1
        if self.error is not None:
            raise self.error
        return {TopicPartition(topic, partition): DescribedProducers(self.code, self.producers)}


def producer(number, open_from, wrote_ms):
    return ProducerState(number, 0, 5, wrote_ms, 0, open_from)


def told(source, *steps):
    """The reason after each step: an answer's (end, high watermark) or None for a look, and the seconds passed."""
    held, mirror, said = OpenTransactionWatch(source), mirror_of(), []

    async def play():
        now_ms = NOW_MS
        for ends, seconds in steps:
            now_ms += seconds * 1000
            if ends is not None:
                held.saw(mirror, fetched(end=ends[0], high_watermark=ends[1]), now_ms)
            await held.look(now_ms)
            said.append(mirror.reason)

    asyncio.run(play())
    return said


def test_an_old_transaction_is_named_with_its_producer_and_when_it_wrote_last():
    source = Source(producer(5, 2, NOW_MS), producer(77, 4, NOW_MS - 3 * 3_600_000))
    first, then = told(source, ((4, 9), 0), (None, 6))
    assert first == ""
    assert then.startswith(
        "held at offset 4: producer 77, which wrote last at 2026-09-21T11:13:20Z, has an open "
    )
    assert "abort --topic orders --partition 0 --start-offset 4`" in then


def test_a_young_transaction_is_nobody_s_business_until_it_is_old():
    source = Source(producer(77, 4, NOW_MS))
    said = told(source, ((4, 9), 0), (None, 6), (None, 30), (None, LONG_MS // 1000))
    assert said[:3] == ["", "", ""]
    assert said[3].startswith("held at offset 4: producer 77")


def test_it_is_taken_back_when_the_end_moves_and_nobody_is_asked_twice():
    source = Source(producer(77, 4, 0))
    said = told(source, ((4, 9), 0), (None, 6), (None, 20), ((9, 9), 1), (None, 60))
    assert (bool(said[2]), said[3], said[4], source.asked) == (True, "", "", 1)


def test_the_next_transaction_is_another_one():
    said = told(Source(producer(77, 4, 0)), ((4, 9), 0), (None, 6), ((6, 9), 1), (None, 6))
    assert (bool(said[1]), said[2], said[3]) == (True, "", "")


@pytest.mark.parametrize(
    "source",
    [
        Source(error=ConnectionLostError("gone")),
        Source(error=UnsupportedByBrokerError("old")),
        Source(code=Code.TOPIC_AUTHORIZATION_FAILED),
        Source(producer(77, 8, 0)),
    ],
    ids=["away", "before 2.8", "denied", "another transaction"],
)
def test_where_the_leader_does_not_tell_it_is_said_later_and_without_a_name(source):
    early, late = told(source, ((4, 9), 6), (None, LONG_MS // 1000))
    assert early == ""
    assert late.startswith("held at offset 4: a producer has an open transaction on the source")


def test_committed_to_the_end_is_held_by_nobody():
    source = Source()
    assert told(source, ((9, 9), 0), (None, 600)) == ["", ""]
    assert source.asked == 0


def test_the_reason_of_a_halt_outlives_what_was_held():
    held, mirror = OpenTransactionWatch(Source(producer(77, 4, 0))), mirror_of()
    held.saw(mirror, fetched(end=4, high_watermark=9), NOW_MS)
    asyncio.run(held.look(NOW_MS + 6_000))
    mirror.halt("denied")
    held.saw(mirror, fetched(end=9, high_watermark=9), NOW_MS)
    assert mirror.reason == "denied"
