"""Translate ``sasl.*`` and ``sasl.jaas.config`` from Java's form to a login for both Python clients."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast, get_args

from pydantic import SecretStr

from mmtool.config.credentials import Mechanism, PasswordLogin, Pem, Sasl
from mmtool.config.properties import PropertyEntry
from mmtool.config.report import Report
from mmtool.config.scopes import Properties, filled, sibling
from mmtool.config.token_logins import (
    HANDLER,
    KAFKA_HANDLERS,
    MSK_CLIENT_HANDLER,
    LoginRefusedError,
    TokenLoginReader,
)
from mmtool.config.values import java_trim

_MODULE = re.compile(
    r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b(.*?);\s*", re.DOTALL | re.IGNORECASE
)
_OPTION = re.compile(r"""\s*([\w.\-]+)\s*=\s*("(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|[^\s"';=]+)""", re.DOTALL)
_REST = re.compile(r"\s*")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SECRET_OPTION = re.compile("(password|secret|token|assertion|accesskey)$", re.IGNORECASE)

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MSK_MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"


@dataclass(frozen=True, slots=True)
class JaasLogin:
    """One login module and its options."""

    module: str
    options: Mapping[str, str] = field(repr=False)


def is_secret_option(name: str) -> bool:
    """Whether the value of a login module's option is a secret."""
    return _SECRET_OPTION.search(name) is not None


def parse_jaas(text: str) -> JaasLogin:
    """Read the login module of a ``sasl.jaas.config``.

    Raises:
        ValueError: The text is none; the message says what is expected, and never quotes the text, since it holds the
            password.
    """
    match = _MODULE.fullmatch(text)
    if match is None:
        raise ValueError("one login module")
    return JaasLogin(match.group(1), _options(match.group(3)))


def jaas_text(module: str, options: Mapping[str, str]) -> str:
    """A ``sasl.jaas.config`` of one login module."""
    quoted = (f' {name}="{_quoted(value)}"' for name, value in options.items())
    return f"{module} required{''.join(quoted)};"


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _options(text: str) -> dict[str, str]:
    options = {}
    position = 0
    while not _REST.fullmatch(text, position):
        match = _OPTION.match(text, position)
        if match is None:
            raise ValueError("only options after the login module")
        options[match.group(1)] = _unquoted(match.group(2))
        position = match.end()
    return options


def _unquoted(word: str) -> str:
    return _ESCAPED.sub(r"\1", word[1:-1]) if word[0] in "\"'" else word


PASSWORD_MECHANISMS: tuple[str, ...] = get_args(Mechanism)
OAUTH, MSK = "OAUTHBEARER", "AWS_MSK_IAM"
MECHANISMS = (*PASSWORD_MECHANISMS, OAUTH, MSK)
"""The values of ``sasl.mechanism`` that mmtool knows."""

_MODULE_OF = {
    "PLAIN": PLAIN_MODULE,
    "SCRAM-SHA-256": SCRAM_MODULE,
    "SCRAM-SHA-512": SCRAM_MODULE,
    OAUTH: OAUTH_MODULE,
    MSK: MSK_MODULE,
}


def login_text(mechanism: str, *login: str) -> str:
    """A ``sasl.jaas.config`` of a mechanism: with user name and password, client id and secret, or without them."""
    names = {MSK: (), OAUTH: ("clientId", "clientSecret")}.get(mechanism, ("username", "password"))
    return jaas_text(_MODULE_OF[mechanism], dict(zip(names, login, strict=False)))


_KERBEROS = (
    "Kerberos (GSSAPI) is not supported, because the librdkafka of the Python wheels is built without it: use a "
    "listener with SCRAM-SHA-512, OAUTHBEARER or client certificates (security.protocol = SSL)"
)
_DELEGATION = (
    "delegation tokens (tokenauth) are not supported, because librdkafka cannot log in with them: give mmtool a SCRAM "
    "user of its own"
)
_JAVA_ONLY = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class")


@dataclass(frozen=True, slots=True)
class SaslReader:
    """Reads the login among a client's properties; settings that cannot be translated are reported.

    Attributes:
        properties: The client's.
        report: For what is wrong.
        read_ca: Reads the trusted certificates among properties.
    """

    properties: Properties
    report: Report
    read_ca: Callable[[Properties], Pem | None]

    def login(self) -> Sasl | None:
        """The login; None where it is refused."""
        mechanism = self._mechanism()
        self._refuse_java_code(mechanism)
        try:
            return None if mechanism is None else self._login(mechanism)
        except LoginRefusedError as error:
            self.report.refused(error.entry, str(error))
            return None

    def _login(self, mechanism: str) -> Sasl:
        if mechanism in PASSWORD_MECHANISMS:
            return self._password_login(cast("Mechanism", mechanism))
        entry = self._filled("sasl.jaas.config")
        options = {} if entry is None else self._jaas(mechanism, entry).options
        reader = TokenLoginReader(self.properties, self.report, self.read_ca, entry, options)
        return reader.msk() if mechanism == MSK else reader.oauth()

    def _filled(self, name: str) -> PropertyEntry | None:
        return filled(self.properties, name)

    def _mechanism(self) -> str | None:
        entry = self._filled("sasl.mechanism")
        word = "" if entry is None else entry.value.strip()
        if entry is None:
            at = self.properties["security.protocol"]
            missing = f"{sibling(at, 'sasl.mechanism')} is not set, and Kafka's default is GSSAPI: set it"
            self.report.refused(at, f"{missing}. {_KERBEROS}")
        elif word == "GSSAPI":
            self.report.refused(entry, _KERBEROS)
        elif word not in MECHANISMS:
            self.report.expected(entry, f"{' or '.join(MECHANISMS)}: mmtool supports no other mechanism")
        return word if word in MECHANISMS else None

    def _refuse_java_code(self, mechanism: str | None) -> None:
        for name in _JAVA_ONLY:
            entry = self._filled(name)
            # classes whose work mmtool does itself; the login handler's is judged with the login
            is_handler = mechanism == OAUTH and name == HANDLER
            is_signer = mechanism == MSK and name == "sasl.client.callback.handler.class"
            if entry is None or is_handler or (is_signer and entry.value.strip() == MSK_CLIENT_HANDLER):
                continue
            self.report.refused(
                entry,
                "names a Java class, which mmtool does not run: remove the key and use sasl.mechanism = "
                f"{' or '.join(MECHANISMS)}",
            )

    def _password_login(self, mechanism: Mechanism) -> PasswordLogin:
        username, password = self._filled("sasl.username"), self._filled("sasl.password")
        if username is not None and password is not None:
            user, secret = java_trim(username.value), java_trim(password.value)
            return PasswordLogin(mechanism=mechanism, username=user, password=SecretStr(secret))
        entry = self._filled("sasl.jaas.config")
        if entry is None:
            at = username or password or self.properties["security.protocol"]
            raise LoginRefusedError(
                at,
                f"{mechanism} needs a login: set {sibling(at, 'sasl.jaas.config')}, or "
                f"{sibling(at, 'sasl.username')} and {sibling(at, 'sasl.password')}; a login file of the JVM "
                "(java.security.auth.login.config) is not read",
            )
        options = self._jaas(mechanism, entry).options
        if options.get("tokenauth", "").strip().lower() == "true":
            raise LoginRefusedError(entry, _DELEGATION)
        if "username" not in options or "password" not in options:
            raise LoginRefusedError(entry, f"has no username or no password; {_way_out(entry, mechanism)}")
        return PasswordLogin(
            mechanism=mechanism, username=options["username"], password=SecretStr(options["password"])
        )

    def _jaas(self, mechanism: str, entry: PropertyEntry) -> JaasLogin:
        """The login module of a JAAS configuration, which has to be the one of the mechanism."""
        # the login handlers of Strimzi and MSK read only JAAS
        handler = self._filled(HANDLER)
        leaves_jaas = mechanism != OAUTH or handler is None or handler.value.strip() in KAFKA_HANDLERS
        way_out = f"; or {_way_out(entry, mechanism)}" if leaves_jaas else ""
        try:
            login = parse_jaas(entry.value)
        except ValueError as error:
            example = login_text(mechanism, *(("...", "...") if leaves_jaas else ()))
            raise LoginRefusedError(entry, f"expected {error}, as `{example}`{way_out}") from None
        if login.module == KERBEROS_MODULE:
            raise LoginRefusedError(entry, _KERBEROS)
        if login.module != _MODULE_OF[mechanism]:
            raise LoginRefusedError(
                entry,
                f"expected {_MODULE_OF[mechanism]} for {mechanism}, not {login.module}: correct the module or"
                f" {sibling(entry, 'sasl.mechanism')}{way_out}",
            )
        return login


def _way_out(entry: PropertyEntry, mechanism: str) -> str:
    """How to write the login without JAAS."""
    if mechanism == MSK:
        return f"remove {entry.key}: without it, the default AWS identity is used"
    if mechanism == OAUTH:
        start = "sasl.oauthbearer.client.credentials.client."
        return (
            f"write the client to {sibling(entry, start + 'id')}, and a placeholder such as ${{env:NAME}} to "
            f"{sibling(entry, start + 'secret')}, and remove {entry.key}"
        )
    return (
        f"write the user name to {sibling(entry, 'sasl.username')}, and a placeholder such as ${{env:NAME}} to "
        f"{sibling(entry, 'sasl.password')}; these two keys win over sasl.jaas.config"
    )
