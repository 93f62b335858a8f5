"""Errors of the Kafka layer: librdkafka's and brokers' errors as messages, each with what an operator does about it."""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Any, Protocol

from confluent_kafka import KafkaError

from mmtool.errors import REPORT, ConfigError, MmtoolError, NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.patience import RetriableError
from mmtool.kafka.ports import Problem
from mmtool.plan.words import retried


class Named(Protocol):
    """A cluster as errors name it: its settings, or a client of it."""

    @property
    def alias(self) -> str: ...

    @property
    def bootstrap_servers(self) -> str: ...


AWAY = "check {alias}.bootstrap.servers, and that the brokers of {alias} run"
"""Where no broker answered."""
BOTH_AWAY = "check the brokers of both clusters, then run the same command again"
"""Where a broker of either cluster did not answer."""
OTHER_LEADER_AND_AGAIN = "make another replica the leader of that partition, then run the same command again"
"""Of a command that reads a replica with damaged bytes: a repetition alone reads the same bytes."""
TOO_OLD = (
    "upgrade the brokers of {alias}: mmtool needs Kafka 2.1 or later on the source, 2.5 or later on the target;"
    " `mmtool doctor -c FILE` shows the release of each broker"
)
"""Of a request that the brokers do not know."""
DOCTOR_PRINTS = "`mmtool doctor -c FILE` prints the kafka-acls.sh command"
GRANT = f"grant mmtool's principal the missing right: {DOCTOR_PRINTS}"
"""Of a denied request, which may have needed one of several rights."""
NO_LEADER = "LEADER_NOT_AVAILABLE"
THROTTLED = "THROTTLING_QUOTA_EXCEEDED"
CUT_SHORT = "CUT_SHORT"
OTHER_CLUSTER = "OTHER_CLUSTER"
CLOSED = "CLOSED"
OAUTH_REFUSED = "OAUTH_REFUSED"
UNPROVEN = "UNPROVEN"
"""Causes without an error code of a broker; the first two as a broker would name them."""

