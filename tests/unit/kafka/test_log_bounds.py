"""Of partitions that cannot be asked, or whose source dies: none costs another its answer, and little time."""

import asyncio
import time

import pytest

from kit.batches import PlainRecord, batch_of
from kit.mirror import SOURCE_ID, fetched
from mmtool.config import ClusterSettings
from mmtool.errors import NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka import patience
from mmtool.kafka.errors import CLOSED
from mmtool.kafka.logs import missing_times
from mmtool.kafka.logs.missing_times import first_missing_times
from mmtool.kafka.ports import Bounds, FirstMissing
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchAnswer
from mmtool.kafka.wire.metadata import EARLIEST, ListedOffset, PartitionLeader, TopicMetadata
from mmtool.kafka.wire.scan import Patience, read_bounds
from mmtool.translation.types import TopicId, TopicPartition

SETTINGS = ClusterSettings(alias="west", bootstrap_servers="west-1:9092")
ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("other", 0)
PATIENCE = Patience(answer=0.6, leader=0.2)
HANGS = "the broker takes the request and never answers"


class Brokers:
    """Two brokers as far as metadata and offsets go: ``orders-0`` is led by 1, ``other-0`` by 2.

    Attributes:
        topics: What metadata says of a topic as a whole, by name.
        leaders: Who leads; None for nobody.
        answers: What a leader answers for a partition, in turn, the last one for ever; else its bounds are 3 and 10.
        down: Brokers that do not answer.
    """

    alias = "west"

    def __init__(self):
        self.topics = {}
        self.leaders = {ORDERS: 1, OTHER: 2}
        self.answers = {}
        self.down, self.cause = {}, ""
        self.asked = []

    async def refresh(self, topics):
        if 0 in self.down:
            raise ConnectionLostError("no broker answers")
        return {name: self._metadata(name) for name in topics}

    def _metadata(self, name):
        code = self.topics.get(name, Code.NONE)
        there = [place for place in self.leaders if place.topic == name and not code]
        partitions = [PartitionLeader(place.partition, 0, self.leaders[place], 0) for place in there]
        return TopicMetadata(name, TopicId(f"id-{name}"), code, partitions)

    def leader(self, topic, partition):
        return self.leaders[TopicPartition(topic, partition)]

    async def send(self, node, request, *, purpose):
        del purpose
        self.asked.append(set(request.timestamps))
        if self.down.get(node) == HANGS:
            await asyncio.sleep(60)
        if node in self.down:
            raise ConnectionLostError(self.down[node], self.cause)
        return {place: self._answer(place, when) for place, when in request.timestamps.items()}

    def _answer(self, place, when):
        codes = self.answers.get(place, [Code.NONE])
        code = codes.pop(0) if len(codes) > 1 else codes[0]
        return ListedOffset(code, -1 if code else 3 if when == EARLIEST else 10)


@pytest.fixture
def brokers():
    return Brokers()


def asked(brokers, *places, within=PATIENCE):
    return asyncio.run(read_bounds(brokers, places or (ORDERS, OTHER), within, committed=False))


def test_a_partition_without_a_leader_has_its_own_reason_and_waits_a_moment(brokers):
    brokers.leaders[OTHER] = None
    began = time.monotonic()
    found = asked(brokers, within=Patience(answer=30, leader=0.2))
    assert found == {ORDERS: Bounds(3, 10)}
    assert isinstance(found.failed[OTHER], UnreachableError)
    assert "other-0" in found.failed[OTHER].message
    assert "no leader" in found.failed[OTHER].message
    assert time.monotonic() - began < 10


def test_a_name_that_no_cluster_takes_is_not_asked_about(brokers):
    long = TopicPartition("x" * 256, 0)
    found = asked(brokers, ORDERS, long)
    assert found == {ORDERS: Bounds(3, 10)}
    assert isinstance(found.failed[long], RefusedError)
    assert "longer than Kafka's limit of 249" in found.failed[long].message
    assert all(long not in places for places in brokers.asked)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "tëst", ".", ".."])
def test_nor_is_one_with_characters_that_kafka_does_not_allow(brokers, name):
    found = asked(brokers, ORDERS, TopicPartition(name, 0))
    assert found == {ORDERS: Bounds(3, 10)}
    assert "Kafka allows letters" in found.failed[TopicPartition(name, 0)].message


@pytest.mark.parametrize("by", ["metadata", "its leader alone"])
def test_a_topic_that_is_denied_costs_itself(brokers, by):
    if by == "metadata":
        brokers.topics["other"] = Code.TOPIC_AUTHORIZATION_FAILED
    else:
        brokers.answers[OTHER] = [Code.TOPIC_AUTHORIZATION_FAILED]
    found = asked(brokers)
    assert found == {ORDERS: Bounds(3, 10)}
    assert isinstance(found.failed[OTHER], NotAuthorisedError)
    assert "DESCRIBE on topic other" in found.failed[OTHER].message


@pytest.mark.parametrize("is_deleted", [False, True], ids=["not there", "deleted between two answers"])
def test_a_topic_that_is_not_there_is_left_out_without_a_reason(brokers, is_deleted):
    if is_deleted:
        brokers.answers[OTHER] = [Code.UNKNOWN_TOPIC_OR_PARTITION]
    else:
        brokers.topics["other"] = Code.UNKNOWN_TOPIC_OR_PARTITION
    found = asked(brokers, ORDERS, OTHER, TopicPartition("orders", 7))
    assert (found, found.failed) == ({ORDERS: Bounds(3, 10)}, {})


