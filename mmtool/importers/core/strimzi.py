"""Read ``KafkaMirrorMaker2`` resources, v1beta2 and v1, as the connectors that Strimzi's operator makes of them.

IBM's Event Streams has the same resource under an API group of its own. Names and precedence are those of the
operator's ``KafkaMirrorMaker2Connectors``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from mmtool.config.sasl import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE, jaas_text
from mmtool.config.token_logins import HANDLER, STRIMZI_HANDLER
from mmtool.errors import UsageError
from mmtool.importers.core.connect import (
    SOURCE_ALIAS,
    SWITCHES,
    TARGET_ALIAS,
    Connector,
    ConnectorKind,
    Deployment,
    Note,
    NoteKind,
    Setting,
    overlaid,
    with_other,
)
from mmtool.importers.core.yaml_documents import Fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mmtool.importers.core.connect import WorkerName
    from mmtool.importers.core.secret_values import Mounts

KIND = "KafkaMirrorMaker2"
_APIS = ("kafka.strimzi.io/", "eventstreams.ibm.com/")
_CONNECTORS = {
    "sourceConnector": ConnectorKind.SOURCE,
    "checkpointConnector": ConnectorKind.CHECKPOINT,
    "heartbeatConnector": ConnectorKind.HEARTBEAT,
}
_PATTERNS = {
    "topics": ("topicsPattern",),
    "topics.exclude": ("topicsExcludePattern", "topicsBlacklistPattern"),
    "groups": ("groupsPattern",),
    "groups.exclude": ("groupsExcludePattern", "groupsBlacklistPattern"),
}
"""A connector's key, and the fields of a mirror that set it; the first one with a value counts."""
_WORKERS = {"groupId": "group.id", "offsetStorageTopic": "offset.storage.topic"}
"""Fields of `spec.target` that name MirrorMaker 2's workers, and their keys in Connect's configuration."""


def strimzi_deployment(names: Sequence[str], documents: Iterable[object], mounts: Mounts) -> Deployment:
    """The connectors of all ``KafkaMirrorMaker2`` resources among documents.

    Args:
        names: Of the files, for errors.
        documents: Of the files; a ``List`` stands for its items.
        mounts: Gives the placeholders of secrets.

    Raises:
        UsageError: There is no such resource, one of them is not valid, or none of them has a flow.
    """
    name = ", ".join(names)
    connectors: list[Connector] = []
    workers: list[WorkerName] = []
    notes: list[Note] = []
    for document in _resources(documents):
        if document.get("kind") != KIND or not str(document.get("apiVersion")).startswith(_APIS):
            notes.append(Note(NoteKind.LEFT_OUT, _title(document), f"is no {KIND} of Strimzi"))
            continue
        resource = _Resource(document, mounts)
        try:
            connectors += resource.connectors()
        except UsageError as error:
            raise UsageError(f"{name}: {error.message}", remedy=error.remedy) from None
        workers += resource.workers
        notes += resource.notes()
    if not connectors:
        raise UsageError(
            f"{name} has no {KIND} with a connector",
            remedy=f"name a file with a {KIND} of API group kafka.strimzi.io or eventstreams.ibm.com, v1 or v1beta2,"
            " that has a sourceConnector in spec.mirrors",
        )
    deployment = Deployment(tuple(connectors), tuple(workers), tuple(notes))
    if not deployment.has_flow:
        more = with_other("--strimzi", names, "OTHER.yaml")
        raise UsageError(
            f"no mirror of {name} has a sourceConnector, so no flow can be imported",
            remedy=f"add sourceConnector to an entry of spec.mirrors, or name the file that has it as well: {more}",
        )
    return deployment


def _resources(documents: Iterable[object]) -> Iterator[dict[str, object]]:
    for document in documents:
        if not isinstance(document, dict):
            continue
        items = document.get("items")
        if str(document.get("kind")).endswith("List") and isinstance(items, list):
            yield from (item for item in items if isinstance(item, dict))
        else:
            yield document


