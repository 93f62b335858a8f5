"""A properties file before it is written: what `mmtool init` knows, and its text with comments.

MirrorMaker 2 reads the file as well: secrets are placeholders of Kafka's own config providers, which are declared. Keys
that `mmtool init` does not know are commented out, with their defaults or examples.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import javaproperties

from mmtool.config.keys import CLUSTER_ID, FLOW_KEYS
from mmtool.config.placeholders import provider_declarations
from mmtool.config.sasl import MSK_MODULE, OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE, jaas_text
from mmtool.config.token_logins import ENDPOINT, HANDLER, KAFKA_HANDLERS, MSK_CLIENT_HANDLER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.config.scopes import Side

_ESCAPED = re.compile(r"^[ \t\f]+|[^\x20-\x5b\x5d-\x7e]")
"""A leading blank, a backslash, and what is not printable ASCII: Java reads the file as Latin-1."""
_REPLICAS = (
    "replication.factor",
    "offset-syncs.topic.replication.factor",
    "checkpoints.topic.replication.factor",
    "heartbeats.topic.replication.factor",
)
_OWN = (
    "mmtool.start",
    "mmtool.on.data.loss",
    "mmtool.on.oversize",
    "mmtool.on.timestamp.refused",
    "mmtool.on.topic.recreated",
)


@dataclass(frozen=True, slots=True)
class DraftCluster:
    """One side of the flow.

    Attributes:
        alias: In ``clusters``.
        servers: ``bootstrap.servers``.
        protocol: ``security.protocol``.
        mechanism: ``sasl.mechanism``; None without SASL.
        cluster_id: As the brokers answered; None where they were not asked or did not answer.
    """

    alias: str
    servers: str
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    cluster_id: str | None = None

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    def secret(self, what: str) -> str:
        """A placeholder for a secret, in an environment variable that has the alias in its name."""
        name = re.sub(r"\W|^(?=\d)", "_", f"{self.alias}_{what}", flags=re.ASCII).upper()
        return f"${{env:{name}}}"


@dataclass(frozen=True, slots=True)
class Draft:
    """The whole file.

    Attributes:
        replicas: Replication factor of created topics; None: the defaults of MirrorMaker 2.
    """

    source: DraftCluster
    target: DraftCluster
    replicas: int | None = None

    @property
    def flow(self) -> str:
        return f"{self.source.alias}->{self.target.alias}"

    @property
    def sides(self) -> dict[Side, DraftCluster]:
        """Both clusters, by their side."""
        return {"source": self.source, "target": self.target}

    @property
    def keys_without_login(self) -> frozenset[str]:
        """The keys of which the check says that a login is missing, until the operator completes the file."""
        return frozenset(f"{one.alias}.security.protocol" for one in self.sides.values() if one.mechanism)


@dataclass(frozen=True, slots=True)
class _Line:
    """One key with its comment; ``is_set`` is false for a key that stays commented out."""

    comment: str
    key: str
    value: str
    is_set: bool = True

    def __str__(self) -> str:
        mark = "" if self.is_set else "#"
        return f"# {self.comment}\n{mark}{self.key} = {escaped(self.value)}".rstrip(" ") + "\n"


def text_of(draft: Draft) -> str:
    """The file: MirrorMaker 2's keys, then mmtool's, each with one line of comment."""
    commented = "A key that is commented out shows its default, or an example."
    parts = [
        f"# The flow {draft.flow}, for mmtool and MirrorMaker 2. {commented}\n",
        *map(str, _mirror_maker_keys(draft)),
        "# --- Keys of mmtool, which MirrorMaker 2 ignores ---\n",
        *map(str, _own_keys(draft)),
    ]
    return "\n".join(parts)


def escaped(value: str) -> str:
    """A value as a properties file holds it."""
    return _ESCAPED.sub(lambda found: javaproperties.escape(found[0]), value)


def _mirror_maker_keys(draft: Draft) -> Iterator[_Line]:
    clusters = (draft.source, draft.target)
    yield _Line("Aliases of the clusters.", "clusters", f"{draft.source.alias}, {draft.target.alias}")
    if any(cluster.protocol != "PLAINTEXT" for cluster in clusters):
        comments = ("Providers of the values in ${...}.", "Kafka's class for ${env:...}.")
        for comment, (key, value) in zip(comments, provider_declarations(["env"]).items(), strict=True):
            yield _Line(comment, key, value)
    for cluster in clusters:
        yield _Line(
            "Brokers to connect to first, as host:port.",
            f"{cluster.alias}.bootstrap.servers",
            cluster.servers,
        )
        yield _Line(
            "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
            f"{cluster.alias}.security.protocol",
            cluster.protocol,
        )
        yield from _login(cluster)
        if cluster.has_tls:
            yield from _store(
                cluster, "truststore", "trust store: the CA of the brokers, if it is not the system's"
            )
        if cluster.has_tls and not cluster.mechanism:
            yield from _store(
                cluster, "keystore", "key store: mmtool's own key and certificate, if brokers ask for it"
            )
    yield _Line("The flow: SOURCE->TARGET.", f"{draft.flow}.enabled", "true")
    for name in ("topics", "groups"):
        yield _flow_key(name, None, scope=f"{draft.flow}.")
    yield _flow_key("replication.policy.class", None)
    for name in _REPLICAS:
        yield _flow_key(name, None if draft.replicas is None else str(draft.replicas))


def _own_keys(draft: Draft) -> Iterator[_Line]:
    for cluster in (draft.source, draft.target):
        known = cluster.cluster_id
        comment = f"The cluster id that {cluster.alias} must answer with; mmtool refuses any other cluster."
        yield _Line(comment, f"{cluster.alias}.{CLUSTER_ID}", known or "", is_set=known is not None)
    for name in _OWN:
        yield _flow_key(name, None)


def _flow_key(name: str, value: str | None, scope: str = "") -> _Line:
    """A key of the table; None: commented out, with its default."""
    key = FLOW_KEYS[name]
    return _Line(
        key.meaning, f"{scope}{name}", key.default or "" if value is None else value, value is not None
    )


def _login(cluster: DraftCluster) -> Iterator[_Line]:
    """The lines of SASL; the user and the secret are examples that the operator replaces."""
    mechanism, secret = cluster.mechanism, cluster.secret("PASSWORD")
    if mechanism is None:
        return
    yield _Line("How mmtool logs in.", f"{cluster.alias}.sasl.mechanism", mechanism)
    jaas, who = f"{cluster.alias}.sasl.jaas.config", "The user, and where the password is read from."
    match mechanism:
        case "AWS_MSK_IAM":
            yield _Line(
                "The IAM identity of the AWS profile or environment.", jaas, jaas_text(MSK_MODULE, {})
            )
            handler = f"{cluster.alias}.sasl.client.callback.handler.class"
            yield _Line("Signs the requests of Java clients.", handler, MSK_CLIENT_HANDLER)
            return
        case "OAUTHBEARER":
            who = "The client id, and where the client secret is read from."
            text = jaas_text(OAUTH_MODULE, {"clientId": "mmtool", "clientSecret": secret})
            yield _Line("Gets a token from the endpoint.", f"{cluster.alias}.{HANDLER}", KAFKA_HANDLERS[0])
            endpoint = "https://id.example.org/token"
            yield _Line("Where tokens are granted.", f"{cluster.alias}.{ENDPOINT}", endpoint, is_set=False)
        case _:
            module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
            text = jaas_text(module, {"username": "mmtool", "password": secret})
    yield _Line(who, jaas, text, is_set=False)


def _store(cluster: DraftCluster, kind: str, what: str) -> Iterator[_Line]:
    """The lines of a store, which stay commented out."""
    key, secret = f"{cluster.alias}.ssl.{kind}", cluster.secret(f"{kind}_PASSWORD")
    yield _Line(f"The {what}.", f"{key}.location", f"/etc/mmtool/{cluster.alias}-{kind}.pem", is_set=False)
    yield _Line("The format of this store: PEM, JKS or PKCS12.", f"{key}.type", "PEM", is_set=False)
    comment = "Where the password of this store is read from, if it is JKS or PKCS12."
    yield _Line(comment, f"{key}.password", secret, is_set=False)
