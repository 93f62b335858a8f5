"""Errors of the Kafka layer: map each error of librdkafka and of brokers to its meaning for an operator.

The names are those of ``confluent_kafka.KafkaError``; those with an underscore are librdkafka's own. A test
checks all codes that the installed library knows and fails on one that is not mapped here.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from mmtool.errors import REPORT, ConfigError, MmtoolError, NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.patience import RetriableError
from mmtool.kafka.ports import Problem
from mmtool.kafka.remedies import AWAY, REMEDIES, TOO_OLD, remedy_of
from mmtool.kafka.tokens.refusals import cause_of_refusal, readable_refusal

if TYPE_CHECKING:
    from mmtool.config import ClusterSettings


class Kind(Enum):
    """The subject of an error."""

    AWAY = "away"
    """The cluster, or a part of it, does not answer now; it may answer later."""

    DENIED = "denied"
    """The cluster answers, and denies mmtool's principal the operation, or the login."""

    BUSY = "busy"
    """Another client holds the resource: a group with members, an open transaction, a newer epoch."""

    GONE = "gone"
    """The topic, partition, group or offset does not exist."""

    TOO_OLD = "too_old"
    """The broker does not know the request."""

    SETTINGS = "settings"
    """The client's or the request's settings cannot work."""

    BROKEN = "broken"
    """A defect of mmtool, a client library or the broker, which an operator cannot mend."""


