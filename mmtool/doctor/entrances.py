"""What listeners told: which of them can be reached, who is let in, and how long certificates are valid."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from mmtool.doctor.finding import Check, ok, problem, warning
from mmtool.doctor.releases import release_of
from mmtool.kafka.admin.details import Stage
from mmtool.plan.words import counted, few

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mmtool.config.settings import Security
    from mmtool.doctor.finding import Finding
    from mmtool.doctor.releases import Release
    from mmtool.kafka.admin.details import ListenerAnswer

SOON = timedelta(days=30)
"""A certificate that expires earlier than this is named."""
_LOGIN = {Stage.MECHANISM, Stage.LOGIN, Stage.CLIENT_CERTIFICATE}
_BY_CERTIFICATE = {Stage.TLS, Stage.CLIENT_CERTIFICATE}


# --- listeners --------------------------------------------------------------------------------------------


def judge_listeners(alias: str, answers: Sequence[ListenerAnswer]) -> Iterator[Finding]:
    """Listeners that cannot be reached. A refused login and a bad certificate have rows of their own.

    A dead bootstrap server is a warning while another one of its entrance answers.
    """
    dead = [one for one in answers if one.failed and one.failed not in _LOGIN]
    if not dead:
        yield ok(Check.LISTENERS, alias, _all_answer(answers))
    for one in dead:
        yield _unreachable(alias, one, _others_answer(one, answers))


def _all_answer(answers: Sequence[ListenerAnswer]) -> str:
    brokers = {one.broker for one in answers if one.broker is not None}
    return f"{counted(len(brokers), 'broker')} at {counted(len({a.address for a in answers}), 'address')}"


def _others_answer(one: ListenerAnswer, answers: Iterable[ListenerAnswer]) -> bool:
    return any(not other.failed for other in answers if other.entrance.name == one.entrance.name)


def _unreachable(alias: str, one: ListenerAnswer, others_answer: bool) -> Finding:
    if one.broker is None:
        say = warning if others_answer else problem
        message = f"bootstrap server {one.address} of {one.entrance.name} {_why(one)}"
        return say(Check.LISTENERS, alias, one.address, message, _bootstrap_remedy(one))
    message = f"broker {one.broker} advertises {one.address}, which {_why(one)}"
    return problem(Check.LISTENERS, alias, one.address, message, _advertised_remedy(one))


def _why(one: ListenerAnswer) -> str:
    said = {
        Stage.RESOLVE: "cannot be resolved from this host",
        Stage.CONNECT: "cannot be reached from this host",
        Stage.TLS: "fails at TLS",
        Stage.ANSWER: "does not answer",
    }
    stage = one.failed or Stage.ANSWER
    return f"{said.get(stage, 'does not answer')}: {one.reason}"


def _bootstrap_remedy(one: ListenerAnswer) -> str:
    key = f"{one.entrance.name}.bootstrap.servers"
    if one.failed in _BY_CERTIFICATE or one.failed is Stage.ANSWER:
        return f"check {one.entrance.name}.security.protocol and its ssl.* keys, and that {one.address} is up"
    return f"start the broker, correct {key}, or take {one.address} out of it"


def _advertised_remedy(one: ListenerAnswer) -> str:
    if one.failed is Stage.TLS:
        return f"see the certificate rows; check {one.entrance.name}.ssl.* and the broker's key store"
    return (
        f"set advertised.listeners of broker {one.broker} to a name that this host and every Spark worker reach,"
        " or open DNS and firewall to it"
    )


def judge_away(alias: str, answers: Sequence[ListenerAnswer]) -> Finding | None:
    """The ``reachability`` row of a cluster of which no listener lets us in; None where one does."""
    if not answers or not all(one.failed for one in answers):
        return None
    tried, first = few(list(dict.fromkeys(one.address for one in answers)), 3), answers[0]
    if first.failed in _LOGIN:
        message = f"cluster {alias} refuses the login at {tried}: {first.reason}"
        remedy = f"see the authentication row of {alias}"
    elif first.certificate is not None:
        message = f"the certificate of cluster {alias} is refused at {tried}: {first.reason}"
        remedy = f"see the certificate row of {alias}"
    else:
        message = f"cluster {alias} does not answer at {tried}: {first.reason}"
        remedy = f"start its brokers, or correct {alias}.bootstrap.servers and {alias}.security.protocol"
    return problem(Check.REACHABILITY, alias, "", message, remedy)


# --- authentication ---------------------------------------------------------------------------------------


def judge_authentication(
    alias: str, security: Security, principal: str, answers: Sequence[ListenerAnswer]
) -> Iterator[Finding]:
    """Refused logins: one row for each reason, with the listeners that gave it. Never a secret."""
    refused: dict[tuple[str, Stage, str], list[ListenerAnswer]] = {}
    for one in answers:
        if one.failed in _LOGIN:
            refused.setdefault((one.entrance.name, one.failed, one.reason), []).append(one)
    for (name, stage, reason), ones in refused.items():
        addresses = few([one.address for one in ones], 3)
        tried = _tried(ones[0].entrance.security)
        message = f"{addresses} refuses {tried} of {name}: {reason}"
        yield problem(Check.AUTHENTICATION, alias, name, message, _login_remedy(name, stage))
    if not refused and any(not one.failed for one in answers):
        yield ok(Check.AUTHENTICATION, alias, f"{_tried(security)} is accepted, as {principal}")
    elif not refused:
        yield warning(
            Check.AUTHENTICATION,
            alias,
            "",
            "no listener answers, so no login was tried",
            f"see the reachability row of {alias}",
        )


def _tried(security: Security) -> str:
    if security.sasl is not None:
        return f"{security.sasl.mechanism} as user {security.sasl.username}"
    if security.certificate is not None:
        return f"the client certificate {security.certificate.origin}"
    return f"{security.protocol} without a login"


def _login_remedy(name: str, stage: Stage) -> str:
    return {
        Stage.MECHANISM: f"set {name}.sasl.mechanism to one of them, or enable it with the broker's "
        "sasl.enabled.mechanisms",
        Stage.CLIENT_CERTIFICATE: f"set {name}.ssl.keystore.location to a certificate that the brokers' trust store "
        "knows",
    }.get(stage, f"check {name}.security.protocol, {name}.sasl.mechanism and {name}.sasl.jaas.config")


# --- certificates -----------------------------------------------------------------------------------------


class ShownCertificate(NamedTuple):
    """A certificate as far as it matters here.

    Attributes:
        what: ``certificate CN=...`` with where it comes from.
        subject: The row's.
        is_theirs: A broker shows it.
        is_own: It is the client's own; else one of those that are trusted.
        is_alone: Nothing beside it does the same, as another authority that is trusted.
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
    """Certificates that have expired or soon will, and those that are refused."""
    found = [
        *_dates(alias, shown, now),
        *_refused(alias, answers, {one.subject for one in _late(shown, now)}),
    ]
    if found:
        yield from found
    elif not shown:
        yield ok(Check.CERTIFICATE, alias, "no certificate is used")
    else:
        first = min(shown, key=lambda one: one.ends)
        message = (
            f"{counted(len(shown), 'certificate')}; the first expires on {_date(first.ends)}: {first.what}"
        )
        yield ok(Check.CERTIFICATE, alias, message)


