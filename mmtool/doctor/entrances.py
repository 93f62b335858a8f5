"""Checks of how a cluster is entered: reachability, listeners, ids, logins and certificates."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from mmtool.config.credentials import MskLogin, OAuthLogin, PasswordLogin
from mmtool.doctor.finding import NEITHER, cluster_check, flow_check, ok, problem, warning
from mmtool.errors import MmtoolError, NotAuthorisedError, UnreachableError
from mmtool.kafka.admin.listeners import CertificateFault, Stage
from mmtool.kafka.errors import UNPROVEN, remedy_of
from mmtool.keystores.certificates import CHECK_CLOCKS, certificates_in, der_certificate, subject_of
from mmtool.plan.words import are, counted, few

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mmtool.config.credentials import Pem, Sasl, Security
    from mmtool.doctor.examination import ExaminedCluster, ExaminedFlow
    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.listeners import ListenerAnswer
    from mmtool.translation.types import ClusterId


SOON = timedelta(days=30)
"""Certificates that expire within this time are reported."""
LOGIN_STAGES = {Stage.MECHANISM, Stage.NO_LOGIN, Stage.LOGIN, Stage.PROOF, Stage.CLIENT_CERTIFICATE}
"""A listener that fails at one of these is there, and the login fails."""
_RENEW_THEIRS = (
    "renew the certificate in the broker's ssl.keystore.location, and reload it or restart the broker"
)
_READ_AGAIN = "a running `mmtool replicate` reads the new certificate by itself"


# --- reachability -----------------------------------------------------------------------------------------


@cluster_check("reachability", asks=NEITHER)
def check_reachability(cluster: ExaminedCluster) -> Iterator[Finding]:
    """A bootstrap server accepts mmtool's connection and login.

    Problem: no bootstrap server does
    Effect: `replicate` does not start the flow; the cluster is not checked further
    Remedy: start the brokers; correct `ALIAS.bootstrap.servers`, `ALIAS.security.protocol`
    """
    alias = cluster.alias
    try:
        cluster_id = reach(cluster)
    except MmtoolError as error:
        message = f"{error.message}; checks that need {alias} were skipped"
        is_away = isinstance(error, UnreachableError)
        found = problem(alias, "", message, error.remedy)
        yield found if is_away else found._replace(check=check_cluster_id.name)
    else:
        yield ok(f"cluster {alias} answers, with id {cluster_id}")


def reach(cluster: ExaminedCluster) -> ClusterId:
    """The cluster's id. Listeners are probed first: a client retries an unreachable listener until its time is up.

    Raises:
        UnreachableError, NotAuthorisedError: No listener answers, or accepts the login.
        RefusedError: The cluster has another id than ``mmtool.cluster.id`` says.
    """
    away = away_error(cluster.alias, cluster.details.listeners())
    if away is not None:
        raise away
    return cluster.port.probe()


@dataclass(frozen=True, slots=True)
class FirstContact:
    """A cluster that answered, and lets mmtool in.

    Attributes:
        cluster_id: The id that its brokers report.
        brokers: How many are alive.
    """

    cluster_id: str
    brokers: int


def contact(clusters: Sequence[ExaminedCluster]) -> dict[str, FirstContact | MmtoolError]:
    """Ask all clusters at the same time; by alias, the answer or the reason why there is none."""

    def ask(cluster: ExaminedCluster) -> FirstContact | MmtoolError:
        try:
            return FirstContact(reach(cluster), len(cluster.details.brokers()))
        except MmtoolError as error:
            return error

    with ThreadPoolExecutor(max(1, len(clusters))) as pool:
        answers = pool.map(ask, clusters)
        return {cluster.alias: answer for cluster, answer in zip(clusters, answers, strict=True)}


# --- listeners --------------------------------------------------------------------------------------------


@cluster_check("listeners", asks=NEITHER)
def check_listeners(cluster: ExaminedCluster) -> Iterator[Finding]:
    """Each bootstrap server and each advertised listener resolves, connects and answers, from this host.

    Each within 3 s, in parallel.

    Problem: an advertised listener does not answer; no bootstrap server answers
    Warning: one bootstrap server does not answer, others do
    Effect: partitions that this broker leads cannot be mirrored from this host
    Remedy: `advertised.listeners`, DNS, firewall. Spark workers on other hosts need the same addresses
    """
    return judge_listeners(cluster.alias, cluster.details.listeners())


def judge_listeners(alias: str, answers: Sequence[ListenerAnswer]) -> Iterator[Finding]:
    """Findings about listeners that cannot be reached; refused logins and bad certificates have rows of their own.

    An unreachable bootstrap server is a warning while another server of the same property answers.
    """
    dead = [one for one in answers if one.failed and one.failed not in LOGIN_STAGES]
    if not dead:
        brokers = {one.broker for one in answers if one.broker is not None}
        addresses = {one.address for one in answers}
        listed = f"{counted(len(brokers), 'broker')} at {counted(len(addresses), 'address')}"
        reached = counted(len(addresses), "bootstrap server")
        yield ok(
            f"every known listener answers this host ({listed})"
            if brokers
            else f"this host can connect to {reached}; the listeners of the brokers are unknown"
        )
    for one in dead:
        spared = any(not other.failed for other in answers if other.entrance.name == one.entrance.name)
        yield _unreachable(alias, one, others_answer=spared)


def _unreachable(alias: str, one: ListenerAnswer, *, others_answer: bool) -> Finding:
    name, address, broker = one.entrance.name, one.address, one.broker
    why, bootstrap_remedy, broker_remedy = _UNREACHABLE[one.failed or Stage.ANSWER]
    why = f"{why}: {one.reason}"
    if broker is None:
        say = warning if others_answer else problem
        spared = f"; other listeners of {alias} answer" if others_answer else ""
        message = f"bootstrap server {address} of {name} {why}{spared}"
        return say(alias, address, message, bootstrap_remedy.format(name=name, address=address))
    return problem(
        alias,
        address,
        f"broker {broker} of {alias} advertises {address}, which {why}; partitions that this broker leads cannot be"
        " mirrored from this host",
        broker_remedy.format(name=name, address=address, broker=broker),
    )


_MATCH = (
    "check that {name}.security.protocol and {name}.ssl.* match the listener at {address}; if they do, check that a"
    " broker answers there, and not only a load balancer"
)
_HEALTHY = "check that {name}.security.protocol matches this listener, and that broker {broker} is healthy"
_BY_CERTIFICATE = (
    "do what the certificate row of {address} says; without such a row, check that {name}.security.protocol and"
    " {name}.ssl.* match this listener"
)
_OTHER_PROTOCOL = (
    "correct {address} in {name}.bootstrap.servers if it is no listener of Kafka; else set {name}.security.protocol to"
    " the protocol of the listener (a TLS listener needs SSL or SASL_SSL)"
)
_OR_ADVERTISE = (
    "from this host and every Spark worker, or set advertised.listeners of broker {broker} to an address that this host"
    " and the Spark workers can reach"
)
_UNREACHABLE = {
    Stage.RESOLVE: (
        "cannot be resolved from this host",
        "correct {name}.bootstrap.servers, or make the name resolvable from this host (DNS, /etc/hosts)",
        f"make this name resolvable (DNS, /etc/hosts) {_OR_ADVERTISE}",
    ),
    Stage.CONNECT: (
        "cannot be reached from this host",
        "start the broker; if it runs, open its firewall for this host, or correct {name}.bootstrap.servers",
        f"make this address reachable (firewall) {_OR_ADVERTISE}",
    ),
    Stage.TLS: ("fails at TLS", _MATCH, _BY_CERTIFICATE),
    Stage.ANSWER: ("does not answer", _MATCH, _HEALTHY),
    Stage.PROTOCOL: ("does not speak Kafka's protocol", _OTHER_PROTOCOL, _HEALTHY),
}
"""By where connecting failed: how, and what to do about a bootstrap server, and about a broker's listener."""


