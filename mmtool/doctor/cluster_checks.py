"""Doctor checks made once per cluster: listeners, versions, cluster id, login, certificates."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mmtool.doctor.entrances import (
    SOURCE_FLOOR,
    TARGET_FLOOR,
    ShownCertificate,
    judge_authentication,
    judge_certificates,
    judge_listeners,
    judge_versions,
)
from mmtool.doctor.finding import Check, ok
from mmtool.keystores.certificates import certificates_in, der_certificate, subject_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mmtool.config.credentials import Pem
    from mmtool.doctor.examination import ExaminedCluster
    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.details import ListenerAnswer

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
