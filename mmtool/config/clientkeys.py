"""The table of Java client properties: their types, limits and roles, and their librdkafka equivalents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from mmtool.config.values import parse_boolean, parse_integer

if TYPE_CHECKING:
    from mmtool.config.scopes import Role


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TABLE = """
    allow.auto.create.topics                  c    boolean
    auto.commit.interval.ms                   c    int 0
    auto.include.jmx.reporter                 acp  boolean
    auto.offset.reset                         c    text
    batch.size                                p    int 0
    bootstrap.controllers                     a    text
    buffer.memory                             p    long 0
    check.crcs                                c    boolean
    client.dns.lookup                         acp  word use_all_dns_ips resolve_canonical_bootstrap_servers_only default
    client.id                                 acp  text
    client.rack                               acp  text
    compression.gzip.level                    p    int -1 9
    compression.lz4.level                     p    int 1 17
    compression.type                          p    word none gzip snappy lz4 zstd
    compression.zstd.level                    p    int -131072 22
    acks                                      p    word all -1 0 1
    connections.max.idle.ms                   acp  long
    default.api.timeout.ms                    ac   int 0
    delivery.timeout.ms                       p    int 0
    enable.auto.commit                        c    boolean
    enable.idempotence                        p    boolean
    enable.metrics.push                       acp  boolean
    exclude.internal.topics                   c    boolean
    fetch.max.bytes                           c    int 0
    fetch.max.wait.ms                         c    int 0
    fetch.min.bytes                           c    int 0
    group.id                                  c    text
    group.instance.id                         c    text
    group.protocol                            c    text
    group.remote.assignor                     c    text
    heartbeat.interval.ms                     c    int
    interceptor.classes                       cp   text
    isolation.level                           c    word read_committed read_uncommitted
    key.deserializer                          c    text
    key.serializer                            p    text
    linger.ms                                 p    long 0
    max.block.ms                              p    long 0
    max.in.flight.requests.per.connection     p    int 1
    max.partition.fetch.bytes                 c    int 0
    max.poll.interval.ms                      c    int 1
    max.poll.records                          c    int 1
    max.request.size                          p    int 0
    metadata.max.age.ms                       acp  long 0
    metadata.max.idle.ms                      p    long 5000
    metadata.recovery.rebootstrap.trigger.ms  acp  long 0
    metadata.recovery.strategy                acp  text
    metric.reporters                          acp  text
    metrics.num.samples                       acp  int 1
    metrics.recording.level                   acp  text
    metrics.sample.window.ms                  acp  long 0
    partition.assignment.strategy             c    text
    partitioner.adaptive.partitioning.enable  p    boolean
    partitioner.availability.timeout.ms       p    long 0
    partitioner.class                         p    text
    partitioner.ignore.keys                   p    boolean
    receive.buffer.bytes                      acp  int -1
    reconnect.backoff.max.ms                  acp  long 0
    reconnect.backoff.ms                      acp  long 0
    request.timeout.ms                        acp  int 0
    retries                                   ap   int 0
    retry.backoff.max.ms                      acp  long 0
    retry.backoff.ms                          acp  long 0
    security.providers                        acp  text
    send.buffer.bytes                         acp  int -1
    session.timeout.ms                        c    int
    socket.connection.setup.timeout.max.ms    acp  long
    socket.connection.setup.timeout.ms        acp  long
    transaction.timeout.ms                    p    int
    transaction.two.phase.commit.enable       p    boolean
    transactional.id                          p    text
    value.deserializer                        c    text
    value.serializer                          p    text
"""
"""Java's client properties without security keys: name, roles by their first letters, type, least and greatest.

From ``ConsumerConfig``, ``ProducerConfig`` and ``AdminClientConfig`` of kafka-clients 4.3.1, and older names.
"""

_LARGEST = {"int": 2**31 - 1, "long": 2**63 - 1}


@dataclass(frozen=True, slots=True)
class ClientKey:
    """One property of Java's clients.

    Attributes:
        name: Without scope.
        roles: Which clients have it, by first letters.
        kind: int, long, boolean, word or text.
        words: The limits of a number, or the valid words.
    """

    name: str
    roles: str
    kind: str
    words: tuple[str, ...]

    def check(self, text: str) -> None:
        """Raise ValueError for a value that Java's clients refuse; the message says what they expect."""
        if self.kind in _LARGEST:
            greatest = _LARGEST[self.kind]
            least, most = (*map(int, self.words), *(-greatest - 1, greatest)[len(self.words) :])
            parse_integer(text, least, most)
        elif self.kind == "boolean":
            parse_boolean(text)
        elif self.kind == "word" and text.strip().lower() not in self.words:
            raise ValueError(" or ".join(self.words))


def _key(line: str) -> ClientKey:
    name, roles, kind, *words = line.split()
    return ClientKey(name, roles, kind, tuple(words))


CLIENT_KEYS = {key.name: key for key in map(_key, _TABLE.strip().splitlines())}

HIDDEN_SECURITY_KEYS = _words("""
    sasl.jaas.config sasl.username sasl.password
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.password
    ssl.truststore.certificates ssl.truststore.password
""")
"""Java's and librdkafka's security keys that mmtool reads and never shows."""