def away_error(alias: str, answers: Sequence[ListenerAnswer]) -> UnreachableError | None:
    """Why a cluster does not answer, of which no listener accepts a connection; None where one does."""
    if not answers or not all(one.failed for one in answers):
        return None
    tried, first = few(list(dict.fromkeys(one.address for one in answers)), 3), answers[0]
    if first.failed in LOGIN_STAGES:
        done = "does not complete" if first.failed is Stage.PROOF else "refuses"
        message = f"cluster {alias} {done} the login at {tried}: {first.reason}"
        remedy = _login_remedy(first.entrance.name, first.failed, first.entrance.security.sasl)
        return NotAuthorisedError(message, remedy=remedy)
    if first.failed is Stage.TLS and first.certificate is not None:
        message = f"mmtool does not accept the certificate of cluster {alias} at {tried}: {first.reason}"
        remedy = _refusal_remedy(first)
    else:
        spoken = first.failed is not Stage.PROTOCOL
        message = f"cluster {alias} does not answer {'' if spoken else 'as Kafka '}at {tried}: {first.reason}"
        _, bootstrap_remedy, _ = _UNREACHABLE[first.failed or Stage.ANSWER]
        remedy = bootstrap_remedy.format(name=first.entrance.name, address=first.address)
    return UnreachableError(message, remedy=remedy)


