"""A client that remembers a leader's old epoch is replaced at once, not asked until patience is over."""

import time
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException, Uuid

from mmtool.config import ClusterSettings
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.cluster_facts import KafkaCluster
from mmtool.kafka.ports import Bounds
from mmtool.plan.topics import TopicFacts
from mmtool.translation.types import TopicPartition

PLACE = TopicPartition("orders", 0)
PATIENCE_SECONDS = 20.0


class Client:
    """As much of the library's as is asked for offsets: fenced, or with an answer."""

    def __init__(self, *, fenced):
        self.fenced, self.asked = fenced, 0

    def list_offsets(self, wanted, **_):
        self.asked += 1
        answer = Future()
        if self.fenced:
            answer.set_exception(KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH)))
        else:
            answer.set_result(type("Offset", (), {"offset": 7})())
        return dict.fromkeys(wanted, answer)


def test_ends_are_asked_of_a_new_client_without_waiting(monkeypatch):
    cluster = KafkaCluster(ClusterSettings(alias="a", bootstrap_servers="127.0.0.1:1"), PATIENCE_SECONDS)
    old, new = Client(fenced=True), Client(fenced=False)
    monkeypatch.setattr(cluster, "_client", old)
    monkeypatch.setattr(cluster, "_new_client", lambda: new)
    began = time.monotonic()
    assert cluster.bounds([PLACE]) == {PLACE: Bounds(7, 7)}
    assert (old.asked, time.monotonic() - began < PATIENCE_SECONDS / 4) == (1, True)


class Door:
    """As much of the library's as is asked for metadata; what it hears is handed out by `poll`, as the library does."""

    def __init__(self, said):
        self.said, self.heard, self.fails = said, [], True

    def list_topics(self, timeout):
        if self.fails:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return type("Metadata", (), {"cluster_id": "id"})()

    def poll(self, timeout):
        self.said += self.heard
        self.heard = []


def test_a_refusal_that_is_over_is_not_told_of_a_later_outage(monkeypatch):
    cluster = KafkaCluster(ClusterSettings(alias="a", bootstrap_servers="127.0.0.1:1"), PATIENCE_SECONDS)
    door = Door(cluster._said)
    monkeypatch.setattr(cluster, "_client", door)

    door.heard = [KafkaError(KafkaError._AUTHENTICATION)]
    with pytest.raises(NotAuthorisedError):
        cluster.probe()
    door.fails, door.heard = False, [KafkaError(KafkaError._AUTHENTICATION)]
    assert cluster.probe() == "id"
    door.fails = True
    with pytest.raises(UnreachableError) as away:
        cluster.probe()
    assert not isinstance(away.value, NotAuthorisedError)


@pytest.mark.parametrize(
    ("uuid", "known_as"), [(Uuid(0, 0), "orders"), (Uuid(0, 1), "AAAAAAAAAAAAAAAAAAAAAQ")]
)
def test_a_topic_without_an_id_is_known_by_its_name_as_pumps_know_it(monkeypatch, uuid, known_as):
    """Brokers before 2.8 give none; what was mirrored looked like another topic to everybody but its pump."""
    cluster = KafkaCluster(ClusterSettings(alias="a", bootstrap_servers="127.0.0.1:1"), PATIENCE_SECONDS)
    described = type("Described", (), {"topic_id": uuid, "partitions": [None]})()
    listed = type("Metadata", (), {"topics": {"orders": type("Listed", (), {"error": None})()}})()
    monkeypatch.setattr(cluster, "_metadata", lambda _: listed)
    monkeypatch.setattr(cluster, "_described", lambda names, _: dict.fromkeys(names, described))
    assert cluster.topics() == {"orders": TopicFacts("orders", known_as, 1)}