@pytest.mark.long
@pytest.mark.parametrize("why", [HANGS, "refused"])
def test_a_broker_that_does_not_answer_costs_what_it_leads(brokers, why):
    brokers.down[2] = why
    found = asked(brokers)
    assert (found, list(found.failed)) == ({ORDERS: Bounds(3, 10)}, [OTHER])
    assert sum(ORDERS in places for places in brokers.asked) == 2  # once for its start, once for its end


def test_where_another_broker_leads_soon_that_one_is_asked(brokers, monkeypatch):
    monkeypatch.setattr(patience, "_LEAST_SECONDS", 0.1)
    brokers.down[2] = HANGS
    refresh = brokers.refresh

    async def elect(topics):
        if any(OTHER in places for places in brokers.asked):
            brokers.leaders[OTHER] = 1
        return await refresh(topics)

    brokers.refresh = elect
    assert asked(brokers) == {ORDERS: Bounds(3, 10), OTHER: Bounds(3, 10)}


@pytest.mark.parametrize(
    ("timeout", "waits", "a_try"), [(1, 1, 1), (2, 2, 2), (8, 5, 2), (30, 15, 5), (120, 15, 5)]
)
def test_a_short_time_is_used_whole_and_of_a_long_one_enough_for_an_election(timeout, waits, a_try):
    assert patience.seconds_for_each(timeout) == waits
    assert patience.seconds_of_a_try(waits) == a_try


def test_an_answer_that_passes_is_asked_again(brokers):
    brokers.answers[OTHER] = [Code.NOT_LEADER_OR_FOLLOWER, Code.OFFSET_NOT_AVAILABLE, Code.NONE]
    assert asked(brokers) == {ORDERS: Bounds(3, 10), OTHER: Bounds(3, 10)}


def test_a_cluster_of_which_no_broker_answers_is_unreachable(brokers):
    brokers.down[0] = "no broker answers"
    with pytest.raises(UnreachableError):
        asked(brokers)


def test_who_needs_all_of_them_is_told_why_one_is_missing(brokers):
    brokers.leaders[OTHER] = None
    with pytest.raises(UnreachableError, match="other-0"):
        asked(brokers).complete()
    assert asked(brokers, ORDERS).complete() == {ORDERS: Bounds(3, 10)}


@pytest.mark.parametrize("how", ["topic", "partition"])
def test_one_that_a_late_broker_s_metadata_does_not_show_yet_is_asked_again(brokers, how):
    refresh, calls = brokers.refresh, []
    if how == "topic":
        brokers.topics["other"] = Code.UNKNOWN_TOPIC_OR_PARTITION
    else:
        del brokers.leaders[OTHER]

    async def learn(topics):
        calls.append(topics)
        if len(calls) > 1:
            brokers.topics.clear()
            brokers.leaders[OTHER] = 2
        return await refresh(topics)

    brokers.refresh = learn
    assert asked(brokers) == {ORDERS: Bounds(3, 10), OTHER: Bounds(3, 10)}


@pytest.mark.long
def test_one_that_is_not_there_costs_a_few_seconds_and_not_all_the_patience(brokers):
    brokers.topics["other"] = Code.UNKNOWN_TOPIC_OR_PARTITION
    began = time.monotonic()
    assert asked(brokers, within=Patience(answer=30, leader=30)) == {ORDERS: Bounds(3, 10)}
    assert time.monotonic() - began < 10


def test_the_cause_of_a_lost_answer_gives_the_remedy(brokers):
    brokers.down[2], brokers.cause = "broker 2 closed the connection", CLOSED
    assert "west.security.protocol" in asked(brokers).failed[OTHER].remedy


EAST = ClusterSettings(alias="east", bootstrap_servers="nowhere:1")


class Dying:
    """A cluster that introduces itself, and whose brokers do not answer."""

    async def start(self):
        pass

    async def close(self):
        pass

    async def refresh(self, _):
        raise ConnectionLostError("connection refused")

    def leader(self, *_):
        return None


class Telling(Dying):
    """One whose partition begins with a record of this time."""

    def __init__(self, timestamp):
        self.timestamp = timestamp

    async def refresh(self, _):
        return {}

    def leader(self, *_):
        return 1

    async def send(self, *_, **__):
        batch = batch_of([PlainRecord(5, self.timestamp), PlainRecord(6, 9_000)]).write()
        return FetchAnswer(0, Code.NONE, [fetched(batch, end=7)])


@pytest.mark.parametrize(("timestamp", "told"), [(7_000, [7_000]), (-1, [])])
def test_a_record_that_carries_no_time_tells_none(timestamp, told, monkeypatch):
    """Else it had waited since 1970, and the source would be about to delete it at any moment."""
    monkeypatch.setattr(missing_times, "wire_cluster", lambda *_, **__: Telling(timestamp))
    times = first_missing_times(EAST, [FirstMissing("orders", SOURCE_ID, 0, 5)], 1.0, read_committed=True)
    assert list(times.values()) == told


def test_of_a_source_whose_brokers_are_gone_by_now_nothing_is_told(monkeypatch):
    monkeypatch.setattr(missing_times, "wire_cluster", lambda *_, **__: Dying())
    places = [FirstMissing("orders", TopicId("id"), 0, 5)]
    assert first_missing_times(EAST, places, 1.0, read_committed=True) == {}


def test_a_broker_that_does_not_answer_is_waited_for_no_longer_than_the_look_may_take(monkeypatch):
    class Hanging(Telling):
        async def send(self, *_, **__):
            await asyncio.sleep(60)

    monkeypatch.setattr(missing_times, "wire_cluster", lambda *_, **__: Hanging(0))
    began = time.monotonic()
    places = [FirstMissing("orders", TopicId("id"), 0, 5)]
    assert first_missing_times(EAST, places, 0.3, read_committed=True) == {}
    assert time.monotonic() - began < 20