# --- cluster ids ------------------------------------------------------------------------------------------


@cluster_check("cluster_id")
def check_cluster_id(cluster: ExaminedCluster) -> Iterator[Finding]:
    """The cluster has the id of `ALIAS.mmtool.cluster.id`; source and target are two clusters.

    Problem: the id differs; two aliases name one cluster
    Effect: `replicate` does not start
    Remedy: correct `bootstrap.servers`, or `ALIAS.mmtool.cluster.id`
    """
    # another id than the expected one is found before, by `check_reachability`: this check is then skipped
    key = f"{cluster.alias}.mmtool.cluster.id"
    expected = cluster.settings.expected_cluster_id
    compared = f"as {key} expects" if expected else f"not checked against an expected id: {key} is not set"
    yield ok(f"cluster id {cluster.port.probe()}, {compared}")


@flow_check("cluster_id", "source and target are two clusters")
def check_same_cluster(flow: ExaminedFlow) -> Iterator[Finding]:
    identity = flow.identity()
    if identity.source_id == identity.target_id:
        one, other = flow.settings.source.alias, flow.settings.target.alias
        yield problem(
            "",
            flow.name,
            f"{one} and {other} are the same cluster, {identity.source_id}: `mmtool replicate` does not start",
            f"set {one}.bootstrap.servers and {other}.bootstrap.servers to servers of two different clusters",
        )


# --- authentication ---------------------------------------------------------------------------------------


@cluster_check("authentication", asks=NEITHER)
def check_authentication(cluster: ExaminedCluster) -> Iterator[Finding]:
    """Each listener accepts the login, or the client certificate.

    Also those of `ALIAS.consumer.`, `ALIAS.producer.` and `ALIAS.admin.`.

    Problem: a listener refuses the login: the user or password is wrong, the mechanism is not enabled on the broker,
        or no login is configured
    Warning: no listener answers
    Effect: mmtool cannot use these brokers
    Remedy: `sasl.mechanism`, `sasl.jaas.config`, `ssl.keystore.location`
    """
    security, details = cluster.settings.security_for("admin"), cluster.details
    return judge_authentication(cluster.alias, security, details.principal, details.listeners())