_SHOWN_SECURITY_KEYS = _words("""
    bootstrap.servers security.protocol sasl.mechanism ssl.endpoint.identification.algorithm
    ssl.keystore.location ssl.keystore.type ssl.truststore.location ssl.truststore.type
    ssl.ca.location ssl.certificate.location ssl.key.location
    sasl.login.callback.handler.class sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.scope
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.sub.claim.name
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.retry.backoff.ms
    sasl.login.retry.backoff.max.ms sasl.login.refresh.window.factor
""")
_SHOWN_TEXTS = _words("auto.offset.reset client.id client.rack ssl.enabled.protocols ssl.protocol")

SECURITY_KEYS = HIDDEN_SECURITY_KEYS | _SHOWN_SECURITY_KEYS
"""Java's and librdkafka's security keys that mmtool reads."""

UNUSED_SECURITY_KEYS = _words("""
    sasl.client.callback.handler.class sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.class sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.jitter sasl.oauthbearer.allow.unverified.audience
    sasl.oauthbearer.allow.unverified.issuer sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope.claim.name
    ssl.cipher.suites ssl.enabled.protocols ssl.engine.factory.class ssl.keymanager.algorithm
    ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
""")
"""Java's other security keys: without effect, or refused where ignoring them would be wrong."""


@dataclass(frozen=True, slots=True)
class _Equal:
    """What librdkafka calls a property of Java's clients, and the values that it takes."""

    name: str
    least: int
    greatest: int


_INT = _LARGEST["int"]
_CONNECTING = {
    "connections.max.idle.ms": _Equal("connections.max.idle.ms", 10_000, _INT),
    "metadata.max.age.ms": _Equal("metadata.max.age.ms", 1, 86_400_000),
    "receive.buffer.bytes": _Equal("socket.receive.buffer.bytes", 0, 100_000_000),
    "reconnect.backoff.max.ms": _Equal("reconnect.backoff.max.ms", 0, 3_600_000),
    "reconnect.backoff.ms": _Equal("reconnect.backoff.ms", 0, 3_600_000),
    "retry.backoff.max.ms": _Equal("retry.backoff.max.ms", 1, 300_000),
    "retry.backoff.ms": _Equal("retry.backoff.ms", 1, 300_000),
    "send.buffer.bytes": _Equal("socket.send.buffer.bytes", 0, 100_000_000),
    "socket.connection.setup.timeout.ms": _Equal("socket.connection.setup.timeout.ms", 1000, _INT),
}
"""Properties that reach a client: how librdkafka connects. mmtool fetches and writes by itself.

librdkafka takes ``connections.max.idle.ms`` from 0 on; below 10 s it ends connections that wait for an answer (tried).
"""

_OFF = {"connections.max.idle.ms", "receive.buffer.bytes", "send.buffer.bytes"}
"""Properties whose -1 in Java is 0 in librdkafka: never, or the system's own size."""

_DNS = "client.dns.lookup"
_NO_DEFAULT = "Kafka 4.0 removed the value `default`; mmtool uses use_all_dns_ips"
_READ_BY_FLOWS = {"isolation.level", "auto.offset.reset"}


@dataclass(frozen=True, slots=True)
class Passed:
    """The value of a property that a librdkafka client gets.

    Attributes:
        name: librdkafka's.
        value: Within its bounds; None: left out.
        note: How that differs from the file; empty when it does not.
    """

    name: str
    value: str | None
    note: str = ""


def librdkafka_value(java_name: str, text: str) -> Passed | None:
    """The librdkafka property that a Java property sets, with its value; None where it does not reach a client.

    Args:
        java_name: The property, without its scope.
        text: A value that Java's clients take.
    """
    if java_name == _DNS:
        word = text.strip().lower()
        gone = word == "default"
        return Passed(_DNS, None if gone else word, _NO_DEFAULT if gone else "")
    equal = _CONNECTING.get(java_name)
    if equal is None:
        return None
    asked = int(text)
    if asked < 0 and java_name in _OFF:
        return Passed(equal.name, "0")
    used = min(max(asked, equal.least), equal.greatest)
    bounds = f"librdkafka accepts {equal.least} to {equal.greatest}; mmtool uses {used}"
    return Passed(equal.name, str(used), "" if used == asked else bounds)


def java_names(librdkafka_name: str) -> tuple[str, ...]:
    """Java's names of a librdkafka property."""
    return tuple(name for name, equal in _CONNECTING.items() if equal.name == librdkafka_name)


def has_effect(role: Role, name: str) -> bool:
    """Whether a property of that role's clients has an effect; of a producer none has: mmtool's is its own."""
    if role == "consumer" and name in _READ_BY_FLOWS:
        return True
    return role != "producer" and (name in _CONNECTING or name == _DNS)


def may_show_client_key(name: str) -> bool:
    """Whether the value of a client property, without its scope, can be printed; of an unknown one it cannot."""
    key = CLIENT_KEYS.get(name)
    return name in _SHOWN_SECURITY_KEYS | _SHOWN_TEXTS or (key is not None and key.kind != "text")


@cache
def client_keys(role: Role) -> frozenset[str]:
    """Every property that a Java client of that role may have, without security keys."""
    return frozenset(name for name, key in CLIENT_KEYS.items() if role[0] in key.roles)
