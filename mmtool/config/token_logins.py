"""Translate the settings of token logins: OAUTHBEARER of Kafka and of Strimzi, and IAM of Amazon MSK.

Names and defaults are those of kafka-clients 4.4 (``ConfigOrJaas``, ``HttpJwtRetriever``), strimzi-kafka-oauth
(``ClientConfig``) and aws-msk-iam-auth (``IAMClientCallbackHandler``).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from mmtool.config.credentials import MskLogin, OAuthLogin, TokenFileLogin, TokenPace
from mmtool.config.scopes import filled, sibling
from mmtool.config.values import java_trim, parse_boolean, parse_integer
from mmtool.errors import install_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mmtool.config.credentials import Pem, TokenLogin
    from mmtool.config.properties import Entry
    from mmtool.config.report import Report
    from mmtool.config.scopes import Properties

T = TypeVar("T")

_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
KAFKA_HANDLERS = (
    f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
)
STRIMZI_HANDLER = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
MSK_CLIENT_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
MSK_OAUTH_HANDLER = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"

HANDLER = "sasl.login.callback.handler.class"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - the name of a key
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_RETRIEVERS = tuple(f"{_PACKAGE}.{name}JwtRetriever" for name in ("Default", "ClientCredentials", "File"))
_ASSERTIONS = ("sasl.oauthbearer.assertion.file", "sasl.oauthbearer.assertion.claim.iss")
_ASSERTION = (
    "mmtool logs in with a client id and a secret, not with a signed assertion (JwtBearerJwtRetriever): remove the "
    "key, and set {id} and {secret}"
)

_USE_CLIENT = "use a client id and its secret (oauth.client.id, oauth.client.secret)"
_STRIMZI_REFUSED = {
    "oauth.access.token": "set oauth.access.token.location instead, or a client id and its secret",
    "oauth.refresh.token": _USE_CLIENT,
    "oauth.refresh.token.location": _USE_CLIENT,
    "oauth.password.grant.username": _USE_CLIENT,
    "oauth.client.assertion": _USE_CLIENT,
    "oauth.client.assertion.location": _USE_CLIENT,
}
_MSK_REFUSED = dict.fromkeys(
    ("awsRoleAccessKeyId", "awsRoleSecretAccessKey", "awsRoleSessionToken"),
    "remove the access keys from sasl.jaas.config, and put them into an AWS profile or the environment",
)
_SIGNER = "aws_msk_iam_sasl_signer"
_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com", re.IGNORECASE)
_EXTENSION_NAME, _EXTENSION_VALUE = re.compile(r"[A-Za-z]+"), re.compile(r"[\x21-\x7e \t\r\n]+")
"""As RFC 7628 has them, and both clients check."""

_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class TokenLoginReader:
    """Reads one token login.

    Attributes:
        properties: The client's.
        report: For what is wrong.
        read_ca: Reads the trusted certificates among properties.
        jaas: ``sasl.jaas.config``, where the file has one.
        options: Its options; they may be secrets, and are never quoted.
    """

    properties: Properties
    report: Report
    read_ca: Callable[[Properties], Pem | None]
    jaas: Entry | None
    options: Mapping[str, str]

    def oauth(self) -> TokenLogin | None:
        """The login of ``OAUTHBEARER``, by the class that Java's clients would get the token from."""
        handler = self._filled(HANDLER)
        name = handler.value.strip() if handler else KAFKA_HANDLERS[0]
        if name in KAFKA_HANDLERS:
            return self._kafka()
        if name == STRIMZI_HANDLER:
            return self._strimzi()
        if name == MSK_OAUTH_HANDLER:
            return self.msk()
        assert handler is not None
        self.report.refused(
            handler,
            f"names a Java class, which mmtool does not run: use {KAFKA_HANDLERS[0]} with {sibling(handler, ENDPOINT)},"
            " a client id and a secret",
        )
        return None

    # --- Kafka --------------------------------------------------------------------------------------------

    def _kafka(self) -> TokenLogin | None:
        if self._refuses_assertions():
            return None
        entry = self._filled(ENDPOINT)
        if entry is None:
            at = self.jaas or self.properties["security.protocol"]
            self.report.refused(
                at,
                f"OAUTHBEARER needs a token endpoint: set {sibling(at, ENDPOINT)}; mmtool makes no unsecured tokens",
            )
            return None
        url = self._url(entry, java_trim(entry.value))
        if url is None:
            return None
        extensions = self._extensions("extension_")
        subject_claim = self._text("sasl.oauthbearer.sub.claim.name") or "sub"
        if url.startswith("file:"):
            return TokenFileLogin(
                path=unquote(urlsplit(url).path),
                key=entry.key,
                extensions=extensions,
                subject_claim=subject_claim,
                pace=self._pace(),
            )
        client, secret = (
            self._credential(CLIENT_ID, "clientId"),
            self._credential(CLIENT_SECRET, "clientSecret"),
        )
        if client is None or secret is None:
            at = self.jaas or entry
            keys = f"{sibling(at, CLIENT_ID)} and {sibling(at, CLIENT_SECRET)}, or "
            self._report_no_client(at, f"{keys}clientId and clientSecret")
            return None
        return OAuthLogin(
            endpoint=url,
            endpoint_key=entry.key,
            client_id=client[1],
            client_secret=SecretStr(secret[1]),
            key=secret[0].key,
            scope=self._text("sasl.oauthbearer.scope") or self._option("scope"),
            extensions=extensions,
            subject_claim=subject_claim,
            encodes_header=self._parsed("sasl.oauthbearer.header.urlencode", parse_boolean, default=False),
            ca=self._ca_of_options("ssl."),
            verify_hostname=self._verifies("ssl."),
            pace=self._pace(),
        )

    def _refuses_assertions(self) -> bool:
        """Whether the token would come from Java code that mmtool has no equal of; reported."""
        retriever = self._filled(_RETRIEVER)
        if retriever is not None and retriever.value.strip() not in _RETRIEVERS:
            named = retriever.value.strip().rpartition(".")[2] == "JwtBearerJwtRetriever"
            self.report.refused(
                retriever,
                _assertion(retriever)
                if named
                else "names a Java class, which mmtool does not run: remove the key and use "
                f"{sibling(retriever, ENDPOINT)}",
            )
            return True
        for name in _ASSERTIONS:
            if (entry := self._filled(name)) is not None:
                self.report.refused(entry, _assertion(entry))
                return True
        return False

    def _url(self, entry: Entry, text: str, option: str = "") -> str | None:
        """The URL of the token endpoint; None where it is refused. ``option``: the JAAS option that holds it."""
        named = f" (option {option})" if option else ""
        try:
            url = urlsplit(text)
            usable = url.scheme == "file" or (
                url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
            )
        except ValueError:  # a port that is none
            usable = False
        if not usable:
            self.report.refused(
                entry,
                f"expected the token endpoint's URL, which begins with https://, http:// or file:{named}",
            )
            return None
        if "@" in url.netloc:
            self.report.refused(
                entry,
                f"the URL holds a user name{named}: remove it, and set the client id and its secret"
                f" as {sibling(entry, CLIENT_ID)} and {sibling(entry, CLIENT_SECRET)}",
            )
            return None
        return text

    def _report_no_client(self, at: Entry, names: str) -> None:
        self.report.refused(
            at,
            f"OAUTHBEARER needs a client id and its secret; set {names} in {sibling(at, 'sasl.jaas.config')}",
        )

    def _credential(self, name: str, option: str) -> tuple[Entry, str] | None:
        """A part of the client's login and the entry that holds it; a key of its own wins, as in Kafka."""
        if (entry := self._filled(name)) is not None:
            return entry, java_trim(entry.value)
        text = self._option(option)
        return (self.jaas, text) if self.jaas is not None and text else None

    # --- Strimzi ------------------------------------------------------------------------------------------

    def _strimzi(self) -> TokenLogin | None:
        at = self.jaas
        if at is None:
            start = self.properties["security.protocol"]
            self.report.refused(
                start,
                f"Strimzi's login handler takes its settings from {sibling(start, 'sasl.jaas.config')}: set it; the "
                "environment variables OAUTH_* are not read",
            )
            return None
        if self._refuses_options(_STRIMZI_REFUSED):
            return None
        extensions = self._extensions("oauth.sasl.extension.")
        subject_claim = self._option("oauth.username.claim") or "sub"
        if path := self._option("oauth.access.token.location"):
            return TokenFileLogin(
                path=path,
                key=at.key,
                extensions=extensions,
                subject_claim=subject_claim,
                pace=self._strimzi_pace(),
            )
        url = self._strimzi_url(at)
        client, secret = self._option("oauth.client.id"), self._option("oauth.client.secret")
        if url is None:
            return None
        if not client or not secret:
            self._report_no_client(at, "oauth.client.id and oauth.client.secret")
            return None
        return OAuthLogin(
            endpoint=url,
            endpoint_key=at.key,
            client_id=client,
            client_secret=SecretStr(secret),
            key=at.key,
            scope=self._option("oauth.scope"),
            audience=self._option("oauth.audience"),
            extensions=extensions,
            subject_claim=subject_claim,
            ca=self._ca_of_options("oauth.ssl."),
            verify_hostname=self._verifies("oauth.ssl."),
            longest_life_seconds=int(self._number("oauth.max.token.expiry.seconds", 60, 0)) or None,
            pace=self._strimzi_pace(),
        )

    def _strimzi_url(self, at: Entry) -> str | None:
        name = "oauth.token.endpoint.uri"
        url = self._url(at, self._option(name), name)
        if url is None or not url.startswith("file:"):
            return url
        self.report.refused(
            at, f"{name} cannot be a file: to read the token from a file, set oauth.access.token.location"
        )
        return None

    def _strimzi_pace(self) -> TokenPace:
        pace = self._pace()
        connect = self._number("oauth.connect.timeout.seconds", 1, pace.connect_seconds)
        read = self._number("oauth.read.timeout.seconds", 1, pace.read_seconds)
        return pace.model_copy(update={"connect_seconds": connect, "read_seconds": read})

    # --- MSK ----------------------------------------------------------------------------------------------

    def msk(self) -> MskLogin | None:
        """The login of ``AWS_MSK_IAM``."""
        at = self.jaas or self._filled("sasl.mechanism") or self.properties["security.protocol"]
        if self._refuses_options(_MSK_REFUSED):
            return None
        if find_spec(_SIGNER) is None:
            self.report.refused(
                at,
                f"AWS_MSK_IAM needs the package aws-msk-iam-sasl-signer-python: {install_extra('msk')}",
            )
            return None
        region = self._region()
        if region is None:
            self.report.refused(
                at, "the bootstrap servers do not name an AWS region: set the environment variable AWS_REGION"
            )
            return None
        return MskLogin(
            mechanism="AWS_MSK_IAM",
            key=at.key,
            region=region,
            profile=self._option("awsProfileName") or None,
            role_arn=self._option("awsRoleArn") or None,
            role_session=self._option("awsRoleSessionName") or None,
            role_external_id=self._option("awsRoleExternalId") or None,
            sts_region=self._option("awsStsRegion") or None,
            pace=self._pace(),
        )

    def _region(self) -> str | None:
        """The region in the brokers' names; names of a private DNS have none, and the environment tells it."""
        servers = self._filled("bootstrap.servers")
        found = _REGION.search(servers.value) if servers is not None else None
        if found:
            return found.group(1).lower()
        # resolved here, so that Spark's workers need no variable
        return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None

    # --- parts of all -------------------------------------------------------------------------------------

    def _filled(self, name: str) -> Entry | None:
        return filled(self.properties, name)

    def _text(self, name: str) -> str:
        entry = self._filled(name)
        return java_trim(entry.value) if entry is not None else ""

    def _option(self, name: str) -> str:
        return self.options.get(name, "").strip()

    def _refuses_options(self, refused: Mapping[str, str]) -> bool:
        found = next((name for name in refused if self._option(name)), None)
        if found is not None and self.jaas is not None:
            self.report.refused(self.jaas, f"the option {found} is not supported: {refused[found]}")
        return found is not None

    def _extensions(self, prefix: str) -> tuple[tuple[str, str], ...]:
        """The SASL extensions among the options, by their names without the prefix."""
        found = {
            name[len(prefix) :]: value for name, value in self.options.items() if name.startswith(prefix)
        }
        for name, value in found.items():
            valid = _EXTENSION_NAME.fullmatch(name) and name != "auth" and _EXTENSION_VALUE.fullmatch(value)
            if not valid and self.jaas is not None:
                self.report.refused(
                    self.jaas,
                    "expected letters as the extension's name, and printable text as its value (option"
                    f" {prefix}{name})",
                )
        return tuple(sorted(found.items()))

    def _ca_of_options(self, prefix: str) -> Pem | None:
        """The endpoint's CA, which Java's clients take from the JAAS options, not from the client's properties."""
        if self.jaas is None:
            return None
        start = len(prefix) - len("ssl.")
        named = {name[start:]: value for name, value in self.options.items() if name.startswith(prefix)}
        return self.read_ca(
            {name: replace(self.jaas, raw=value, value=value) for name, value in named.items()}
        )

    def _verifies(self, prefix: str) -> bool:
        word = self.options.get(f"{prefix}endpoint.identification.algorithm", "https")
        return word.strip().lower() == "https"

    def _pace(self) -> TokenPace:
        default = TokenPace()
        return TokenPace(
            connect_seconds=self._seconds("sasl.login.connect.timeout.ms", default.connect_seconds),
            read_seconds=self._seconds("sasl.login.read.timeout.ms", default.read_seconds),
            backoff_seconds=self._seconds("sasl.login.retry.backoff.ms", default.backoff_seconds),
            longest_backoff_seconds=self._seconds(
                "sasl.login.retry.backoff.max.ms", default.longest_backoff_seconds
            ),
            refresh_factor=self._parsed("sasl.login.refresh.window.factor", _factor, default.refresh_factor),
        )

    def _seconds(self, name: str, default: float) -> float:
        return self._parsed(name, _milliseconds, default)

    def _parsed(self, name: str, parse: Callable[[str], T], default: T) -> T:
        entry = self._filled(name)
        if entry is None:
            return default
        try:
            return parse(java_trim(entry.value))
        except ValueError as error:
            self.report.expected(entry, str(error))
            return default

    def _number(self, option: str, least: int, default: float) -> float:
        text = self._option(option)
        if not text:
            return default
        try:
            return parse_integer(text, least, _DAY_MS)
        except ValueError as error:
            if self.jaas is not None:
                self.report.refused(self.jaas, f"expected {error} (option {option})")
            return default


def _assertion(entry: Entry) -> str:
    return _ASSERTION.format(id=sibling(entry, CLIENT_ID), secret=sibling(entry, CLIENT_SECRET))


def _milliseconds(text: str) -> float:
    return parse_integer(text, 1, _DAY_MS) / 1000


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0.5 <= factor <= 1.0:
        raise ValueError("a number from 0.5 to 1.0")
    return factor
