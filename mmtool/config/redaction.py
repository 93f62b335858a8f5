"""Redact configuration values by an allow-list: a key that is not on it is hidden."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

HIDDEN = "[hidden]"
"""The text in place of a hidden value, as Kafka shows a password-typed config."""

_SHOWN_CLIENT_KEYS = frozenset(
    """
    acks allow.auto.create.topics auto.offset.reset batch.size bootstrap.servers buffer.memory
    check.crcs client.dns.lookup client.id client.rack compression.type compression.gzip.level
    compression.lz4.level compression.zstd.level connections.max.idle.ms default.api.timeout.ms
    delivery.timeout.ms enable.auto.commit enable.idempotence fetch.max.bytes fetch.max.wait.ms
    fetch.min.bytes isolation.level linger.ms max.block.ms max.in.flight.requests.per.connection
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records max.request.size metadata.max.age.ms
    receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries
    retry.backoff.max.ms retry.backoff.ms sasl.mechanism security.protocol send.buffer.bytes
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    ssl.endpoint.identification.algorithm ssl.keystore.type ssl.truststore.type ssl.keystore.location
    ssl.truststore.location ssl.ca.location ssl.certificate.location ssl.key.location ssl.protocol
    ssl.enabled.protocols sasl.login.callback.handler.class sasl.oauthbearer.token.endpoint.url
    sasl.oauthbearer.scope sasl.oauthbearer.header.urlencode sasl.oauthbearer.sub.claim.name
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.retry.backoff.ms
    sasl.login.retry.backoff.max.ms sasl.login.refresh.window.factor
    """.split()  # noqa: SIM905 - one word per line would be sixty lines
)
_SHOWN_SPARK_KEY = re.compile(
    r"spark\.(?:(?:executor|driver)\.(?:memory|memoryOverhead|cores|instances)|dynamicAllocation\.\w+"
    r"|sql\.shuffle\.partitions|task\.(?:cpus|maxFailures)|cores\.max|submit\.deployMode|ui\.enabled)"
)


def may_show_client_key(name: str) -> bool:
    """Whether the value of a client property, without its scope, can be printed."""
    return name in _SHOWN_CLIENT_KEYS


def may_show_spark_key(name: str) -> bool:
    """Whether the value of a Spark property can be printed."""
    return _SHOWN_SPARK_KEY.fullmatch(name) is not None


class RawProperties(Mapping[str, str]):
    """Client or Spark properties as strings; repr and str hide every key that is not known to be harmless."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"RawProperties({self.redacted()!r})"

    def redacted(self) -> dict[str, str]:
        """The properties for people, with unknown values as ``[hidden]``."""
        return {
            key: value if may_show_client_key(key) or may_show_spark_key(key) else HIDDEN
            for key, value in self._values.items()
        }
