"""Read one cluster of a ``KafkaMirrorMaker2``: bootstrap servers, trusted certificates, login.

The login's secrets become placeholders of files, as Kubernetes mounts a secret: one folder, with one file per key.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from mmtool.config.jaas import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE, jaas_text
from mmtool.config.token_logins import HANDLER, STRIMZI_HANDLER
from mmtool.errors import UsageError
from mmtool.importers.core.connector import Note, NoteKind, Setting, overlaid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.importers.core.fields import Fields
    from mmtool.importers.core.secret_values import Mounts

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
        with_sasl = login is not None and self._has_sasl(login)
        protocol = "PLAINTEXT" if tls is None else "SSL"
        found["security.protocol"] = Setting(f"SASL_{protocol}" if with_sasl else protocol, cluster.path)
        if tls is not None and (certificates := self._certificates(tls, "trustedCertificates")):
            found["ssl.truststore.certificates"] = Setting(certificates, tls.path)
            found["ssl.truststore.type"] = Setting("PEM", tls.path)
        if login is not None:
            found |= {key: Setting(value, login.path) for key, value in self._login(login)}
        return overlaid(found, cluster.settings("config"), self.notes)

    def _has_sasl(self, login: Fields) -> bool:
        kind = login.required("type")
        return login.text("sasl") == "true" if kind == "custom" else kind != "tls"

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
                self._note(
                    setting.path, f"Strimzi ignores settings that do not begin with {' or '.join(_CUSTOM)}"
                )

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

    def _note(self, path: str, message: str) -> None:
        self.notes.append(Note(NoteKind.LEFT_OUT, path, message))