_KINDS: dict[Kind, str] = {
    Kind.AWAY: """
        _ALL_BROKERS_DOWN _DESTROY _DESTROY_BROKER _IN_PROGRESS _INTR _ISR_INSUFF _MSG_TIMED_OUT _NODE_UPDATE
        _OUTDATED _PREV_IN_PROGRESS _PURGE_INFLIGHT _PURGE_QUEUE _QUEUE_FULL _RESOLVE _RETRY _TIMED_OUT
        _TIMED_OUT_QUEUE _TRANSPORT _UNKNOWN_BROKER _WAIT_CACHE _WAIT_COORD
        BROKER_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE
        ELIGIBLE_LEADERS_NOT_AVAILABLE FENCED_LEADER_EPOCH FETCH_SESSION_ID_NOT_FOUND
        INVALID_FETCH_SESSION_EPOCH KAFKA_STORAGE_ERROR LEADER_NOT_AVAILABLE LISTENER_NOT_FOUND
        LOG_DIR_NOT_FOUND NETWORK_EXCEPTION NOT_CONTROLLER NOT_COORDINATOR NOT_ENOUGH_REPLICAS
        NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_LEADER_FOR_PARTITION OFFSET_NOT_AVAILABLE OPERATION_NOT_ATTEMPTED
        PREFERRED_LEADER_NOT_AVAILABLE REBOOTSTRAP_REQUIRED REPLICA_NOT_AVAILABLE REQUEST_TIMED_OUT
        STALE_BROKER_EPOCH STALE_CTRL_EPOCH THROTTLING_QUOTA_EXCEEDED UNKNOWN_CONTROLLER_ID
        UNKNOWN_LEADER_EPOCH""",
    Kind.DENIED: """
        _AUTHENTICATION _SSL
        CLUSTER_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTH_DISABLED
        DELEGATION_TOKEN_EXPIRED DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH
        DELEGATION_TOKEN_REQUEST_NOT_ALLOWED GROUP_AUTHORIZATION_FAILED ILLEGAL_SASL_STATE
        INVALID_PRINCIPAL_TYPE POLICY_VIOLATION PRINCIPAL_DESERIALIZATION_FAILURE SASL_AUTHENTICATION_FAILED
        SECURITY_DISABLED TOPIC_AUTHORIZATION_FAILED TOPIC_DELETION_DISABLED
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED UNACCEPTABLE_CREDENTIAL UNSUPPORTED_SASL_MECHANISM""",
    Kind.BUSY: """
        _ASSIGNMENT_LOST _CONFLICT _FENCED _MAX_POLL_EXCEEDED
        CONCURRENT_TRANSACTIONS FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH FENCED_STATE_EPOCH
        GROUP_MAX_SIZE_REACHED GROUP_SUBSCRIBED_TO_TOPIC ILLEGAL_GENERATION INVALID_PRODUCER_EPOCH
        MEMBER_ID_REQUIRED NON_EMPTY_GROUP PRODUCER_FENCED REASSIGNMENT_IN_PROGRESS REBALANCE_IN_PROGRESS
        SHARE_SESSION_LIMIT_REACHED STALE_MEMBER_EPOCH STREAMS_TOPOLOGY_FENCED TRANSACTION_ABORTABLE
        TRANSACTION_COORDINATOR_FENCED UNKNOWN_MEMBER_ID UNRELEASED_INSTANCE_ID UNSTABLE_OFFSET_COMMIT""",
    Kind.GONE: """
        _AUTO_OFFSET_RESET _LOG_TRUNCATION _NOENT _NO_OFFSET _PARTITION_EOF _UNKNOWN_GROUP _UNKNOWN_PARTITION
        _UNKNOWN_TOPIC
        GROUP_ID_NOT_FOUND INCONSISTENT_TOPIC_ID INVALID_PRODUCER_ID_MAPPING NO_REASSIGNMENT_IN_PROGRESS
        OFFSET_OUT_OF_RANGE RESOURCE_NOT_FOUND SHARE_SESSION_NOT_FOUND UNKNOWN_PRODUCER_ID
        UNKNOWN_SUBSCRIPTION_ID UNKNOWN_TOPIC_ID UNKNOWN_TOPIC_OR_PART VOTER_NOT_FOUND""",
    Kind.TOO_OLD: """
        _NOT_IMPLEMENTED _UNSUPPORTED_FEATURE
        MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ASSIGNOR UNSUPPORTED_COMPRESSION_TYPE UNSUPPORTED_ENDPOINT_TYPE
        UNSUPPORTED_FOR_MESSAGE_FORMAT UNSUPPORTED_VERSION""",
    Kind.SETTINGS: """
        _INVALID_ARG _NOT_CONFIGURED _READ_ONLY
        DUPLICATE_RESOURCE DUPLICATE_VOTER ELECTION_NOT_NEEDED INCONSISTENT_GROUP_PROTOCOL
        INCONSISTENT_VOTER_SET INVALID_COMMIT_OFFSET_SIZE INVALID_CONFIG INVALID_GROUP_ID INVALID_PARTITIONS
        INVALID_REGULAR_EXPRESSION INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_REQUIRED_ACKS
        INVALID_SESSION_TIMEOUT INVALID_TRANSACTION_TIMEOUT INVALID_UPDATE_VERSION INVALID_VOTER_KEY
        MSG_SIZE_TOO_LARGE OFFSET_METADATA_TOO_LARGE RECORD_LIST_TOO_LARGE STREAMS_INVALID_TOPOLOGY
        STREAMS_INVALID_TOPOLOGY_EPOCH TELEMETRY_TOO_LARGE TOPIC_ALREADY_EXISTS TOPIC_EXCEPTION""",
    Kind.BROKEN: """
        _APPLICATION _ASSIGN_PARTITIONS _BAD_COMPRESSION _BAD_MSG _CRIT_SYS_RESOURCE _EXISTING_SUBSCRIPTION
        _FAIL _FATAL _FS _GAPLESS_GUARANTEE _INCONSISTENT _INVALID_DIFFERENT_RECORD _INVALID_TYPE
        _KEY_DESERIALIZATION _KEY_SERIALIZATION _NOOP _PARTIAL _REVOKE_PARTITIONS _STATE _UNDERFLOW
        _UNKNOWN_PROTOCOL _VALUE_DESERIALIZATION _VALUE_SERIALIZATION
        DUPLICATE_SEQUENCE_NUMBER FEATURE_UPDATE_FAILED INVALID_MSG INVALID_MSG_SIZE INVALID_RECORD
        INVALID_RECORD_STATE INVALID_REGISTRATION INVALID_REQUEST INVALID_SHARE_SESSION_EPOCH
        INVALID_TIMESTAMP INVALID_TXN_STATE NO_ERROR OUT_OF_ORDER_SEQUENCE_NUMBER UNKNOWN""",
}
KINDS: dict[str, Kind] = {name: kind for kind, names in _KINDS.items() for name in names.split()}
"""The kind of each error, by librdkafka's name of the error."""

