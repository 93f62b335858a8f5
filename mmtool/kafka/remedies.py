"""What an operator does about a broker's error: one table from Kafka's error names to remedies."""

from __future__ import annotations

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