def judge_authentication(
    alias: str, security: Security, principal: str, answers: Sequence[ListenerAnswer]
) -> Iterator[Finding]:
    """Findings about refused logins: one row for each reason, with the listeners that gave it; without secrets."""
    refused: dict[tuple[str, Stage, str], list[ListenerAnswer]] = {}
    for one in answers:
        if one.failed in LOGIN_STAGES:
            refused.setdefault((one.entrance.name, one.failed, one.reason), []).append(one)
    for (name, stage, reason), ones in refused.items():
        addresses = few([one.address for one in ones], 3)
        tried = _tried(ones[0].entrance.security)
        refuse = "refuses" if len(ones) == 1 else "refuse"
        if stage is Stage.PROOF:
            refuse = "does not complete" if len(ones) == 1 else "do not complete"
        message = f"{addresses} {refuse} a connection with {tried} (settings {name}.*): {reason}"
        remedy = _login_remedy(name, stage, ones[0].entrance.security.sasl)
        yield problem(alias, name, message, remedy)
    if not refused and any(not one.failed for one in answers):
        yield ok(f"connections with {_tried(security)} are accepted (principal {principal})")
    elif not refused:
        yield warning(
            alias,
            "",
            f"the login was not checked: no listener of {alias} answers",
            f"see the reachability row of {alias}",
        )


def _tried(security: Security) -> str:
    if security.sasl is not None:
        return security.sasl.description
    if security.certificate is not None:
        return f"the client certificate {security.certificate.origin}"
    return f"{security.protocol} and no login"


def _login_remedy(name: str, stage: Stage, login: Sasl | None) -> str:
    """What to do about a refused login, by the stage and what the properties file logs in with."""
    protocol = f"set {name}.security.protocol to the protocol of the listener"
    if login is None:
        otherwise = f"{protocol}, with {name}.sasl.mechanism and {name}.sasl.jaas.config"
    elif isinstance(login, PasswordLogin):
        otherwise = (
            f"correct the user name and the password in {name}.sasl.jaas.config, or in {name}.sasl.username and"
            f" {name}.sasl.password where these are set"
        )
    elif isinstance(login, MskLogin):
        otherwise = (
            f"check that mmtool logs in as the AWS identity that you want (now {login.identity}; it comes from"
            f" {login.key} and the AWS credentials), and that the identity's IAM policy allows kafka-cluster:Connect on"
            " this cluster"
        )
    else:
        keys = {login.endpoint_key: "", login.key: ""} if isinstance(login, OAuthLogin) else {login.key: ""}
        otherwise = (
            f"check {' and '.join(keys)}, and that audience, issuer and scope of the token are what the listener"
            " expects: the brokers' log says what they refuse"
        )
    return {
        Stage.MECHANISM: f"set {name}.sasl.mechanism to a mechanism that the listener enables, or add the"
        " mechanism that mmtool uses to the brokers' sasl.enabled.mechanisms",
        Stage.NO_LOGIN: f"{protocol} (PLAINTEXT or SSL), or {name}.bootstrap.servers to a listener that takes SASL"
        " logins",
        Stage.PROOF: remedy_of(UNPROVEN, name),
        Stage.CLIENT_CERTIFICATE: f"set {name}.ssl.keystore.location to a key store whose certificate the brokers'"
        " trust store accepts",
    }.get(stage, otherwise)


# --- certificates -----------------------------------------------------------------------------------------


class ShownCertificate(NamedTuple):
    """A certificate, with the facts that are judged.

    Attributes:
        what: ``certificate CN=...`` with its origin.
        subject: The subject of the row.
        is_theirs: A broker shows it.
        is_own: It is the client's own; else a trusted one.
        is_alone: No other one can take its place, as another trusted authority can.
    """

    what: str
    subject: str
    begins: datetime
    ends: datetime
    is_theirs: bool = False
    is_own: bool = False
    is_alone: bool = True


@cluster_check("certificate", asks=NEITHER)
def check_certificates(cluster: ExaminedCluster) -> Iterator[Finding]:
    """The dates of the client's, the trusted and the brokers' certificates; the brokers' host names and CAs.

    Problem: expired; not valid yet; for another host; signed by a CA that is not trusted
    Warning: expires in less than 30 days
    Effect: connections fail; for a certificate that expires, from that date on
    Remedy: renew it; issue it with the subject alternative name; import the CA
    """
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


