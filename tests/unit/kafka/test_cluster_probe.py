"""What a cluster has refused, and what it refuses now, are told apart."""

from collections import deque

import pytest
from confluent_kafka import KafkaError, KafkaException

from mmtool.config import ClusterSettings
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.admin import cluster_facts
from mmtool.kafka.admin.cluster_facts import KafkaCluster
from mmtool.kafka.clients import HearingClient

PATIENCE_SECONDS = 20.0


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
    door = Door(heard := deque())
    monkeypatch.setattr(cluster_facts, "admin_client", lambda _: HearingClient(door, heard))

    door.heard = [KafkaError(KafkaError._AUTHENTICATION)]
    with pytest.raises(NotAuthorisedError):
        cluster.probe()
    door.fails, door.heard = False, [KafkaError(KafkaError._AUTHENTICATION)]
    assert cluster.probe() == "id"
    door.fails = True
    with pytest.raises(UnreachableError) as away:
        cluster.probe()
    assert not isinstance(away.value, NotAuthorisedError)
