"""What a partition is held by, and what replicate, and a drain, make of topics that have failed over."""

import asyncio

import pytest

from kit.mirror import fetched, mirror_of
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.request import UnsupportedByBrokerError
from mmtool.kafka.wire.transactions import DescribedProducers, ProducerState
from mmtool.plan.records.documents import State
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.replication.driver.engine import Outcome
from mmtool.replication.ownership.checks import all_failed_over
from mmtool.replication.pump.log_watch import LONG_MS, OpenTransactionWatch
from mmtool.replication.topics.mirror_topics import TopicsView
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
    assert then.startswith("held at offset 4: producer 77, which wrote last at 2026-09-21T11:13:20Z, has")
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


def mark(topic, since_ms=1_780_000_000_000, operation="fo-7"):
    return FailedOverRecord(topic, failed_over=True, operation_id=operation, by="ann@east", since_ms=since_ms)


def marks(*topics):
    return {topic: mark(topic) for topic in topics}


def test_a_flow_is_refused_when_every_topic_that_it_means_has_failed_over():
    refusal = all_failed_over("east->west", ["bills", "orders"], marks("orders", "bills", "others"))
    assert refusal.message.endswith(" by ann@east since 2026-05-28T20:26:40Z (operation fo-7)")
    assert (refusal.code, refusal.exit_code) == ("failed_over", 3)
    assert all(way in refusal.remedy for way in ("failover failback", "failover release"))


def test_of_several_operations_the_last_one_is_named():
    known = {"orders": mark("orders"), "bills": mark("bills", 1_790_000_000_000, "fo-9")}
    assert "operation fo-9" in all_failed_over("east->west", ["bills", "orders"], known).message


@pytest.mark.parametrize("topics", [[], ["orders", "bills"], ["bills"]])
def test_a_flow_with_a_topic_that_has_not_failed_over_is_mirrored_and_one_without_topics_waits(topics):
    assert all_failed_over("east->west", topics, marks("orders")) is None


def rows(*states):
    flow = {"source": "east", "target": "west", "topic": "orders"}
    return [
        flow | {"partition": n, "state": state, "reason": f"why {state}"} for n, state in enumerate(states)
    ]


@pytest.mark.parametrize(
    ("states", "code", "word"),
    [
        ([State.CAUGHT_UP, State.FAILED_OVER], 6, "failed_over"),
        ([State.FAILED_OVER, State.FAILED_OVER], 3, "failed_over"),
        ([State.CAUGHT_UP, State.HALTED, State.FAILED_OVER], 6, "partly_applied"),
        ([State.HALTED, State.FAILED_OVER], 3, "refused"),
        ([State.CAUGHT_UP, State.HALTED], 6, "partly_applied"),
    ],
)
def test_some_of_a_flow_failed_over_ends_with_what_remains_and_all_of_it_is_a_refusal(states, code, word):
    error = Outcome(rows(*states)).error
    assert (error.exit_code, error.code) == (code, word)
    remaining = set(states) - {State.CAUGHT_UP}
    assert all(f"orders-{states.index(state)} of east->west" in error.message for state in remaining)


@pytest.mark.parametrize(
    ("states", "changes", "message"),
    [
        ([State.HALTED], {}, "orders-0 of east->west is halted: why halted"),
        ([State.HALTED], {"partition": None}, "orders of east->west is halted: why halted"),
        ([State.FAILED_OVER], {"partition": None, "topic": None}, "why failed_over"),
        ([State.HALTED] * 2 + [State.FAILED_OVER], {}, "2 of 3 partitions are halted, for example orders-0 "),
        ([State.HALTED] * 2, {"partition": None}, "2 of 2 partitions or topics are halted, for example o"),
    ],
)
def test_the_message_names_the_only_partition_or_an_example(states, changes, message):
    found = rows(*states)
    found[0].update(changes)
    said = Outcome(found).error.message
    assert said.startswith(message)
    assert all(f"why {state}" in said for state in states)


def test_every_flow_whose_topics_have_all_failed_over_is_named():
    found = rows(State.FAILED_OVER, State.FAILED_OVER)
    for row, flow in zip(found, ("a->b", "c->b"), strict=True):
        row.update({"topic": None, "partition": None, "reason": f"{flow}: all topics failed over"})
    assert Outcome(found).error.message == "a->b: all topics failed over; c->b: all topics failed over"


@pytest.mark.parametrize("states", [[], [State.CAUGHT_UP, State.PAUSED]])
def test_what_is_paused_is_no_failure(states):
    assert Outcome(rows(*states)).error is None


def test_a_topic_that_cannot_be_mirrored_is_not_called_halted_once_it_has_failed_over():
    view = TopicsView(refused={"orders": "its target topic was deleted", "bills": "likewise"})
    view.set_aside(marks("orders"))
    assert (view.refused, view.set_apart) == ({"bills": "likewise"}, ["orders"])
