"""A properties file before it is written: what `mmtool init` knows, and its text with comments.

MirrorMaker 2 reads the file as well: passwords are placeholders of Kafka's own config providers, which are declared.
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
    from collections.abc import Iterator, Mapping

    from mmtool.config.placeholders import Placeholder
    from mmtool.config.scopes import Side

_ESCAPED = re.compile(r"^[ \t\f]+|[^\x20-\x5b\x5d-\x7e]")
"""A leading blank, a backslash, and what is not printable ASCII: Java reads the file as Latin-1."""
_PEM = (".pem", ".crt", ".cer")
_POLICY = "org.apache.kafka.connect.mirror."
_REPLICAS = [name for name, key in FLOW_KEYS.items() if key.kind == "replicas"]
_OWN = ["mmtool.start", *(name for name in FLOW_KEYS if name.startswith("mmtool.on."))]


@dataclass(frozen=True, slots=True)
class Login:
    """How mmtool logs in to a cluster.

    Attributes:
        mechanism: ``sasl.mechanism``.
        user: User name, or client id for OAUTHBEARER; None for AWS_MSK_IAM.
        secret: Where the password, or the client's secret, comes from; None for AWS_MSK_IAM.
        token_endpoint: URL, for OAUTHBEARER.
    """

    mechanism: str
    user: str | None = None
    secret: Placeholder | None = None
    token_endpoint: str | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """A file with certificates.

    Attributes:
        path: JKS, PKCS12 or PEM.
        secret: Where its password comes from; None for PEM.
    """

    path: str
    secret: Placeholder | None = None

    @property
    def is_pem(self) -> bool:
        return self.path.lower().endswith(_PEM)


@dataclass(frozen=True, slots=True)
class DraftCluster:
    """One side of the flow.

    Attributes:
        alias: In ``clusters``.
        servers: ``bootstrap.servers``.
        protocol: ``security.protocol``.
        login: With SASL.
        trust_store: Trusted certificates; None: the system's.
        key_store: The client's key and certificate.
        cluster_id: As the brokers answered; None where they were not asked or did not answer.
    """

    alias: str
    servers: str
    protocol: str = "PLAINTEXT"
    login: Login | None = None
    trust_store: Store | None = None
    key_store: Store | None = None
    cluster_id: str | None = None

    @property
    def secrets(self) -> dict[str, Placeholder]:
        """The placeholder of each key that has one."""
        found = {
            "sasl.jaas.config": self.login.secret if self.login else None,
            "ssl.truststore.password": self.trust_store.secret if self.trust_store else None,
            "ssl.keystore.password": self.key_store.secret if self.key_store else None,
        }
        return {f"{self.alias}.{key}": secret for key, secret in found.items() if secret is not None}


@dataclass(frozen=True, slots=True)
class Draft:
    """The whole file.

    Attributes:
        topics: Comma list of Java regular expressions.
        groups: Likewise.
        keeps_names: Topics have the same names on the target.
        replicas: Replication factor of created topics; None: the defaults of MirrorMaker 2.
    """

    source: DraftCluster
    target: DraftCluster
    topics: str = ".*"
    groups: str = ".*"
    keeps_names: bool = False
    replicas: int | None = None

    @property
    def flow(self) -> str:
        return f"{self.source.alias}->{self.target.alias}"

    @property
    def sides(self) -> dict[Side, DraftCluster]:
        """Both clusters, by their side."""
        return {"source": self.source, "target": self.target}

    @property
    def secrets(self) -> dict[str, Placeholder]:
        """The placeholder of each key that has one."""
        return self.source.secrets | self.target.secrets

    @property
    def outside_keys(self) -> frozenset[str]:
        """The keys whose values name something outside the file: variables, and files with secrets or certificates."""
        stores = {
            f"{one.alias}.ssl.{kind}.location"
            for one in self.sides.values()
            for kind in ("truststore", "keystore")
        }
        return frozenset(self.secrets) | stores


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
    parts = [
        f"# The flow {draft.flow}, for mmtool and MirrorMaker 2. A key that is commented out shows its default.\n",
        *map(str, _mirror_maker_keys(draft)),
        "# --- Keys of mmtool, which MirrorMaker 2 ignores ---\n",
        *map(str, _own_keys(draft)),
    ]
    return "\n".join(parts)


def escaped(value: str) -> str:
    """A value as a properties file holds it."""
    return _ESCAPED.sub(lambda found: javaproperties.escape(found[0]), value)


def _mirror_maker_keys(draft: Draft) -> Iterator[_Line]:
    yield _Line("Aliases of the clusters.", "clusters", f"{draft.source.alias}, {draft.target.alias}")
    yield from _providers(draft.secrets)
    for cluster in (draft.source, draft.target):
        yield from _cluster(cluster)
    yield _Line("The flow: SOURCE->TARGET.", f"{draft.flow}.enabled", "true")
    yield _flow_key("topics", draft.topics, scope=f"{draft.flow}.")
    yield _flow_key("groups", draft.groups, scope=f"{draft.flow}.")
    policy = "IdentityReplicationPolicy" if draft.keeps_names else "DefaultReplicationPolicy"
    yield _flow_key("replication.policy.class", f"{_POLICY}{policy}")
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


def _providers(secrets: Mapping[str, Placeholder]) -> Iterator[_Line]:
    """MirrorMaker 2 needs the declaration; mmtool knows Kafka's own providers without it."""
    kinds = sorted({secret.kind for secret in secrets.values()})
    comments = [
        "Providers of the values in ${...}.",
        *(f"Kafka's class for ${{{kind}:...}}." for kind in kinds),
    ]
    for comment, (key, value) in zip(comments, provider_declarations(kinds).items(), strict=False):
        yield _Line(comment, key, value)


