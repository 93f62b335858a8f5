"""What stored batches and numbered appending promise, on the fakes and on a real broker alike."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from confluent_kafka import Producer

from kit.batches import ABORT, data, marker
from kit.memory_logs import FakeAppender, FakeBatches
from mmtool.config import ClusterSettings
from mmtool.kafka.admin.cluster_facts import KafkaCluster
from mmtool.kafka.batches import coalesce, decode, iter_batches
from mmtool.kafka.logs.log_parts import KafkaBatches
from mmtool.kafka.logs.sequence_append import KafkaAppender
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets
from mmtool.translation.types import TopicId, TopicPartition, UpstreamOffset

SECONDS = 20.0


@dataclass
class OnFake:
    """A cluster in memory."""

    port: FakeBatches = field(default_factory=FakeBatches)
    writer: FakeAppender = field(default_factory=FakeAppender)

    def create(self, topic):
        self.place = TopicPartition(topic, 0)
        return TopicId(topic)

    def fill(self):
        """Two records; three that were aborted, with their marker; two more."""
        aborted = data(2, 3, pid=5, transactional=True) + marker(5, 5, ABORT)
        self.port.logs[self.place] = data(0, 2) + aborted + data(6, 2)
        self.port.aborted[self.place] = [(5, 2)]

    def appender(self, name):
        del name
        return self.writer


class OnBroker:
    """A real one."""

    def __init__(self, lab):
        self.bootstrap = lab.bootstrap
        self.settings = ClusterSettings(alias="lab", bootstrap_servers=self.bootstrap)
        self.port = KafkaBatches(self.settings, SECONDS)

    def create(self, topic):
        create_topic(self.bootstrap, topic)
        self.place = TopicPartition(topic, 0)
        return KafkaCluster(self.settings, SECONDS).topics()[topic].topic_id

    def fill(self):
        writer = self.appender(self.place.topic)
        writer.append(self.place, ready(0, 2))
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.place.topic})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(self.place.topic, b"v", partition=0)
        assert producer.flush(SECONDS) == 0
        producer.abort_transaction(SECONDS)
        # the marker is written after the abort is answered
        wait_until(lambda: end_offsets(self.bootstrap, self.place.topic)[0] == 6, "the marker", SECONDS)
        writer.append(self.place, ready(6, 2))

    def appender(self, name):
        return KafkaAppender(self.settings, f"mmtool.diverged.{name}", SECONDS)


@pytest.fixture
def fake():
    return OnFake()


@pytest.fixture
def broker(fleet):
    return OnBroker(fleet["source"])


@pytest.fixture(params=["fake", pytest.param("broker", marks=pytest.mark.kafka)])
def side(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def topic_id(side, topic_name):
    return side.create(topic_name("batches"))


def offsets(side, topic_id, places, *, committed):
    views = side.port.batches(side.place, topic_id, places, committed=committed)
    return [record.offset for view in views if not view.header.is_control for record in decode(view)]


def test_committed_batches_are_those_of_no_aborted_transaction(side, topic_id):
    side.fill()
    assert offsets(side, topic_id, range(8), committed=True) == [0, 1, 6, 7]
    assert offsets(side, topic_id, range(8), committed=False) == [0, 1, 2, 3, 4, 6, 7]


def test_markers_are_given_to_whoever_reads_all(side, topic_id):
    side.fill()
    views = list(side.port.batches(side.place, topic_id, range(8), committed=False))
    assert [view.header.base_offset for view in views if view.header.is_control] == [5]


def test_a_range_is_given_with_the_whole_batches_around_it(side, topic_id):
    side.fill()
    assert offsets(side, topic_id, range(1, 7), committed=True) == [0, 1, 6, 7]
    assert offsets(side, topic_id, range(6, 7), committed=True) == [6, 7]


def test_of_an_empty_range_nothing_is_given(side, topic_id):
    side.fill()
    assert offsets(side, topic_id, range(8, 8), committed=True) == []


def ready(first, count):
    (batch,) = coalesce(
        list(iter_batches(data(first, count))),
        position=UpstreamOffset(0),
        max_batch_bytes=1 << 20,
        target_bytes=0,
    )
    return batch


def test_whoever_goes_on_sees_what_was_appended_before(side, topic_id, topic_name):
    del topic_id
    name = topic_name("op")
    first = side.appender(name)
    assert first.appended(side.place, 0) == 0
    first.append(side.place, ready(0, 2))
    first.append(side.place, ready(2, 3))
    second = side.appender(name)
    assert second.appended(side.place, 0) == 5
    second.append(side.place, ready(5, 1))
    assert side.appender(name).appended(side.place, 0) == 6


def test_what_another_operation_appended_is_not_ours(broker, topic_name):
    broker.create(topic_name("batches"))
    broker.appender(topic_name("op")).append(broker.place, ready(0, 2))
    assert broker.appender(topic_name("op")).appended(broker.place, 0) == 0


def test_whoever_was_replaced_appends_no_more(broker, topic_name):
    broker.create(topic_name("batches"))
    name = topic_name("op")
    first, second = broker.appender(name), broker.appender(name)
    first.append(broker.place, ready(0, 1))
    second.append(broker.place, ready(1, 1))
    with pytest.raises(Exception, match="another process claimed transactional id"):
        first.append(broker.place, ready(2, 1))


def test_what_was_sent_by_whoever_was_replaced_does_not_arrive_behind_the_look(broker, topic_name):
    """As out of the buffers of a broker that hung: it would be there twice, since it was not counted."""
    broker.create(topic_name("batches"))
    name = topic_name("op")
    first, second = broker.appender(name), broker.appender(name)
    first.append(broker.place, ready(0, 1))
    assert second.appended(broker.place, 0) == 1
    with pytest.raises(Exception, match="another process claimed transactional id"):
        first.append(broker.place, ready(1, 1))
    second.append(broker.place, ready(1, 1))
    assert broker.appender(name).appended(broker.place, 0) == 2
