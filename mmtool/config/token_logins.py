"""Translate the settings of token logins: OAUTHBEARER of Kafka and of Strimzi, and IAM of Amazon MSK.

Names and defaults are those of kafka-clients 4.4 (``ConfigOrJaas``, ``HttpJwtRetriever``), strimzi-kafka-oauth
(``ClientConfig``) and aws-msk-iam-auth (``IAMClientCallbackHandler``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from mmtool.config.credentials import MskLogin, OAuthLogin, Pem, TokenFileLogin, TokenLogin, TokenPace
from mmtool.config.properties import PropertyEntry
from mmtool.config.report import Report
from mmtool.config.scopes import Properties, filled, sibling
from mmtool.config.values import java_trim, parse_boolean, parse_integer
from mmtool.errors import install_extra

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


class LoginRefusedError(Exception):
    """A login that mmtool cannot use; the text says why, and quotes no value.

    Attributes:
        entry: The key to report it at.
    """

    def __init__(self, entry: PropertyEntry, sentence: str) -> None:
        super().__init__(sentence)
        self.entry = entry


@dataclass(frozen=True, slots=True)
class TokenLoginReader:
    """Reads one token login.

    Attributes:
        properties: The client's.
        report: For single values that are wrong.
        read_ca: Reads the trusted certificates among properties.
        jaas: ``sasl.jaas.config``, where the file has one.
        options: Its options; they may be secrets, and are never quoted.
    """

    properties: Properties
    report: Report
    read_ca: Callable[[Properties], Pem | None]
    jaas: PropertyEntry | None
    options: Mapping[str, str]

    def oauth(self) -> TokenLogin:
        """The login of ``OAUTHBEARER``, by the class that Java's clients would get the token from.

        Raises:
            LoginRefusedError: The login is incomplete, or mmtool has no equal of it.
        """
        handler = self._filled(HANDLER)
        if handler is None or handler.value.strip() in KAFKA_HANDLERS:
            return self._kafka()
        if handler.value.strip() == STRIMZI_HANDLER:
            return self._strimzi()
        if handler.value.strip() == MSK_OAUTH_HANDLER:
            return self.msk()
        raise LoginRefusedError(
            handler,
            f"names a Java class, which mmtool does not run: use {KAFKA_HANDLERS[0]} with {sibling(handler, ENDPOINT)},"
            " a client id and a secret",
        )

    # --- Kafka --------------------------------------------------------------------------------------------

    def _kafka(self) -> TokenLogin:
        self._refuse_assertions()
        entry = self._filled(ENDPOINT)
        if entry is None:
            raise LoginRefusedError(
                self._at,
                f"OAUTHBEARER needs a token endpoint: set {sibling(self._at, ENDPOINT)}; mmtool makes no unsecured"
                " tokens",
            )
        url = self._url(entry, java_trim(entry.value))
        common = self._common("extension_", self._text("sasl.oauthbearer.sub.claim.name"), self._pace())
        if url.startswith("file:"):
            return TokenFileLogin(path=unquote(urlsplit(url).path), key=entry.key, **common)
        # a key of its own wins over the option, as in Kafka
        client = self._text(CLIENT_ID) or self._option("clientId")
        secret = self._text(CLIENT_SECRET) or self._option("clientSecret")
        if not client or not secret:
            at = self.jaas or entry
            keys = f"{sibling(at, CLIENT_ID)} and {sibling(at, CLIENT_SECRET)}, or "
            raise _no_client(at, f"{keys}clientId and clientSecret")
        return OAuthLogin(
            endpoint=url,
            endpoint_key=entry.key,
            client_id=client,
            client_secret=SecretStr(secret),
            key=(self._filled(CLIENT_SECRET) or self._at).key,
            scope=self._text("sasl.oauthbearer.scope") or self._option("scope"),
            encodes_header=self._parsed("sasl.oauthbearer.header.urlencode", parse_boolean, default=False),
            **self._tls_of_options("ssl."),
            **common,
        )

    def _refuse_assertions(self) -> None:
        """Refuse a token that would come from Java code that mmtool has no equal of."""
        retriever = self._filled(_RETRIEVER)
        known = retriever is None or retriever.value.strip() in _RETRIEVERS
        asserts = [None if known else retriever, *map(self._filled, _ASSERTIONS)]
        entry = next(filter(None, asserts), None)
        if entry is None:
            return
        if entry is retriever and entry.value.strip().rpartition(".")[2] != "JwtBearerJwtRetriever":
            way_out = f"remove the key and use {sibling(entry, ENDPOINT)}"
            raise LoginRefusedError(entry, f"names a Java class, which mmtool does not run: {way_out}")
        raise LoginRefusedError(
            entry,
            "mmtool logs in with a client id and a secret, not with a signed assertion (JwtBearerJwtRetriever): remove"
            f" the key, and set {sibling(entry, CLIENT_ID)} and {sibling(entry, CLIENT_SECRET)}",
        )

    def _url(self, entry: PropertyEntry, text: str, option: str = "") -> str:
        """The URL of the token endpoint; ``option``: the JAAS option that holds it."""
        named = f" (option {option})" if option else ""
        try:
            url = urlsplit(text)
            usable = url.scheme == "file" or (
                url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
            )
        except ValueError:  # a port that is none
            usable = False
        if not usable:
            expected = "expected the token endpoint's URL, which begins with https://, http:// or file:"
            raise LoginRefusedError(entry, f"{expected}{named}")
        if "@" in url.netloc:
            raise LoginRefusedError(
                entry,
                f"the URL holds a user name{named}: remove it, and set the client id and its secret"
                f" as {sibling(entry, CLIENT_ID)} and {sibling(entry, CLIENT_SECRET)}",
            )
        return text

    # --- Strimzi ------------------------------------------------------------------------------------------

    def _strimzi(self) -> TokenLogin:
        at = self._at
        if self.jaas is None:
            raise LoginRefusedError(
                at,
                f"Strimzi's login handler takes its settings from {sibling(at, 'sasl.jaas.config')}: set it; the "
                "environment variables OAUTH_* are not read",
            )
        self._refuse_options(_STRIMZI_REFUSED)
        pace = self._pace()
        connect = self._number("oauth.connect.timeout.seconds", 1, pace.connect_seconds)
        read = self._number("oauth.read.timeout.seconds", 1, pace.read_seconds)
        pace = pace.model_copy(update={"connect_seconds": connect, "read_seconds": read})
        common = self._common("oauth.sasl.extension.", self._option("oauth.username.claim"), pace)
        if path := self._option("oauth.access.token.location"):
            return TokenFileLogin(path=path, key=at.key, **common)
        url_option = "oauth.token.endpoint.uri"
        url = self._url(at, self._option(url_option), url_option)
        if url.startswith("file:"):
            remedy = "to read the token from a file, set oauth.access.token.location"
            raise LoginRefusedError(at, f"{url_option} cannot be a file: {remedy}")
        client, secret = self._option("oauth.client.id"), self._option("oauth.client.secret")
        if not client or not secret:
            raise _no_client(at, "oauth.client.id and oauth.client.secret")
        return OAuthLogin(
            endpoint=url,
            endpoint_key=at.key,
            client_id=client,
            client_secret=SecretStr(secret),
            key=at.key,
            scope=self._option("oauth.scope"),
            audience=self._option("oauth.audience"),
            longest_life_seconds=int(self._number("oauth.max.token.expiry.seconds", 60, 0)) or None,
            **self._tls_of_options("oauth.ssl."),
            **common,
        )

    # --- MSK ----------------------------------------------------------------------------------------------

    def msk(self) -> MskLogin:
        """The login of ``AWS_MSK_IAM``.

        Raises:
            LoginRefusedError: The region or the package that signs tokens is missing, or an option has no equal.
        """
        at = self.jaas or self._filled("sasl.mechanism") or self._at
        self._refuse_options(_MSK_REFUSED)
        if find_spec(_SIGNER) is None:
            package = "the package aws-msk-iam-sasl-signer-python"
            raise LoginRefusedError(at, f"AWS_MSK_IAM needs {package}: {install_extra('msk')}")
        # names of a private DNS have no region; the variable is read here, so that Spark's workers need none
        found = _REGION.search(self._text("bootstrap.servers"))
        environ = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        region = found[1].lower() if found else environ
        if not region:
            raise LoginRefusedError(
                at, "the bootstrap servers do not name an AWS region: set the environment variable AWS_REGION"
            )
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

    # --- parts of all -------------------------------------------------------------------------------------

    @property
    def _at(self) -> PropertyEntry:
        """The key to report a missing setting at, and what is wrong with an option."""
        return self.jaas or self.properties["security.protocol"]

    def _filled(self, name: str) -> PropertyEntry | None:
        return filled(self.properties, name)

    def _text(self, name: str) -> str:
        entry = self._filled(name)
        return java_trim(entry.value) if entry is not None else ""

    def _option(self, name: str) -> str:
        return self.options.get(name, "").strip()

    def _refuse_options(self, refused: Mapping[str, str]) -> None:
        for name, remedy in refused.items():
            if self._option(name):
                raise LoginRefusedError(self._at, f"the option {name} is not supported: {remedy}")

    def _common(self, prefix: str, subject_claim: str, pace: TokenPace) -> dict[str, Any]:
        """The fields of every login of Kafka or Strimzi; ``prefix``: of the options that are SASL extensions."""
        found = {
            name[len(prefix) :]: value for name, value in self.options.items() if name.startswith(prefix)
        }
        for name, value in found.items():
            if not _EXTENSION_NAME.fullmatch(name) or name == "auth" or not _EXTENSION_VALUE.fullmatch(value):
                expected = "expected letters as the extension's name, and printable text as its value"
                self.report.refused(self._at, f"{expected} (option {prefix}{name})")
        extensions = tuple(sorted(found.items()))
        return {"extensions": extensions, "subject_claim": subject_claim or "sub", "pace": pace}

    def _tls_of_options(self, prefix: str) -> dict[str, Any]:
        """The endpoint's TLS, which Java's clients take from the JAAS options, not from the client's properties."""
        start = len(prefix) - len("ssl.")
        named = {name[start:]: value for name, value in self.options.items() if name.startswith(prefix)}
        ca = self.read_ca({name: replace(self._at, raw=text, value=text) for name, text in named.items()})
        word = named.get("ssl.endpoint.identification.algorithm", "https")
        return {"ca": ca, "verify_hostname": word.strip().lower() == "https"}

    def _pace(self) -> TokenPace:
        default = TokenPace()
        fields = {
            name: self._parsed(f"sasl.login.{key}", parse, getattr(default, name))
            for name, (key, parse) in _PACE.items()
        }
        return TokenPace(**fields)

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
            self.report.refused(self._at, f"expected {error} (option {option})")
            return default


def _no_client(at: PropertyEntry, names: str) -> LoginRefusedError:
    where = sibling(at, "sasl.jaas.config")
    return LoginRefusedError(at, f"OAUTHBEARER needs a client id and its secret; set {names} in {where}")


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


_PACE = {
    "connect_seconds": ("connect.timeout.ms", _milliseconds),
    "read_seconds": ("read.timeout.ms", _milliseconds),
    "backoff_seconds": ("retry.backoff.ms", _milliseconds),
    "longest_backoff_seconds": ("retry.backoff.max.ms", _milliseconds),
    "refresh_factor": ("refresh.window.factor", _factor),
}
"""The fields of `TokenPace`: each with its key below ``sasl.login.``, and what reads the key."""