def _late(shown: Iterable[ShownCertificate], now: datetime) -> list[ShownCertificate]:
    return [one for one in shown if one.ends < now or one.begins > now]


def _dates(alias: str, shown: Iterable[ShownCertificate], now: datetime) -> Iterator[Finding]:
    for one in shown:
        remedy = _renew(one)
        if one.ends < now:
            say = problem if one.is_alone or one.is_theirs else warning
            yield say(
                Check.CERTIFICATE, alias, one.subject, f"{one.what} expired on {_date(one.ends)}", remedy
            )
        elif one.begins > now:
            message = f"{one.what} is not valid before {_date(one.begins)}"
            yield problem(
                Check.CERTIFICATE, alias, one.subject, message, "check the clocks, or issue it again"
            )
        elif one.ends - now < SOON:
            left = counted(max((one.ends - now).days, 0), "day")
            message = f"{one.what} expires on {_date(one.ends)}, in {left}"
            yield warning(Check.CERTIFICATE, alias, one.subject, message, remedy)


def _renew(one: ShownCertificate) -> str:
    if one.is_theirs:
        return "renew the broker's certificate in ssl.keystore.location; brokers take a changed store without a restart"
    if one.is_own:
        return "renew the client certificate; a running `mmtool replicate` has to be started again"
    return "import the authority's current certificate into the trust store"