_NAMES = {
    "check that every partition of {topic} has a leader on {alias}": """
        ELIGIBLE_LEADERS_NOT_AVAILABLE FENCED_LEADER_EPOCH LEADER_NOT_AVAILABLE NOT_LEADER_FOR_PARTITION
        NOT_LEADER_OR_FOLLOWER OFFSET_NOT_AVAILABLE PREFERRED_LEADER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE
        UNKNOWN_LEADER_EPOCH""",
    "start the brokers of {alias} that are down; if none is down, see in the brokers' logs why replicas of {topic} are"
    " not in sync; if it has fewer replicas than min.insync.replicas, add replicas or lower min.insync.replicas": """
        NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND _ISR_INSUFF""",
    "a log directory of a broker of {alias} is offline, and the broker's log names it: free space if its disk is full,"
    " else replace the disk; then restart the broker": """
        KAFKA_STORAGE_ERROR LOG_DIR_NOT_FOUND""",
    "check that __consumer_offsets and __transaction_state exist on {alias} and that all their partitions have leaders;"
    " the brokers create a missing one only while enough brokers run for its replication factor"
    " (offsets.topic.replication.factor, transaction.state.log.replication.factor)": """
        COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR _WAIT_COORD""",
    "wait some minutes, then run the same command again: a broker of {alias} is still loading groups and transactional"
    " ids": """
        COORDINATOR_LOAD_IN_PROGRESS""",
    "check that the controllers of {alias} run and have elected an active one": """
        NOT_CONTROLLER STALE_BROKER_EPOCH STALE_CTRL_EPOCH UNKNOWN_CONTROLLER_ID""",
    "raise the quota of mmtool's principal on {alias}, or wait for less load, then run the same command again": """
        THROTTLING_QUOTA_EXCEEDED""",
    "run the same command again": CUT_SHORT,
    "check which brokers of {alias} are down or overloaded": """
        NETWORK_EXCEPTION REQUEST_TIMED_OUT""",
    "check the host names in {alias}.bootstrap.servers and in the brokers' advertised.listeners, and the DNS server of"
    " this host": "_RESOLVE",
    "the broker closed the connection: check {alias}.security.protocol and {alias}.bootstrap.servers; `mmtool doctor -c"
    " FILE` names the cause": CLOSED,
    "correct {alias}.bootstrap.servers, or the DNS entries of these addresses: they now lead to another cluster, or to"
    " brokers whose storage was formatted again": OTHER_CLUSTER,
    "check user name and password of {alias}: sasl.jaas.config, or sasl.username and sasl.password; for a login without"
    " a password, `mmtool doctor -c FILE` names the cause": """
        SASL_AUTHENTICATION_FAILED""",
    "check user name, password and sasl.mechanism of {alias}: `mmtool doctor -c FILE` names the cause": """
        _AUTHENTICATION""",
    "compare audience, issuer and scope of the token with what the brokers of {alias} expect: the log of the"
    " brokers says what they refuse": OAUTH_REFUSED,
    "check which brokers {alias}.bootstrap.servers leads to: another cluster may answer, or a proxy or an attacker"
    " between mmtool and the brokers": UNPROVEN,
    "set {alias}.sasl.mechanism to a mechanism of the listener: `mmtool doctor -c FILE` lists them": """
        UNSUPPORTED_SASL_MECHANISM""",
    "set {alias}.security.protocol to PLAINTEXT or SSL, or {alias}.bootstrap.servers to a listener that takes a"
    " login": "ILLEGAL_SASL_STATE",
    "check {alias}.security.protocol and {alias}.ssl.*: `mmtool doctor -c FILE` names the cause": "_SSL",
    GRANT: """
        CLUSTER_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED""",
    "a policy of the brokers of {alias} (create.topic.policy.class.name or alter.config.policy.class.name) refuses the"
    " value: change it, for a mirror on the source topic, or have the policy changed": "POLICY_VIOLATION",
    "configure an authorizer on the brokers of {alias}": "SECURITY_DISABLED",
    "set delete.topic.enable = true on the brokers of {alias}": "TOPIC_DELETION_DISABLED",
    "stop the consumers of the group on {alias}, then run the same command again": """
        FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH GROUP_SUBSCRIBED_TO_TOPIC ILLEGAL_GENERATION MEMBER_ID_REQUIRED
        NON_EMPTY_GROUP REBALANCE_IN_PROGRESS STALE_MEMBER_EPOCH UNKNOWN_MEMBER_ID UNRELEASED_INSTANCE_ID""",
    "raise group.max.size on the brokers of {alias}, or stop a member of the group": "GROUP_MAX_SIZE_REACHED",
    "wait until the open transaction ends, at the latest after its producer's transaction.timeout.ms, then run the"
    " same command again": """
        UNSTABLE_OFFSET_COMMIT""",
    "check that every partition has a leader on {alias}: without a leader, an earlier transaction of the same"
    " transactional id cannot end": """
        CONCURRENT_TRANSACTIONS""",
    "stop the other process with the same transactional id, then run the same command again": """
        INVALID_PRODUCER_EPOCH PRODUCER_FENCED TRANSACTION_COORDINATOR_FENCED _FENCED""",
    "check whether {topic} was deleted or recreated on {alias}": """
        INCONSISTENT_TOPIC_ID UNKNOWN_TOPIC_ID UNKNOWN_TOPIC_OR_PART UNKNOWN_TOPIC_OR_PARTITION
        _UNKNOWN_PARTITION _UNKNOWN_TOPIC""",
    "check the name of the group: {alias} has no such group; its offsets may have expired": """
        GROUP_ID_NOT_FOUND _UNKNOWN_GROUP""",
    "check whether records of {topic} on {alias} were deleted in the meantime, or lost in an unclean leader election"
    " (`mmtool verify -c FILE` shows what differs), then run the same command again": """
        OFFSET_OUT_OF_RANGE _AUTO_OFFSET_RESET _LOG_TRUNCATION _NO_OFFSET""",
    OTHER_LEADER_AND_AGAIN: "CORRUPT_MESSAGE INVALID_MSG _BAD_MSG",
    "raise max.message.bytes of {topic} on {alias}": "MESSAGE_TOO_LARGE MSG_SIZE_TOO_LARGE",
    "raise segment.bytes of {topic} on {alias}": "RECORD_LIST_TOO_LARGE",
    "raise the limits on timestamps of {topic} on {alias}: message.timestamp.before.max.ms and"
    " message.timestamp.after.max.ms (Kafka 3.6 and later), message.timestamp.difference.max.ms (up to Kafka"
    " 3.9)": "INVALID_TIMESTAMP",
    "if {topic} is compacted, it takes no record without a key: set its cleanup.policy=delete on {alias}; if it is not"
    " compacted, read the logs of the brokers of {alias}, which have the cause": """
        INVALID_RECORD""",
    "raise the message format of {topic} on {alias} to 0.11 or later (message.format.version)": """
        UNSUPPORTED_FOR_MESSAGE_FORMAT""",
    "raise inter.broker.protocol.version on the brokers of {alias} to 2.1 or later, which zstd needs": """
        UNSUPPORTED_COMPRESSION_TYPE""",
    "raise transaction.max.timeout.ms on the brokers of {alias} to 60000 or more": """
        INVALID_TRANSACTION_TIMEOUT""",
    "raise offset.metadata.max.bytes on the brokers of {alias}": "OFFSET_METADATA_TOO_LARGE",
    "lower the replication factor to the number of brokers of {alias}, or start the brokers that"
    " are down": """
        INVALID_REPLICATION_FACTOR""",
    "read the logs of the brokers of {alias}, which have the cause": "UNKNOWN UNKNOWN_SERVER_ERROR",
}
REMEDIES: dict[str, str] = {name: remedy for remedy, names in _NAMES.items() for name in names.split()}
"""The remedy for each cause, with places for the cluster's alias and the topic; Kafka's and librdkafka's names."""

