"""The tables of doctor checks, in the order of `Check`."""

from __future__ import annotations

from mmtool.doctor.broker_checks import (
    check_disks,
    check_replicas,
    check_room,
    check_same_cluster,
    check_spark,
)
from mmtool.doctor.cluster_checks import (
    check_authentication,
    check_certificates,
    check_cluster_id,
    check_listeners,
    check_versions,
)
from mmtool.doctor.examination import CheckOf, ExaminedCluster, ExaminedFlow
from mmtool.doctor.finding import Check
from mmtool.doctor.groups import (
    check_assign_group,
    check_connect_group,
    check_share_group,
    check_streams_group,
)
from mmtool.doctor.limits import check_sizes, check_times
from mmtool.doctor.mirror_maker import check_checkpoints, check_filters, check_offset_lag, check_scope
from mmtool.doctor.retention import check_compaction, check_retention
from mmtool.doctor.rights import check_rights
from mmtool.doctor.same_offsets import check_same_offsets, keeps_offsets
from mmtool.doctor.topics import check_loop, check_names, check_partitions, check_schema_registry
from mmtool.doctor.transactions import check_transactions

_SOURCE = frozenset({"source"})

TOPIC_CHECKS: tuple[CheckOf[ExaminedFlow], ...] = (
    CheckOf(
        Check.RETENTION,
        check_retention,
        "records are kept until they are mirrored, and mirrors keep them as long as their source topics do",
    ),
    CheckOf(Check.COMPACTION, check_compaction, "each mirror has the cleanup.policy of its source topic"),
    CheckOf(
        Check.PARTITIONS, check_partitions, "each mirror has or gets as many partitions as its source topic"
    ),
    CheckOf(Check.NAMES, check_names, "every mirrored topic has a valid name of its own on the target"),
    CheckOf(Check.LOOP, check_loop, "no record returns to the cluster where it was produced"),
    CheckOf(
        Check.SCHEMA_REGISTRY,
        check_schema_registry,
        "the topic _schemas is mirrored under its own name, or the source has no such topic",
        _SOURCE,
    ),
    CheckOf(
        Check.HANGING_TRANSACTION,
        check_transactions,
        "no transaction of an idle or failed producer is open on a mirrored topic",
        _SOURCE,
    ),
)
"""Checks of a flow's topics."""

GROUP_CHECKS: tuple[CheckOf[ExaminedFlow], ...] = (
    CheckOf(Check.ASSIGN_GROUP, check_assign_group, "no group commits offsets while it has no members"),
    CheckOf(
        Check.STREAMS_GROUP,
        check_streams_group,
        "no Kafka Streams application would lose its state in a failover",
    ),
    CheckOf(Check.SHARE_GROUP, check_share_group, "none of the flow's groups is a share group", _SOURCE),
    CheckOf(
        Check.CONNECT_GROUP,
        check_connect_group,
        "none of the flow's groups belongs to Kafka Connect",
        _SOURCE,
    ),
)
"""Checks of a flow's groups."""

MM2_CHECKS: tuple[CheckOf[ExaminedFlow], ...] = (
    CheckOf(Check.MM2_OFFSET_LAG, check_offset_lag, "MirrorMaker 2 writes offset syncs of every partition"),
    CheckOf(
        Check.MM2_FILTERS,
        check_filters,
        "MirrorMaker 2's topic and group filters agree with the properties file",
    ),
    CheckOf(Check.MM2_CHECKPOINTS, check_checkpoints, "MirrorMaker 2's checkpoints keep up with the groups"),
    CheckOf(
        Check.MM2_SCOPE,
        check_scope,
        "every key of the properties file is in a scope where it is read",
        frozenset(),
    ),
)
"""Checks of an existing MirrorMaker 2."""


_NOBODY: frozenset[str] = frozenset()
"""Sides that have to answer, for a check that contacts the brokers itself: it runs for unreachable clusters too."""

CLUSTER_CHECKS: tuple[CheckOf[ExaminedCluster], ...] = (
    CheckOf(Check.LISTENERS, check_listeners, "every listener answers", _NOBODY),
    CheckOf(Check.VERSIONS, check_versions, "every broker is new enough"),
    CheckOf(Check.CLUSTER_ID, check_cluster_id, "the cluster has the id that the file expects"),
    CheckOf(Check.AUTHENTICATION, check_authentication, "every listener accepts the login", _NOBODY),
    CheckOf(Check.CERTIFICATE, check_certificates, "no certificate expires soon", _NOBODY),
    CheckOf(Check.DISK, check_disks, "no log directory is offline or full"),
)
"""Checks that run once for each cluster."""

BROKER_CHECKS: tuple[CheckOf[ExaminedFlow], ...] = (
    CheckOf(Check.CLUSTER_ID, check_same_cluster, "source and target are two clusters"),
    CheckOf(Check.RIGHT, check_rights, "mmtool has every right that the flow needs"),
    CheckOf(Check.MESSAGE_SIZE, check_sizes, "the target accepts every record size that the source accepts"),
    CheckOf(Check.TIMESTAMPS, check_times, "the target keeps every timestamp"),
    CheckOf(
        Check.REPLICATION_FACTOR, check_replicas, "every partition has a leader, and every replica is in sync"
    ),
    CheckOf(Check.DISK, check_room, "the target has room for what the flow still has to copy"),
    CheckOf(
        Check.SAME_OFFSETS,
        check_same_offsets,
        "mirrors can keep the source's offsets",
        only=keeps_offsets,
    ),
    CheckOf(Check.SPARK, check_spark, "Spark can be started", _NOBODY),
)
"""Checks of what the brokers of both clusters allow and hold, once for each flow."""

FLOW_CHECKS: tuple[CheckOf[ExaminedFlow], ...] = (
    *BROKER_CHECKS,
    *TOPIC_CHECKS,
    *GROUP_CHECKS,
    *MM2_CHECKS,
)
"""All checks that run once for each flow."""
