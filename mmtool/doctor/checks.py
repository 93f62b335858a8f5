"""The tables of doctor checks, in the order of `Check`, and the checks that are made once per cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mmtool.doctor.broker_checks import (
    check_disks,
    check_replicas,
    check_room,
    check_same_cluster,
    check_spark,
)
from mmtool.doctor.entrances import (
    SOURCE_FLOOR,
    TARGET_FLOOR,
    ShownCertificate,
    judge_authentication,
    judge_certificates,
    judge_listeners,
    judge_versions,
)
from mmtool.doctor.examination import CheckOf, ExaminedCluster, ExaminedFlow
from mmtool.doctor.finding import Check, ok
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
from mmtool.keystores.certificates import certificates_in, der_certificate, subject_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mmtool.config.credentials import Pem
    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.listeners import ListenerAnswer


_AUTHORITIES_NAMED = 5


def check_listeners(cluster: ExaminedCluster) -> Iterable[Finding]:
    """Check that every bootstrap server and every advertised listener can be reached from this host."""
    return judge_listeners(cluster.alias, cluster.details.listeners())


def check_versions(cluster: ExaminedCluster) -> Iterable[Finding]:
    """Check that the brokers are new enough, and of one release."""
    flows = cluster.settings_of_file.flows
    is_target = any(flow.target.alias == cluster.alias for flow in flows)
    floor = TARGET_FLOOR if is_target else SOURCE_FLOOR
    return judge_versions(cluster.alias, cluster.details.listeners(), floor)


def check_cluster_id(cluster: ExaminedCluster) -> Iterable[Finding]:
    """Report the cluster's id, and whether it was compared with ``ALIAS.mmtool.cluster.id``.

    Another id than the expected one is found before, when `examine` reaches the cluster: this check is then skipped.
    """
    found = cluster.port.probe()
    expected = cluster.settings.expected_cluster_id
    key = f"{cluster.alias}.mmtool.cluster.id"
    compared = f"as {key} expects" if expected else f"not checked against an expected id: {key} is not set"
    yield ok(Check.CLUSTER_ID, cluster.alias, f"cluster id {found}, {compared}")


def check_authentication(cluster: ExaminedCluster) -> Iterable[Finding]:
    """Check that each listener accepts the login, or the client certificate."""
    security = cluster.settings.security_for("admin")
    return judge_authentication(
        cluster.alias, security, cluster.details.principal, cluster.details.listeners()
    )


def check_certificates(cluster: ExaminedCluster) -> Iterable[Finding]:
    """Check how long the client's, the trusted and the brokers' certificates are valid."""
    answers = cluster.details.listeners()
    shown = [*_configured(cluster), *_presented(cluster.alias, answers)]
    return judge_certificates(cluster.alias, shown, answers, datetime.now(UTC))


def _configured(cluster: ExaminedCluster) -> Iterator[ShownCertificate]:
    seen: set[str] = set()
    for security in (cluster.settings.security, *cluster.settings.role_security.values()):
        for pem, is_own in ((security.certificate, True), (security.ca, False)):
            if pem is not None and pem.origin not in seen:
                seen.add(pem.origin)
                yield from _of_pem(pem, is_own=is_own)


def _of_pem(pem: Pem, *, is_own: bool) -> Iterator[ShownCertificate]:
    """The certificates of a PEM file: the client's whole chain, or the first trusted authorities to expire."""
    found = sorted(certificates_in(pem.text.get_secret_value()), key=lambda one: one.not_valid_after_utc)
    what = "client certificate" if is_own else "trusted certificate"
    for one in found if is_own else found[:_AUTHORITIES_NAMED]:
        name = f"{what} {subject_of(one)} in {pem.origin}"
        begins, ends = one.not_valid_before_utc, one.not_valid_after_utc
        is_alone = is_own or len(found) == 1
        yield ShownCertificate(name, pem.origin, begins, ends, is_own=is_own, is_alone=is_alone)


def _presented(alias: str, answers: Iterable[ListenerAnswer]) -> Iterator[ShownCertificate]:
    seen: set[str] = set()
    for one in answers:
        certificate = (
            der_certificate(one.certificate) if one.certificate and one.address not in seen else None
        )
        seen.add(one.address)
        if certificate is not None:
            name = f"certificate {subject_of(certificate)} of the broker of {alias} at {one.address}"
            begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
            yield ShownCertificate(name, one.address, begins, ends, is_theirs=True)


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