_BROKER_LOGS = REMEDIES["UNKNOWN"]


def remedy_of(cause: str, alias: str, *, topic: str = "the topic", otherwise: str = AWAY) -> str:
    """The remedy for a cause.

    Args:
        cause: Kafka's or librdkafka's name of the error; empty where no broker answered.
        alias: The cluster's alias.
        topic: The topic, as ``topic orders``.
        otherwise: The remedy for a cause that has none of its own, with the same places.
    """
    return REMEDIES.get(cause, otherwise).format(alias=alias, topic=topic)


def remedy_of_refusal(cause: str, alias: str, topic: str = "the topic") -> str:
    """The remedy for a request that a broker refused: for an unexpected cause, the brokers' logs."""
    return remedy_of(cause, alias, topic=topic, otherwise=_BROKER_LOGS)


_NAMED = re.compile(r"^\[Error \d+\] \w+: (?=\S)")
"""What aiokafka writes before a broker's own words."""


def readable_refusal(said: str) -> str:
    """The broker's words of a refused login, in which a refused token is a sentence."""
    return _of_token(said) or _NAMED.sub("", said)


def cause_of_refusal(name: str, said: str) -> str:
    """The cause of a refused login, as in `REMEDIES`: of a token that brokers do not accept, or ``name``."""
    return OAUTH_REFUSED if _of_token(said) else name


def _of_token(said: str) -> str:
    """Why a token is refused: a JSON document in the text says it (RFC 7628, section 3.2.2); empty without one."""
    start = said.find('{"')
    if start < 0:
        return ""
    try:
        found, _ = json.JSONDecoder().raw_decode(said, start)
    except (ValueError, RecursionError):
        return ""
    status = found.get("status")
    if not isinstance(status, str):
        return ""
    scope = f"; they expect the scope {found['scope']}" if found.get("scope") else ""
    # in brackets: after `token:` the redaction of stderr would take it for the token
    return f"the brokers do not accept the token ({status}){scope}"


class ErrorSubject(Enum):
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


