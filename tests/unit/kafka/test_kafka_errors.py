"""Every code of the installed library is sorted; what a cluster has refused, and refuses now, are told apart."""

from collections import deque

import pytest
from confluent_kafka import KafkaError, KafkaException

from mmtool.config import ClusterSettings
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.admin import cluster_facts
from mmtool.kafka.admin.cluster_facts import KafkaCluster
from mmtool.kafka.clients import HearingClient
from mmtool.kafka.errors import (
    _NAMES,
    CLOSED,
    CUT_SHORT,
    KINDS,
    NO_LEADER,
    OAUTH_REFUSED,
    OTHER_CLUSTER,
    REMEDIES,
    UNPROVEN,
    ErrorSubject,
    failure_of,
    kind_of,
    unreachable,
)
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code

CODES = {
    name: getattr(KafkaError, name)
    for name in dir(KafkaError)
    if not name.startswith("__") and isinstance(getattr(KafkaError, name), int)
}
CLUSTER = ClusterSettings(alias="east", bootstrap_servers="east:9092")


def test_every_code_that_the_library_knows_is_sorted():
    assert CODES.keys() - KINDS.keys() == set()


def test_no_code_is_sorted_twice_or_misspelt():
    assert KINDS.keys() - CODES.keys() == set()


def test_a_code_of_a_newer_broker_is_nobodys_fault_we_know_of():
    assert kind_of(9_999) is ErrorSubject.BROKEN


@pytest.mark.parametrize(
    ("code", "exit_code", "word"),
    [
        (KafkaError._TRANSPORT, 9, "unreachable"),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, 9, "unreachable"),
        (KafkaError._SSL, 9, "not_authorised"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, 9, "not_authorised"),
        (KafkaError.NON_EMPTY_GROUP, 3, "refused"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, 3, "refused"),
        (KafkaError._INVALID_ARG, 2, "config"),
        (KafkaError._FATAL, 1, "unexpected"),
    ],
)
def test_an_error_ends_with_the_contracts_code_and_says_where(code, exit_code, word):
    failure = failure_of(CLUSTER, KafkaError(code), "reading orders")
    assert (failure.exit_code, failure.code) == (exit_code, word)
    assert "east" in failure.message
    assert ("reading orders" in failure.message) == (code != KafkaError._SSL)
    assert failure.remedy


@pytest.mark.parametrize(
    ("code", "said", "remedy"),
    [
        (KafkaError._TRANSPORT, "reading orders failed", "check east.bootstrap.servers, and that the"),
        (KafkaError._RESOLVE, "reading orders failed", "check the host names in east.bootstrap.servers"),
        (KafkaError.LEADER_NOT_AVAILABLE, "reading orders failed", "every partition of the topic has a"),
        (KafkaError.NOT_ENOUGH_REPLICAS, "reading orders failed", "start the brokers of east that are down"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "denies reading orders", "grant mmtool's principal the"),
        (KafkaError._AUTHENTICATION, "refuses the credentials", "check user name, password and sasl.mech"),
        (KafkaError.UNSUPPORTED_SASL_MECHANISM, "refuses the login", "set east.sasl.mechanism to a"),
        (KafkaError._SSL, "TLS failed", "check east.security.protocol and east.ssl.*"),
        (KafkaError.NON_EMPTY_GROUP, "reading orders failed", "stop the consumers of the group on east"),
        (KafkaError.UNSTABLE_OFFSET_COMMIT, "reading orders failed", "wait until the open transaction ends"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "reading orders failed", "check whether the topic was deleted"),
        (KafkaError.GROUP_ID_NOT_FOUND, "reading orders failed", "check the name of the group"),
        (KafkaError.MSG_SIZE_TOO_LARGE, "reading orders failed", "raise max.message.bytes of the topic"),
        (KafkaError._FATAL, "reading orders failed", "run the same command with --debug"),
    ],
)
def test_each_cause_has_its_own_sentence_and_remedy(code, said, remedy):
    failure = failure_of(CLUSTER, KafkaError(code), "reading orders")
    assert said in failure.message
    assert remedy in failure.remedy


def test_every_cause_of_the_remedies_is_an_error_of_kafka_or_one_of_mmtools_own():
    known = (
        CODES.keys() | Code.__members__.keys() | {CUT_SHORT, OTHER_CLUSTER, CLOSED, OAUTH_REFUSED, UNPROVEN}
    )
    assert REMEDIES.keys() - known == set()


def test_no_cause_has_two_remedies():
    names = [name for names in _NAMES.values() for name in names.split()]
    assert len(names) == len(REMEDIES)


def test_a_partition_without_a_leader_is_not_blamed_on_the_bootstrap_servers():
    lost = ConnectionLostError("orders-0 of east has no leader", NO_LEADER)
    assert "has a leader on east" in unreachable("east", "reading orders", lost).remedy
    assert "east.bootstrap.servers" in unreachable("east", "reading orders", "no answer").remedy


def test_a_cluster_that_is_away_is_named_with_its_address():
    assert "east:9092" in failure_of(CLUSTER, KafkaError(KafkaError._TRANSPORT), "reading orders").remedy
    assert "9092" not in failure_of(CLUSTER, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "reading").remedy


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
