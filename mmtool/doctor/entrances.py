"""Judge the answers of listeners: reachability, authentication, certificates, versions, and broker releases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from mmtool.config.credentials import MskLogin, OAuthLogin, PasswordLogin
from mmtool.doctor.finding import Check, ok, problem, warning
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.admin.listeners import CertificateFault, Stage
from mmtool.kafka.errors import UNPROVEN, remedy_of
from mmtool.keystores.certificates import CHECK_CLOCKS
from mmtool.plan.words import are, counted, few

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mmtool.config.credentials import Sasl, Security
    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.listeners import ListenerAnswer
    from mmtool.kafka.wire.api_versions import SpokenApis


METADATA_VERSION = "metadata.version"


class Release(NamedTuple):
    """A Kafka release, as far as it can be derived.

    Attributes:
        is_newer: Newer than the newest that mmtool knows.
    """

    major: int
    minor: int
    is_newer: bool = False

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}" + (" or later" if self.is_newer else "")


OLDEST = Release(2, 0)
"""The oldest release that can be derived; earlier ones look the same."""

_BY_LEVEL = (
    (34, Release(4, 4, is_newer=True)),
    (31, Release(4, 4)),
    (30, Release(4, 3)),
    (28, Release(4, 2)),
    (26, Release(4, 1)),
    (22, Release(4, 0)),
    (21, Release(3, 9)),
    (20, Release(3, 8)),
    (15, Release(3, 7)),
    (12, Release(3, 6)),
    (9, Release(3, 5)),
    (8, Release(3, 4)),
    (4, Release(3, 3)),
)
"""The lowest ``metadata.version`` that only this release and later ones know (``MetadataVersion``), newest first."""

_BY_API = (
    (1, 17, Release(3, 9)),
    (1, 16, Release(3, 7)),
    (1, 14, Release(3, 5)),
    (35, 4, Release(3, 3)),
    (11, 8, Release(3, 2)),
    (1, 13, Release(3, 1)),
    (65, 0, Release(3, 0)),
    (60, 0, Release(2, 8)),
    (1, 12, Release(2, 7)),
    (48, 0, Release(2, 6)),
    (9, 7, Release(2, 5)),
    (47, 0, Release(2, 4)),
    (3, 8, Release(2, 3)),
    (11, 4, Release(2, 2)),
    (1, 10, Release(2, 1)),
)
"""An API's number and a version that came with a release (Kafka's protocol guide), newest first: with ZooKeeper."""


def release_of(spoken: SpokenApis) -> Release:
    """The newest release by a broker's feature levels, else by its API versions."""
    level = spoken.features.get(METADATA_VERSION, 0)
    by_level = (release for mark, release in _BY_LEVEL if level >= mark)
    by_api = (release for api, version, release in _BY_API if spoken.versions.get(api, (0, -1))[1] >= version)
    return next(by_level, None) or next(by_api, OLDEST)


SOON = timedelta(days=30)
"""Certificates that expire within this time are reported."""
LOGIN_STAGES = {Stage.MECHANISM, Stage.NO_LOGIN, Stage.LOGIN, Stage.PROOF, Stage.CLIENT_CERTIFICATE}
"""A listener that fails at one of these is there, and the login fails."""
_BY_CERTIFICATE = {Stage.TLS, Stage.CLIENT_CERTIFICATE}
_RENEW_THEIRS = (
    "renew the certificate in the broker's ssl.keystore.location, and reload it or restart the broker"
)
_READ_AGAIN = "a running `mmtool replicate` reads the new certificate by itself"


# --- listeners --------------------------------------------------------------------------------------------


def judge_listeners(alias: str, answers: Sequence[ListenerAnswer]) -> Iterator[Finding]:
    """Findings about listeners that cannot be reached; refused logins and bad certificates have rows of their own.

    An unreachable bootstrap server is a warning while another server of the same property answers.
    """
    dead = [one for one in answers if one.failed and one.failed not in LOGIN_STAGES]
    if not dead:
        yield ok(Check.LISTENERS, alias, _all_answer(answers))
    for one in dead:
        yield _unreachable(alias, one, _others_answer(one, answers))