_AUTHORITIES_NAMED = 5


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


def judge_certificates(
    alias: str, shown: Sequence[ShownCertificate], answers: Sequence[ListenerAnswer], now: datetime
) -> Iterator[Finding]:
    """Findings about certificates that have expired, expire soon, or are refused."""
    found = [
        *_dates(alias, shown, now),
        *_refused(alias, answers, {one.subject for one in shown if one.ends < now or one.begins > now}),
    ]
    if found:
        yield from found
    elif not shown:
        yield ok("no certificate to check: the properties file sets none, and no broker showed one")
    else:
        first = min(shown, key=lambda one: one.ends)
        count = counted(len(shown), "certificate")
        message = f"{count} {are(len(shown))} valid; the first expires on {_date(first.ends)}: {first.what}"
        yield ok(message)


def _dates(alias: str, shown: Iterable[ShownCertificate], now: datetime) -> Iterator[Finding]:
    for one in shown:
        remedy = _renew(one)
        if one.ends < now:
            say = problem if one.is_alone or one.is_theirs else warning
            message = f"{one.what} expired on {_date(one.ends)}: {_cost(alias, one)}"
            yield say(alias, one.subject, message, remedy)
        elif one.begins > now:
            message = f"{one.what} is not valid before {_date(one.begins)}: {_cost(alias, one)}"
            yield problem(alias, one.subject, message, CHECK_CLOCKS)
        elif one.ends - now < SOON:
            left = counted(max((one.ends - now).days, 0), "day")
            message = f"{one.what} expires on {_date(one.ends)}, in {left}; from then on {_cost(alias, one)}"
            yield warning(alias, one.subject, message, remedy)


def _cost(alias: str, one: ShownCertificate) -> str:
    """The connections that fail while a certificate is not valid, as a clause."""
    if one.is_theirs:
        return "clients do not connect to this broker"
    if one.is_own:
        return f"brokers of {alias} refuse mmtool's connections"
    return f"mmtool does not connect to brokers of {alias} whose certificates this CA signed"


def _renew(one: ShownCertificate) -> str:
    if one.is_theirs:
        return _RENEW_THEIRS
    if one.is_own:
        return f"renew the client certificate in {one.subject}; {_READ_AGAIN}"
    return f"import the CA's current certificate into {one.subject}; {_READ_AGAIN}"


def _refused(alias: str, answers: Iterable[ListenerAnswer], known: set[str]) -> Iterator[Finding]:
    for one in answers:
        if one.failed is Stage.TLS and one.certificate is not None and one.address not in known:
            message = f"mmtool does not accept the certificate of the broker of {alias} at {one.address}: {one.reason}"
            yield problem(alias, one.address, message, _refusal_remedy(one))


def _refusal_remedy(one: ListenerAnswer) -> str:
    host = one.address.rpartition(":")[0]
    store = f"{one.entrance.name}.ssl.truststore.location"
    if one.fault is CertificateFault.EXPIRED:
        return (
            f"{_RENEW_THEIRS}; if the CA's own certificate has expired, import the current one into {store}"
        )
    if one.fault is CertificateFault.NOT_YET_VALID:
        return CHECK_CLOCKS
    if one.fault is CertificateFault.OTHER_HOST:
        where = (
            f"{one.entrance.name}.bootstrap.servers"
            if one.broker is None
            else f"advertised.listeners of broker {one.broker}"
        )
        return (
            f"issue the broker's certificate with the subject alternative name {host}, or set {where} to a host name"
            f" that the certificate has; an empty {one.entrance.name}.ssl.endpoint.identification.algorithm turns the"
            " check off"
        )
    return f"import the certificate of the CA that signed the broker's certificate into {store}"


def _date(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}"
