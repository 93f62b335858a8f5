"""The broker's error codes that the batch wire acts on, by Kafka's own names and numbers."""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """Kafka's error codes (protocol guide, "Error Codes"); those not listed end a partition's mirror."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    FETCH_SESSION_TOPIC_ID_ERROR = 106


RETRY_SAME_LEADER = frozenset(
    {
        Code.REQUEST_TIMED_OUT,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code.OFFSET_NOT_AVAILABLE,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.THROTTLING_QUOTA_EXCEEDED,
        Code.CONCURRENT_TRANSACTIONS,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Error codes of a temporary state of the broker: retry with the same metadata."""

RETRY_AFTER_METADATA = frozenset(
    {
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REPLICA_NOT_AVAILABLE,
        Code.NETWORK_EXCEPTION,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.KAFKA_STORAGE_ERROR,
        Code.FENCED_LEADER_EPOCH,
        Code.INCONSISTENT_TOPIC_ID,
        Code.UNKNOWN_TOPIC_ID,
    }
)
"""Error codes of a moved leader or coordinator, or of a topic new to the broker: refresh metadata, then retry.

A broker that lost one disk of several returns KAFKA_STORAGE_ERROR for its partitions for ever, even under another
leader."""

RETRIABLE = RETRY_SAME_LEADER | RETRY_AFTER_METADATA

FENCED = frozenset({Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED})
"""Error codes that say that another owner has claimed the shard."""

DENIED = frozenset(
    {
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.GROUP_AUTHORIZATION_FAILED,
        Code.CLUSTER_AUTHORIZATION_FAILED,
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""Error codes of a missing right."""


def name_of(code: int) -> str:
    """Kafka's name of an error code, or ``error N`` for a code that mmtool does not handle."""
    try:
        return Code(code).name
    except ValueError:
        return f"error {code}"