def _all_answer(answers: Sequence[ListenerAnswer]) -> str:
    brokers = {one.broker for one in answers if one.broker is not None}
    addresses = {one.address for one in answers}
    if not brokers:
        reached = counted(len(addresses), "bootstrap server")
        return f"this host can connect to {reached}; the listeners of the brokers are unknown"
    listed = f"{counted(len(brokers), 'broker')} at {counted(len(addresses), 'address')}"
    return f"every known listener answers this host ({listed})"


def _others_answer(one: ListenerAnswer, answers: Iterable[ListenerAnswer]) -> bool:
    return any(not other.failed for other in answers if other.entrance.name == one.entrance.name)


def _unreachable(alias: str, one: ListenerAnswer, others_answer: bool) -> Finding:
    if one.broker is None:
        say = warning if others_answer else problem
        spared = f"; other listeners of {alias} answer" if others_answer else ""
        message = f"bootstrap server {one.address} of {one.entrance.name} {_why(one)}{spared}"
        return say(Check.LISTENERS, alias, one.address, message, _bootstrap_remedy(one))
    message = (
        f"broker {one.broker} of {alias} advertises {one.address}, which {_why(one)}; partitions that this broker leads"
        " cannot be mirrored from this host"
    )
    return problem(Check.LISTENERS, alias, one.address, message, _advertised_remedy(one))


def _why(one: ListenerAnswer) -> str:
    said = {
        Stage.RESOLVE: "cannot be resolved from this host",
        Stage.CONNECT: "cannot be reached from this host",
        Stage.TLS: "fails at TLS",
        Stage.PROTOCOL: "does not speak Kafka's protocol",
    }
    return f"{said.get(one.failed or Stage.ANSWER, 'does not answer')}: {one.reason}"


def _bootstrap_remedy(one: ListenerAnswer) -> str:
    key = f"{one.entrance.name}.bootstrap.servers"
    if one.failed is Stage.PROTOCOL:
        return (
            f"correct {one.address} in {key} if it is no listener of Kafka; else set"
            f" {one.entrance.name}.security.protocol to the protocol of the listener (a TLS listener needs SSL or"
            " SASL_SSL)"
        )
    if one.failed in _BY_CERTIFICATE or one.failed is Stage.ANSWER:
        return (
            f"check that {one.entrance.name}.security.protocol and {one.entrance.name}.ssl.* match the listener"
            f" at {one.address}; if they do, check that a broker answers there, and not only a load balancer"
        )
    if one.failed is Stage.RESOLVE:
        return f"correct {key}, or make the name resolvable from this host (DNS, /etc/hosts)"
    return f"start the broker; if it runs, open its firewall for this host, or correct {key}"


def _advertised_remedy(one: ListenerAnswer) -> str:
    if one.failed is Stage.TLS:
        return (
            f"do what the certificate row of {one.address} says; without such a row, check that"
            f" {one.entrance.name}.security.protocol and {one.entrance.name}.ssl.* match this listener"
        )
    if one.failed in {Stage.ANSWER, Stage.PROTOCOL}:
        return (
            f"check that {one.entrance.name}.security.protocol matches this listener, and that broker {one.broker} is"
            " healthy"
        )
    how = (
        "name resolvable (DNS, /etc/hosts)" if one.failed is Stage.RESOLVE else "address reachable (firewall)"
    )
    return (
        f"make this {how} from this host and every Spark worker, or set advertised.listeners of broker {one.broker} to"
        " an address that this host and the Spark workers can reach"
    )


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
        remedy = _bootstrap_remedy(first)
    return UnreachableError(message, remedy=remedy)