_BY_CODE = {getattr(KafkaError, name): kind for name, kind in KINDS.items() if hasattr(KafkaError, name)}


def kind_of(code: int) -> Kind:
    """The kind of an error code; ``BROKEN`` for a code that librdkafka does not know."""
    return _BY_CODE.get(code, Kind.BROKEN)


def is_passing(error: Any) -> bool:
    """Whether an error is a broker's temporary one, so that a retry may help; librdkafka's own errors are final."""
    return kind_of(error.code()) is Kind.AWAY and not error.name().startswith("_")


_OURS: dict[Kind, tuple[type[MmtoolError], str]] = {
    Kind.AWAY: (UnreachableError, AWAY),
    Kind.DENIED: (NotAuthorisedError, "check the login of mmtool's principal on {alias}"),
    Kind.BUSY: (
        RefusedError,
        "run the same command again later; or stop the other client of {alias} that uses this group or partition",
    ),
    Kind.GONE: (RefusedError, "check whether the topic or group was deleted or recreated on {alias}"),
    Kind.TOO_OLD: (RefusedError, TOO_OLD),
    Kind.SETTINGS: (ConfigError, "check the keys {alias}.* of the properties file"),
    Kind.BROKEN: (MmtoolError, REPORT),
}
"""mmtool's error of each kind, and the remedy for a cause that has none of its own in `REMEDIES`."""

_LOGIN = {
    "_AUTHENTICATION": " refuses the credentials",
    "SASL_AUTHENTICATION_FAILED": " refuses the credentials",
    "UNSUPPORTED_SASL_MECHANISM": " refuses the login",
    "ILLEGAL_SASL_STATE": " refuses the login",
    "_SSL": ": TLS failed",
}
"""Causes of kind `DENIED` that no right cures, and what the cluster did."""


def unreachable(alias: str, what: str, why: object, cause: str = "") -> UnreachableError:
    """The `UnreachableError` for a request without an answer, or with one that may change.

    Args:
        alias: The cluster's alias.
        what: The request.
        why: The reason: a phrase, or the exception that ended the request.
        cause: The reason's name in `REMEDIES`, where ``why`` is no exception that names it.
    """
    remedy = getattr(why, "remedy", "") or remedy_of(cause or getattr(why, "cause", ""), alias)
    said = str(why) or "no answer in time"
    return UnreachableError(f"cluster {alias}: {what} failed: {said}", remedy=remedy)


def problem_of(code: int) -> Problem:
    """A broker's error code with librdkafka's name and text, to report it without raising."""
    error: Any = KafkaError(code)
    return Problem(error.name(), error.str())


def check_code(cluster: ClusterSettings, code: int, what: str, right: str = "") -> None:
    """Raise mmtool's error for a broker's error code; `RetriableError` for a temporary one, nothing for success.

    Args:
        cluster: The cluster that was asked.
        code: The broker's answer.
        what: The request in words, as ``listing groups``.
        right: The right that the request needs, as ``READ on group app``.
    """
    if code == KafkaError.NO_ERROR:
        return
    error = KafkaError(code)
    failure = failure_of(cluster, error, what, right=right)
    raise RetriableError(failure) if is_passing(error) else failure


def failure_of(cluster: ClusterSettings, error: Any, what: str, *, right: str = "") -> MmtoolError:
    """Convert a librdkafka error to mmtool's error of its kind, with a remedy.

    Args:
        cluster: The cluster that was asked.
        error: A ``KafkaError``.
        what: The action that failed, as ``reading orders``.
        right: The right that the action needs, as ``READ on topic orders``, unless ``what`` says so.
    """
    kind, name = kind_of(error.code()), error.name()
    ours, otherwise = _OURS[kind]
    failed = f" denies {right or what}" if kind is Kind.DENIED else f": {what} failed"
    failed = _LOGIN.get(name, failed)
    said = f"{readable_refusal(error.str())} ({name})"
    remedy = remedy_of(cause_of_refusal(name, error.str()), cluster.alias, otherwise=otherwise)
    if kind is Kind.AWAY and name not in REMEDIES:
        remedy += f"; mmtool tried {cluster.bootstrap_servers}"
    return ours(f"cluster {cluster.alias}{failed}: {said}", remedy=remedy)
