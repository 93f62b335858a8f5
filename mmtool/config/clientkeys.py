"""Java client properties: which there are, and what librdkafka calls the ones it has too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtool.config.scopes import Role


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SAME_NAME = {
    "admin": _words("""
        client.dns.lookup client.rack connections.max.idle.ms metadata.max.age.ms reconnect.backoff.max.ms
        reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms socket.connection.setup.timeout.ms
    """),
    "consumer": _words("""
        auto.offset.reset check.crcs fetch.max.bytes fetch.min.bytes heartbeat.interval.ms isolation.level
        max.partition.fetch.bytes max.poll.interval.ms session.timeout.ms
    """),
    "producer": _words("""
        acks batch.size compression.type delivery.timeout.ms enable.idempotence linger.ms
        max.in.flight.requests.per.connection request.timeout.ms retries
    """),
}
"""The same name and meaning in librdkafka; the admin's are common to all roles."""

_OTHER_NAME = {
    "admin": {
        "receive.buffer.bytes": "socket.receive.buffer.bytes",
        "send.buffer.bytes": "socket.send.buffer.bytes",
    },
    "consumer": {"fetch.max.wait.ms": "fetch.wait.max.ms"},
    "producer": {"max.request.size": "message.max.bytes"},
}

_JAVA_ONLY = _words("""
    allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter bootstrap.controllers
    buffer.memory client.id compression.gzip.level compression.lz4.level compression.zstd.level
    default.api.timeout.ms enable.auto.commit enable.metrics.push exclude.internal.topics group.id
    group.instance.id group.protocol group.remote.assignor interceptor.classes key.deserializer key.serializer
    max.block.ms max.poll.records metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms
    metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms partition.assignment.strategy partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys request.timeout.ms
    retries security.providers socket.connection.setup.timeout.max.ms transaction.timeout.ms
    transaction.two.phase.commit.enable transactional.id value.deserializer value.serializer
""")

SECURITY_KEYS = _words("""
    bootstrap.servers security.protocol sasl.jaas.config sasl.mechanism
    ssl.endpoint.identification.algorithm ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key
    ssl.keystore.location ssl.keystore.type ssl.truststore.certificates ssl.truststore.location
    ssl.truststore.type
    sasl.username sasl.password ssl.ca.location ssl.certificate.location ssl.key.location
""")
"""The ones that mean something here; the last line's are not Java's but librdkafka's."""

UNUSED_SECURITY_KEYS = _words("""
    sasl.client.callback.handler.class sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms
    sasl.login.retry.backoff.ms sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode
    sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
    ssl.cipher.suites ssl.enabled.protocols ssl.engine.factory.class ssl.keymanager.algorithm
    ssl.keystore.password ssl.protocol ssl.provider ssl.secure.random.implementation
    ssl.trustmanager.algorithm ssl.truststore.password
""")
"""Java's other ones: known, and without effect (or refused where ignoring them would be wrong)."""


def librdkafka_name(role: Role, java_name: str) -> str | None:
    """What librdkafka calls a Java client property in that role, or None when it has no such thing."""
    for table in dict.fromkeys(("admin", role)):
        if java_name in _SAME_NAME[table]:
            return java_name
        if java_name in _OTHER_NAME[table]:
            return _OTHER_NAME[table][java_name]
    return None


def client_keys(role: Role) -> frozenset[str]:
    """Every property that a Java client of that role may have, security keys excepted."""
    named = {
        name for table in dict.fromkeys(("admin", role)) for name in (*_SAME_NAME[table], *_OTHER_NAME[table])
    }
    return _JAVA_ONLY | named