def _refused(alias: str, answers: Iterable[ListenerAnswer], known: set[str]) -> Iterator[Finding]:
    for one in answers:
        if one.failed is Stage.TLS and one.certificate is not None and one.address not in known:
            message = f"the certificate that {one.address} shows is refused: {one.reason}"
            yield problem(Check.CERTIFICATE, alias, one.address, message, _refusal_remedy(one))


def _refusal_remedy(one: ListenerAnswer) -> str:
    host = one.address.rpartition(":")[0]
    if "ostname" in one.reason or "IP address" in one.reason:
        return (
            f"issue the broker's certificate for {host} (subject alternative name), advertise a name that it has, or"
            f" set {one.entrance.name}.ssl.endpoint.identification.algorithm to nothing"
        )
    return (
        f"import the authority of the broker's certificate into {one.entrance.name}.ssl.truststore.location"
    )


def _date(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


# --- versions ---------------------------------------------------------------------------------------------


class Floor(NamedTuple):
    """What a role needs at least."""

    role: str
    major: int
    minor: int


SOURCE_FLOOR = Floor("source", 2, 1)
TARGET_FLOOR = Floor("target", 2, 5)
_TOPIC_IDS = (2, 8)


def judge_versions(alias: str, answers: Sequence[ListenerAnswer], floor: Floor) -> Iterator[Finding]:
    """Brokers that are too old, and an upgrade under way."""
    found: dict[Release, list[str]] = {}
    for one in answers:
        if one.apis is not None:
            name = one.address if one.broker is None else f"broker {one.broker}"
            names = found.setdefault(release_of(one.apis), [])
            names.extend([name] if name not in names else [])
    if not found:
        message = "no broker says what it speaks"
        yield warning(Check.VERSIONS, alias, "", message, f"see the reachability row of {alias}")
        return
    findings = [*_old(alias, found, floor), *_mixed(alias, found)]
    yield from findings or [ok(Check.VERSIONS, alias, f"Kafka {next(iter(found))}")]


def _old(alias: str, found: dict[Release, list[str]], floor: Floor) -> Iterator[Finding]:
    oldest = min(found)
    if oldest[:2] < (floor.major, floor.minor):
        message = f"{few(found[oldest])} of Kafka {oldest} or before: a {floor.role} needs {floor.major}.{floor.minor}"
        yield problem(Check.VERSIONS, alias, "", message, "upgrade the brokers")
    elif oldest[:2] < _TOPIC_IDS:
        message = (
            f"{few(found[oldest])} of Kafka {oldest}, before topic ids (2.8): a topic that is deleted and created again"
            " cannot be distinguished from the deleted one"
        )
        yield warning(Check.VERSIONS, alias, "", message, "upgrade the brokers to 2.8 or later")


def _mixed(alias: str, found: dict[Release, list[str]]) -> Iterator[Finding]:
    if len(found) > 1:
        each = "; ".join(f"Kafka {release}: {few(names)}" for release, names in sorted(found.items()))
        message = f"brokers of {len(found)} releases, as while an upgrade is under way: {each}"
        yield warning(Check.VERSIONS, alias, "", message, "finish the upgrade before a failover")
