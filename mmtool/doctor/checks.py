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
from mmtool.doctor.flow_checks import GROUP_CHECKS, MM2_CHECKS, TOPIC_CHECKS
from mmtool.doctor.limit_checks import check_sizes, check_times
from mmtool.doctor.right_checks import check_rights

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