_KINDS: dict[ErrorSubject, str] = {
    ErrorSubject.AWAY: """
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
    ErrorSubject.DENIED: """
        _AUTHENTICATION _SSL
        CLUSTER_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTH_DISABLED
        DELEGATION_TOKEN_EXPIRED DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH
        DELEGATION_TOKEN_REQUEST_NOT_ALLOWED GROUP_AUTHORIZATION_FAILED ILLEGAL_SASL_STATE
        INVALID_PRINCIPAL_TYPE POLICY_VIOLATION PRINCIPAL_DESERIALIZATION_FAILURE SASL_AUTHENTICATION_FAILED
        SECURITY_DISABLED TOPIC_AUTHORIZATION_FAILED TOPIC_DELETION_DISABLED
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED UNACCEPTABLE_CREDENTIAL UNSUPPORTED_SASL_MECHANISM""",
    ErrorSubject.BUSY: """
        _ASSIGNMENT_LOST _CONFLICT _FENCED _MAX_POLL_EXCEEDED
        CONCURRENT_TRANSACTIONS FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH FENCED_STATE_EPOCH
        GROUP_MAX_SIZE_REACHED GROUP_SUBSCRIBED_TO_TOPIC ILLEGAL_GENERATION INVALID_PRODUCER_EPOCH
        MEMBER_ID_REQUIRED NON_EMPTY_GROUP PRODUCER_FENCED REASSIGNMENT_IN_PROGRESS REBALANCE_IN_PROGRESS
        SHARE_SESSION_LIMIT_REACHED STALE_MEMBER_EPOCH STREAMS_TOPOLOGY_FENCED TRANSACTION_ABORTABLE
        TRANSACTION_COORDINATOR_FENCED UNKNOWN_MEMBER_ID UNRELEASED_INSTANCE_ID UNSTABLE_OFFSET_COMMIT""",
    ErrorSubject.GONE: """
        _AUTO_OFFSET_RESET _LOG_TRUNCATION _NOENT _NO_OFFSET _PARTITION_EOF _UNKNOWN_GROUP _UNKNOWN_PARTITION
        _UNKNOWN_TOPIC
        GROUP_ID_NOT_FOUND INCONSISTENT_TOPIC_ID INVALID_PRODUCER_ID_MAPPING NO_REASSIGNMENT_IN_PROGRESS
        OFFSET_OUT_OF_RANGE RESOURCE_NOT_FOUND SHARE_SESSION_NOT_FOUND UNKNOWN_PRODUCER_ID
        UNKNOWN_SUBSCRIPTION_ID UNKNOWN_TOPIC_ID UNKNOWN_TOPIC_OR_PART VOTER_NOT_FOUND""",
    ErrorSubject.TOO_OLD: """
        _NOT_IMPLEMENTED _UNSUPPORTED_FEATURE
        MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ASSIGNOR UNSUPPORTED_COMPRESSION_TYPE UNSUPPORTED_ENDPOINT_TYPE
        UNSUPPORTED_FOR_MESSAGE_FORMAT UNSUPPORTED_VERSION""",
    ErrorSubject.SETTINGS: """
        _INVALID_ARG _NOT_CONFIGURED _READ_ONLY
        DUPLICATE_RESOURCE DUPLICATE_VOTER ELECTION_NOT_NEEDED INCONSISTENT_GROUP_PROTOCOL
        INCONSISTENT_VOTER_SET INVALID_COMMIT_OFFSET_SIZE INVALID_CONFIG INVALID_GROUP_ID INVALID_PARTITIONS
        INVALID_REGULAR_EXPRESSION INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_REQUIRED_ACKS
        INVALID_SESSION_TIMEOUT INVALID_TRANSACTION_TIMEOUT INVALID_UPDATE_VERSION INVALID_VOTER_KEY
        MSG_SIZE_TOO_LARGE OFFSET_METADATA_TOO_LARGE RECORD_LIST_TOO_LARGE STREAMS_INVALID_TOPOLOGY
        STREAMS_INVALID_TOPOLOGY_EPOCH TELEMETRY_TOO_LARGE TOPIC_ALREADY_EXISTS TOPIC_EXCEPTION""",
    ErrorSubject.BROKEN: """
        _APPLICATION _ASSIGN_PARTITIONS _BAD_COMPRESSION _BAD_MSG _CRIT_SYS_RESOURCE _EXISTING_SUBSCRIPTION
        _FAIL _FATAL _FS _GAPLESS_GUARANTEE _INCONSISTENT _INVALID_DIFFERENT_RECORD _INVALID_TYPE
        _KEY_DESERIALIZATION _KEY_SERIALIZATION _NOOP _PARTIAL _REVOKE_PARTITIONS _STATE _UNDERFLOW
        _UNKNOWN_PROTOCOL _VALUE_DESERIALIZATION _VALUE_SERIALIZATION
        DUPLICATE_SEQUENCE_NUMBER FEATURE_UPDATE_FAILED INVALID_MSG INVALID_MSG_SIZE INVALID_RECORD
        INVALID_RECORD_STATE INVALID_REGISTRATION INVALID_REQUEST INVALID_SHARE_SESSION_EPOCH
        INVALID_TIMESTAMP INVALID_TXN_STATE NO_ERROR OUT_OF_ORDER_SEQUENCE_NUMBER UNKNOWN""",
}
KINDS: dict[str, ErrorSubject] = {name: kind for kind, names in _KINDS.items() for name in names.split()}
"""The kind of each error, by librdkafka's name of the error."""

_BY_CODE = {getattr(KafkaError, name): kind for name, kind in KINDS.items() if hasattr(KafkaError, name)}


def kind_of(code: int) -> ErrorSubject:
    """The kind of an error code; ``BROKEN`` for a code that librdkafka does not know."""
    return _BY_CODE.get(code, ErrorSubject.BROKEN)


def is_passing(error: Any) -> bool:
    """Whether an error is a broker's temporary one, so that a retry may help; librdkafka's own errors are final."""
    return kind_of(error.code()) is ErrorSubject.AWAY and not error.name().startswith("_")


_OURS: dict[ErrorSubject, tuple[type[MmtoolError], str]] = {
    ErrorSubject.AWAY: (UnreachableError, AWAY),
    ErrorSubject.DENIED: (NotAuthorisedError, "check the login of mmtool's principal on {alias}"),
    ErrorSubject.BUSY: (
        RefusedError,
        "run the same command again later; or stop the other client of {alias} that uses this group or partition",
    ),
    ErrorSubject.GONE: (RefusedError, "check whether the topic or group was deleted or recreated on {alias}"),
    ErrorSubject.TOO_OLD: (RefusedError, TOO_OLD),
    ErrorSubject.SETTINGS: (ConfigError, "check the keys {alias}.* of the properties file"),
    ErrorSubject.BROKEN: (MmtoolError, REPORT),
}
"""mmtool's error of each kind, and the remedy for a cause that has none of its own in `REMEDIES`."""

REFUSED = {
    "_AUTHENTICATION": " refuses the credentials",
    "SASL_AUTHENTICATION_FAILED": " refuses the credentials",
    "UNSUPPORTED_SASL_MECHANISM": " refuses the login",
    "ILLEGAL_SASL_STATE": " refuses the login",
    "_SSL": ": TLS failed",
}
"""What the cluster did, for causes of kind `DENIED` that no right cures."""


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


def check_code(cluster: Named, code: int, what: str, right: str = "") -> None:
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


def failure_of(cluster: Named, error: Any, what: str, *, right: str = "") -> MmtoolError:
    """Convert a librdkafka error to mmtool's error of its kind, with a remedy.

    Args:
        cluster: The cluster that was asked.
        error: A ``KafkaError``.
        what: The action that failed, as ``reading orders``.
        right: The right that the action needs, as ``READ on topic orders``, unless ``what`` says so.
    """
    kind, name = kind_of(error.code()), error.name()
    ours, otherwise = _OURS[kind]
    failed = f" denies {right or what}" if kind is ErrorSubject.DENIED else f": {what} failed"
    failed = REFUSED.get(name, failed)
    said = f"{readable_refusal(error.str())} ({name})"
    remedy = remedy_of(cause_of_refusal(name, error.str()), cluster.alias, otherwise=otherwise)
    if kind is ErrorSubject.AWAY and name not in REMEDIES:
        remedy += f"; mmtool tried {cluster.bootstrap_servers}"
    return ours(f"cluster {cluster.alias}{failed}: {said}", remedy=remedy)


def awaited(error: Exception) -> str:
    """The notice of a cluster's error that mmtool retries by itself; a cluster that denies a right has answered."""
    waits = "" if isinstance(error, NotAuthorisedError) else "waiting for the clusters: "
    return f"{waits}{retried(error)}; mmtool keeps trying"
