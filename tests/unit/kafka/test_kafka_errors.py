"""Every code of the installed library is sorted, and comes out as the contract's exit code."""

import pytest
from confluent_kafka import KafkaError

from mmtool.config import ClusterSettings
from mmtool.kafka.errors import KINDS, Kind, failure_of, kind_of

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
    assert kind_of(9_999) is Kind.BROKEN


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
    assert "reading orders" in failure.message
    assert failure.remedy


def test_a_cluster_that_is_away_is_named_with_its_address():
    assert "east:9092" in failure_of(CLUSTER, KafkaError(KafkaError._TRANSPORT), "reading orders").remedy
    assert "9092" not in failure_of(CLUSTER, KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "reading").remedy