# --- authentication ---------------------------------------------------------------------------------------


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
        yield problem(Check.AUTHENTICATION, alias, name, message, remedy)
    if not refused and any(not one.failed for one in answers):
        yield ok(
            Check.AUTHENTICATION,
            alias,
            f"connections with {_tried(security)} are accepted (principal {principal})",
        )
    elif not refused:
        yield warning(
            Check.AUTHENTICATION,
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
        yield ok(
            Check.CERTIFICATE,
            alias,
            "no certificate to check: the properties file sets none, and no broker showed one",
        )
    else:
        first = min(shown, key=lambda one: one.ends)
        count = counted(len(shown), "certificate")
        message = f"{count} {are(len(shown))} valid; the first expires on {_date(first.ends)}: {first.what}"
        yield ok(Check.CERTIFICATE, alias, message)


def _dates(alias: str, shown: Iterable[ShownCertificate], now: datetime) -> Iterator[Finding]:
    for one in shown:
        remedy = _renew(one)
        if one.ends < now:
            say = problem if one.is_alone or one.is_theirs else warning
            message = f"{one.what} expired on {_date(one.ends)}: {_cost(alias, one)}"
            yield say(Check.CERTIFICATE, alias, one.subject, message, remedy)
        elif one.begins > now:
            message = f"{one.what} is not valid before {_date(one.begins)}: {_cost(alias, one)}"
            yield problem(Check.CERTIFICATE, alias, one.subject, message, CHECK_CLOCKS)
        elif one.ends - now < SOON:
            left = counted(max((one.ends - now).days, 0), "day")
            message = f"{one.what} expires on {_date(one.ends)}, in {left}; from then on {_cost(alias, one)}"
            yield warning(Check.CERTIFICATE, alias, one.subject, message, remedy)


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
            yield problem(Check.CERTIFICATE, alias, one.address, message, _refusal_remedy(one))


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


# --- versions ---------------------------------------------------------------------------------------------


class Floor(NamedTuple):
    """The minimum that a role needs."""

    role: str
    major: int
    minor: int


SOURCE_FLOOR = Floor("source", 2, 1)
TARGET_FLOOR = Floor("target", 2, 5)
_TOPIC_IDS = (2, 8)


def judge_versions(alias: str, answers: Sequence[ListenerAnswer], floor: Floor) -> Iterator[Finding]:
    """Findings about brokers that are too old, and about an upgrade in progress."""
    found: dict[Release, list[str]] = {}
    for one in answers:
        if one.apis is not None:
            name = one.address if one.broker is None else f"broker {one.broker}"
            names = found.setdefault(release_of(one.apis), [])
            names.extend([name] if name not in names else [])
    if not found:
        message = f"the Kafka release of {alias} was not checked: no broker answered the request for its API versions"
        yield warning(
            Check.VERSIONS, alias, "", message, f"see the listeners and authentication rows of {alias}"
        )
        return
    findings = [*_old(alias, found, floor), *_mixed(alias, found)]
    yield from findings or [ok(Check.VERSIONS, alias, f"Kafka {next(iter(found))}")]


def _old(alias: str, found: dict[Release, list[str]], floor: Floor) -> Iterator[Finding]:
    oldest = min(found)
    needed = f"{floor.major}.{floor.minor}"
    if oldest[:2] < (floor.major, floor.minor):
        message = (
            f"{few(found[oldest])} of {alias} {_run(found[oldest])} {_named(oldest)}: a {floor.role} cluster needs"
            f" Kafka {needed} or later"
        )
        yield problem(Check.VERSIONS, alias, "", message, f"upgrade the brokers to {needed} or later")
    elif oldest[:2] < _TOPIC_IDS:
        message = (
            f"{few(found[oldest])} of {alias} {_run(found[oldest])} {_named(oldest)}, which has no topic ids: mmtool"
            " cannot distinguish a topic that is deleted and created again from the deleted one"
        )
        yield warning(Check.VERSIONS, alias, "", message, "upgrade the brokers to 2.8 or later")


def _run(brokers: Sequence[str]) -> str:
    return "runs" if len(brokers) == 1 else "run"


def _named(release: Release) -> str:
    """A broker's release in words; the oldest one that can be derived includes all earlier ones."""
    return f"Kafka {release} or earlier" if release == OLDEST else f"Kafka {release}"


def _mixed(alias: str, found: dict[Release, list[str]]) -> Iterator[Finding]:
    if len(found) > 1:
        each = "; ".join(f"{_named(release)}: {few(names)}" for release, names in sorted(found.items()))
        message = (
            f"brokers of {alias} run {len(found)} releases ({each}), as during an upgrade: a broker that restarts"
            " delays a failover"
        )
        yield warning(Check.VERSIONS, alias, "", message, "complete the upgrade before a planned failover")