def _title(document: dict[str, object]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return " ".join(str(word) for word in (document.get("kind") or "document", name) if word)


class _Resource:
    """One resource while it is read."""

    def __init__(self, document: dict[str, object], mounts: Mounts) -> None:
        self.workers: list[WorkerName] = []
        self._found: list[Note] = []
        self._clusters: dict[str, dict[str, Setting]] = {}
        self._used: set[str] = set()
        self._root = Fields(document, "")
        for name in ("apiVersion", "kind", "status"):
            self._root.skip(name)
        metadata = self._root.fields("metadata")
        name, namespace = ((metadata and metadata.text(one)) or "" for one in ("name", "namespace"))
        self._root.path = f"{name or KIND}: "
        self._reader = ClusterReader(mounts, namespace, self._found)

    def connectors(self) -> list[Connector]:
        spec = self._root.fields("spec")
        if spec is None:
            raise UsageError(
                f"{self._root.at('spec')} is missing", remedy="add it, or correct the indentation"
            )
        mirrors = spec.items("mirrors")
        target = self._target(spec, mirrors)
        return [
            connector
            for mirror in mirrors
            for connector in self._mirror(mirror, target, spec.text("connectCluster"))
        ]

    def notes(self) -> Iterator[Note]:
        """What was found, and every field that was not read, with the reason."""
        yield from self._found
        for alias, settings in self._clusters.items():
            if alias not in self._used:
                message = f"no entry of spec.mirrors names the cluster {alias!r}"
                yield Note(NoteKind.LEFT_OUT, settings["alias"].path, message)
        for path in self._root.rest():
            if not path.startswith("metadata."):
                yield Note(NoteKind.LEFT_OUT, path, reason_of(path))

    def _target(self, spec: Fields, mirrors: Iterable[Fields]) -> dict[str, Setting] | None:
        """The target of v1; None in v1beta2, whose clusters are read here too."""
        target = spec.fields("target")
        connect = spec.text("connectCluster")
        for cluster in spec.items("clusters"):
            settings = self._reader.read(cluster)
            alias = settings["alias"].value
            if alias in self._clusters:
                raise UsageError(
                    f"{cluster.at('alias')}: two clusters are called {alias!r}", remedy="rename one"
                )
            self._clusters[alias] = settings
            if alias == connect and any(mirror.text("targetCluster") in {alias, None} for mirror in mirrors):
                self._name_workers(alias, settings)
        if target is None:
            return None
        settings = self._reader.read(target)
        for name, key in _WORKERS.items():
            if (text := target.text(name)) is not None:
                settings[key] = Setting(text, target.at(name))
        self._name_workers(settings["alias"].value, settings)
        return settings

    def _name_workers(self, alias: str, settings: dict[str, Setting]) -> None:
        for key in _WORKERS.values():
            if key in settings:
                self.workers.append((alias, key, settings.pop(key)))

    def _mirror(
        self, mirror: Fields, target: dict[str, Setting] | None, connect: str | None
    ) -> Iterator[Connector]:
        source = mirror.fields("source")
        sides = {
            "source.cluster.": self._reader.read(source) if source else self._named(mirror, "sourceCluster"),
            "target.cluster.": target or self._named(mirror, "targetCluster", connect),
        }
        clusters = {
            side + key: setting for side, settings in sides.items() for key, setting in settings.items()
        }
        fields = {
            key: next((name for name in names if mirror.has(name)), None) for key, names in _PATTERNS.items()
        }
        patterns = {
            key: Setting(mirror.text(name) or "", mirror.at(name)) for key, name in fields.items() if name
        }
        names = (clusters[SOURCE_ALIAS].value, clusters[TARGET_ALIAS].value)
        for name, kind in _CONNECTORS.items():
            connector = mirror.fields(name)
            if connector is None:
                continue
            stopped = self._stopped(connector, "->".join(names), kind)
            config = overlaid(clusters, connector.settings("config"), self._found)
            config = overlaid(config, patterns, self._found)
            yield Connector(kind, connector.path, config | stopped)

    def _named(self, mirror: Fields, name: str, default: str | None = None) -> dict[str, Setting]:
        alias = mirror.text(name) or default
        if alias is None:
            v1 = "`source` of the mirror" if name == "sourceCluster" else "`spec.target`"
            raise UsageError(
                f"{mirror.at(name)} is missing", remedy=f"name an alias of `spec.clusters`, or set {v1}"
            )
        if alias not in self._clusters:
            raise UsageError(
                f"{mirror.at(name)}: `spec.clusters` has no cluster {alias!r}",
                remedy="name an alias of `spec.clusters`",
            )
        self._used.add(alias)
        return self._clusters[alias]

    def _stopped(self, connector: Fields, flow: str, kind: ConnectorKind) -> dict[str, Setting]:
        """The key that turns off what a connector does, if it does not run: `mmtool replicate` runs what is enabled."""
        off = {}
        for name, running in (("state", "running"), ("pause", "false")):
            state = connector.text(name)
            if state is not None and state != running:
                said = (
                    f"is {state}, so {flow}.{SWITCHES[kind]} is false; set it to true when `mmtool replicate` is to do"
                    " the work of this connector"
                )
                self._found.append(Note(NoteKind.ATTENTION, connector.at(name), said))
                off[SWITCHES[kind]] = Setting("false", connector.at(name))
        return off


# --- read one cluster of a ``KafkaMirrorMaker2``: bootstrap servers, trusted certificates, login ---------
# The login's secrets become placeholders of files, as Kubernetes mounts a secret: one folder, with one file per key.

_PASSWORDS = {
    "plain": ("PLAIN", PLAIN_MODULE),
    "scram-sha-256": ("SCRAM-SHA-256", SCRAM_MODULE),
    "scram-sha-512": ("SCRAM-SHA-512", SCRAM_MODULE),
}
_OAUTH_TEXTS = {
    "clientId": "oauth.client.id",
    "username": "oauth.password.grant.username",
    "tokenEndpointUri": "oauth.token.endpoint.uri",
    "scope": "oauth.scope",
    "audience": "oauth.audience",
    "accessTokenIsJwt": "oauth.access.token.is.jwt",
    "accessTokenLocation": "oauth.access.token.location",
    "clientAssertionLocation": "oauth.client.assertion.location",
    "clientAssertionType": "oauth.client.assertion.type",
    "maxTokenExpirySeconds": "oauth.max.token.expiry.seconds",
    "connectTimeoutSeconds": "oauth.connect.timeout.seconds",
    "readTimeoutSeconds": "oauth.read.timeout.seconds",
    "includeAcceptHeader": "oauth.include.accept.header",
}
_OAUTH_SECRETS = {
    "clientSecret": ("key", "oauth.client.secret"),
    "accessToken": ("key", "oauth.access.token"),
    "refreshToken": ("key", "oauth.refresh.token"),
    "clientAssertion": ("key", "oauth.client.assertion"),
    "passwordSecret": ("password", "oauth.password.grant.password"),
}
"""Fields of an OAuth login that name a secret: the field with its key, and the option of the login handler."""
_TYPES = ("tls", *_PASSWORDS, "oauth", "custom")
_CUSTOM = ("sasl.", "ssl.keystore.")
"""What a custom login may set; the operator ignores the rest."""
_USUAL_CA = "ca.crt"


@dataclass(frozen=True, slots=True)
class ClusterReader:
    """Reads clusters of one resource.

    Attributes:
        mounts: Gives the placeholders of secrets.
        namespace: Of the resource; empty where it has none.
        notes: Takes what the reader cannot carry over.
    """

    mounts: Mounts
    namespace: str
    notes: list[Note]

    def read(self, cluster: Fields) -> dict[str, Setting]:
        """The cluster's settings, as the operator gives them to the connectors, without ``source.cluster.``.

        Raises:
            UsageError: The alias or the bootstrap servers are missing, or the login is incomplete.
        """
        found = {
            "alias": Setting(cluster.required("alias"), cluster.at("alias")),
            "bootstrap.servers": Setting(
                cluster.required("bootstrapServers"), cluster.at("bootstrapServers")
            ),
        }
        tls, login = cluster.fields("tls"), cluster.fields("authentication")
        kind = login and login.required("type")
        with_sasl = login is not None and (
            login.text("sasl") == "true" if kind == "custom" else kind != "tls"
        )
        protocol = "PLAINTEXT" if tls is None else "SSL"
        found["security.protocol"] = Setting(f"SASL_{protocol}" if with_sasl else protocol, cluster.path)
        if tls is not None and (certificates := self._certificates(tls, "trustedCertificates")):
            found["ssl.truststore.certificates"] = Setting(certificates, tls.path)
            found["ssl.truststore.type"] = Setting("PEM", tls.path)
        if login is not None:
            found |= {key: Setting(value, login.path) for key, value in self._login(login)}
        return overlaid(found, cluster.settings("config"), self.notes)

    def _login(self, login: Fields) -> Iterator[tuple[str, str]]:
        kind = login.required("type")
        if kind == "tls":
            yield from self._key_pair(login)
        elif kind in _PASSWORDS:
            mechanism, module = _PASSWORDS[kind]
            yield "sasl.mechanism", mechanism
            options = {
                "username": login.required("username"),
                "password": self._secret(login, "passwordSecret", "password"),
            }
            yield "sasl.jaas.config", jaas_text(module, options)
        elif kind == "oauth":
            yield "sasl.mechanism", "OAUTHBEARER"
            yield "sasl.jaas.config", jaas_text(OAUTH_MODULE, dict(self._oauth(login)))
            yield HANDLER, STRIMZI_HANDLER
        elif kind == "custom":
            yield from self._custom(login)
        else:
            raise UsageError(
                f"{login.at('type')}: {kind!r} is no login that mmtool knows: expected {', '.join(_TYPES)}",
                remedy="use one of these, or `custom` with sasl.* settings",
            )

    def _key_pair(self, login: Fields) -> Iterator[tuple[str, str]]:
        pair = login.fields("certificateAndKey")
        if pair is None:
            raise UsageError(f"{login.at('certificateAndKey')} is missing", remedy="add it")
        yield "ssl.keystore.certificate.chain", self._placeholder(pair, pair.required("certificate"))
        yield "ssl.keystore.key", self._placeholder(pair, pair.required("key"))
        yield "ssl.keystore.type", "PEM"

    def _oauth(self, login: Fields) -> Iterator[tuple[str, str]]:
        for name, option in _OAUTH_TEXTS.items():
            if (text := login.text(name)) is not None:
                yield option, text
        for name, (key, option) in _OAUTH_SECRETS.items():
            if login.has(name):
                yield option, self._secret(login, name, key)
        if login.text("disableTlsHostnameVerification") == "true":
            yield "oauth.ssl.endpoint.identification.algorithm", ""
        if certificates := self._certificates(login, "tlsTrustedCertificates"):
            yield "oauth.ssl.truststore.certificates", certificates
            yield "oauth.ssl.truststore.type", "PEM"
        for name, setting in login.settings("saslExtensions").items():
            yield f"oauth.sasl.extension.{name}", setting.value

    def _custom(self, login: Fields) -> Iterator[tuple[str, str]]:
        for key, setting in login.settings("config").items():
            if key.startswith(_CUSTOM):
                yield key, setting.value
            else:
                message = f"Strimzi ignores settings that do not begin with {' or '.join(_CUSTOM)}"
                self.notes.append(Note(NoteKind.LEFT_OUT, setting.path, message))

    def _secret(self, login: Fields, name: str, key: str) -> str:
        """The placeholder of a secret that a field names; ``key`` is the field with the secret's key."""
        reference = login.fields(name)
        if reference is None:
            raise UsageError(f"{login.at(name)} is missing", remedy="add it")
        return self._placeholder(reference, reference.required(key))

    def _placeholder(self, reference: Fields, key: str) -> str:
        return self.mounts.placeholder(reference.path, self.namespace, reference.required("secretName"), key)

    def _certificates(self, tls: Fields, name: str) -> str:
        """The placeholders of trusted certificates, one after the other; empty where none is named."""
        found = []
        for one in tls.items(name):
            pattern = one.text("pattern")
            key = one.required("certificate") if pattern is None else self._usual_certificate(one, pattern)
            found.append(self._placeholder(one, key))
        return " ".join(dict.fromkeys(found))

    def _usual_certificate(self, one: Fields, pattern: str) -> str:
        """The key that a pattern such as ``*.crt`` stands for: Strimzi's own CA secrets have one certificate."""
        if not fnmatchcase(_USUAL_CA, pattern):
            raise UsageError(
                f"{one.at('pattern')}: mmtool does not know which keys of the secret match the pattern {pattern!r}",
                remedy="replace this entry by one entry for each key, each with secretName and `certificate: KEY`",
            )
        self.notes.append(
            Note(
                NoteKind.ATTENTION,
                one.at("pattern"),
                f"mmtool reads only {_USUAL_CA} for {pattern}: if the secret has more certificates, add a"
                f" placeholder for each in the properties file, beside that of {_USUAL_CA}",
            )
        )
        return _USUAL_CA


# --- why fields of a ``KafkaMirrorMaker2`` have no equal in a properties file ----------------------------

_CONNECT_WORKERS = "configures Kafka Connect's workers, which mmtool does not have"
_POD = "configures the pods that Strimzi starts; mmtool runs in a pod or process of its own"
_RETRIES = "mmtool repeats requests for a token by itself, after sasl.login.retry.backoff.ms"
_REASONS = {
    **dict.fromkeys(("replicas", "version", "configStorageTopic", "statusStorageTopic"), _CONNECT_WORKERS),
    **dict.fromkeys(("tasksMax", "autoRestart", "listOffsets", "alterOffsets"), _CONNECT_WORKERS),
    **dict.fromkeys(("image", "resources", "livenessProbe", "readinessProbe", "template"), _POD),
    **dict.fromkeys(("jvmOptions", "jmxOptions", "clientRackInitImage"), _POD),
    "logging": "mmtool has its own logging: --log-format and -v",
    "metricsConfig": "mmtool has its own metrics: mmtool replicate --metrics-port PORT",
    "metrics": "mmtool has its own metrics: mmtool replicate --metrics-port PORT",
    "tracing": "mmtool has no tracing: it does not run the interceptors of Java's clients",
    "rack": "mmtool has no such setting: it reads each partition from its leader, in whatever rack that is",
    "externalConfiguration": "provide these secrets to mmtool as environment variables or files",
    **dict.fromkeys(("httpRetries", "httpRetryPauseMs"), _RETRIES),
    "enableMetrics": "configures metrics of Strimzi's Java login handler, which mmtool does not use",
    "connectCluster": "names the cluster of Kafka Connect, which mmtool does not need",
}
_BLACKLIST = re.compile(r"(topics|groups)BlacklistPattern")


def reason_of(path: str) -> str:
    """The reason for one path, by its last name, or by the nearest name above it that has one."""
    for name in reversed(re.split(r"[.\[]", path)):
        if found := _BLACKLIST.fullmatch(name):
            return f"without effect beside {found[1]}ExcludePattern, in Strimzi as well"
        if name in _REASONS:
            return _REASONS[name]
    return "mmtool has no such setting"