def _cluster(cluster: DraftCluster) -> Iterator[_Line]:
    lines = [
        ("Brokers to connect to first, as host:port.", "bootstrap.servers", cluster.servers),
        ("PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.", "security.protocol", cluster.protocol),
        *(_login(cluster.login) if cluster.login else ()),
        *(_store("trust store: the CA of the brokers", "truststore", cluster.trust_store)),
        *(_store("key store: mmtool's own key and certificate", "keystore", cluster.key_store)),
    ]
    for comment, key, value in lines:
        yield _Line(comment, f"{cluster.alias}.{key}", value)


def _login(login: Login) -> Iterator[tuple[str, str, str]]:
    yield "How mmtool logs in.", "sasl.mechanism", login.mechanism
    if login.mechanism == "AWS_MSK_IAM":
        yield (
            "The IAM identity of the AWS profile or environment.",
            "sasl.jaas.config",
            jaas_text(MSK_MODULE, {}),
        )
        yield "Signs the requests of Java clients.", "sasl.client.callback.handler.class", MSK_CLIENT_HANDLER
        return
    names = ("username", "password")
    module = PLAIN_MODULE if login.mechanism == "PLAIN" else SCRAM_MODULE
    if login.mechanism == "OAUTHBEARER":
        names, module = ("clientId", "clientSecret"), OAUTH_MODULE
        yield "Gets a token from the endpoint.", HANDLER, KAFKA_HANDLERS[0]
        yield "Where tokens are granted.", ENDPOINT, login.token_endpoint or ""
    options = {names[0]: login.user or "", names[1]: str(login.secret or "")}
    yield "The user, and where the secret is read from.", "sasl.jaas.config", jaas_text(module, options)


def _store(what: str, kind: str, store: Store | None) -> Iterator[tuple[str, str, str]]:
    if store is None:
        return
    yield f"The {what}.", f"ssl.{kind}.location", store.path
    if store.is_pem:
        yield "The format of the store: Java does not find it by itself.", f"ssl.{kind}.type", "PEM"
    if store.secret is not None:
        yield "Where the password of this store is read from.", f"ssl.{kind}.password", str(store.secret)
