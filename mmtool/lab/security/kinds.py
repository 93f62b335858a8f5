"""How the clusters of a lab are secured: users, listeners, and the properties of clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from mmtool.lab.security.certificates import StoreFormat

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class SecurityKind(StrEnum):
    """How clients authenticate; the value is that of ``mmtool lab up --secure``."""

    SCRAM = "scram"
    MTLS = "mtls"
    OAUTH = "oauth"

    @property
    def protocol(self) -> str:
        """The ``security.protocol`` of the clients' listener."""
        return "SSL" if self is SecurityKind.MTLS else "SASL_SSL"


class Secure(StrEnum):
    """The values of ``--secure``."""

    NONE = "none"
    SCRAM = SecurityKind.SCRAM.value
    MTLS = SecurityKind.MTLS.value
    OAUTH = SecurityKind.OAUTH.value

    @property
    def kind(self) -> SecurityKind | None:
        return None if self is Secure.NONE else SecurityKind(self.value)


ADMIN = "admin"
"""May do everything."""
MMTOOL = "mmtool"
"""Has the rights that the flows of the lab need, and no others."""
GUEST = "guest"
"""Can authenticate, and has no rights."""
USERS = (ADMIN, MMTOOL, GUEST)

BROKER = "broker"
"""The principal of the brokers themselves, known by their certificate."""


def client_file(folder: Path, user: str) -> Path:
    """The properties file of a user, for Kafka's command-line tools."""
    return folder / f"{user}.properties"


def principal(user: str) -> str:
    """The principal of a user, the same with each kind."""
    return f"User:{user}"


CLIENTS, BROKERS, CONTROLLERS = "CLIENTS", "BROKERS", "CONTROLLER"
SCRAM_MECHANISM = "SCRAM-SHA-512"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
_HOST = "127.0.0.1"


def secured_properties(kind: SecurityKind, trusted: str, identity: str) -> dict[str, str]:
    """A broker's listeners, their certificates and the authorizer.

    Ports are the placeholders that `server_properties` fills in. ``trusted`` and ``identity`` are PEM files.
    """
    clients = f"{CLIENTS}://{_HOST}:{{port}}"
    brokers = f"{BROKERS}://{_HOST}:{{broker_port}}"
    return {
        "listeners": f"{clients},{brokers},{CONTROLLERS}://{_HOST}:{{controller_port}}",
        "advertised.listeners": f"{clients},{brokers}",
        "listener.security.protocol.map": f"{CLIENTS}:{kind.protocol},{BROKERS}:SSL,{CONTROLLERS}:SSL",
        "inter.broker.listener.name": BROKERS,
        **_certificates(trusted, identity),
        **_client_auth(kind),
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join((principal(ADMIN), principal(BROKER))),
        "allow.everyone.if.no.acl.found": "false",
    }


def scram_properties() -> dict[str, str]:
    """The clients' listener with SCRAM."""
    return {
        "sasl.enabled.mechanisms": SCRAM_MECHANISM,
        f"listener.name.{CLIENTS.lower()}.{SCRAM_MECHANISM.lower()}.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }


def oauth_properties(keys_url: str, audience: str, issuer: str) -> dict[str, str]:
    """The clients' listener with OAUTHBEARER; ``keys_url`` serves the JWKS that verifies tokens."""
    mechanism = f"listener.name.{CLIENTS.lower()}.oauthbearer"
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys_url,
        "sasl.oauthbearer.expected.audience": audience,
        "sasl.oauthbearer.expected.issuer": issuer,
        f"{mechanism}.sasl.jaas.config": f"{OAUTH_MODULE} required;",
        f"{mechanism}.sasl.server.callback.handler.class": _VALIDATOR,
    }


def scram_arguments(passwords: Mapping[str, str]) -> list[str]:
    """The arguments of Kafka's ``StorageTool format`` that create the users."""
    return [
        argument
        for user, password in passwords.items()
        for argument in ("--add-scram", f"{SCRAM_MECHANISM}=[name={user},password={password}]")
    ]


def _certificates(trusted: str, identity: str) -> dict[str, str]:
    return {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trusted,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": identity,
    }


def _client_auth(kind: SecurityKind) -> dict[str, str]:
    of_clients = "required" if kind is SecurityKind.MTLS else "none"
    words = {CLIENTS: of_clients, BROKERS: "required", CONTROLLERS: "required"}
    return {f"listener.name.{name.lower()}.ssl.client.auth": word for name, word in words.items()}


SECRETS = ("sasl.jaas.config", "ssl.truststore.password", "ssl.keystore.password")
"""The keys whose values hold a secret."""
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


@dataclass(frozen=True, slots=True)
class Login:
    """What a user authenticates with.

    Attributes:
        trusted, identity: The trust store, and the key store; the latter is used with mTLS.
        store_password: Opens both; PEM files have none.
        password: With SCRAM; the client secret with OAUTHBEARER.
        token_url: Where tokens are granted, with OAUTHBEARER.
    """

    user: str
    trusted: Path
    identity: Path
    store_format: StoreFormat
    store_password: str = field(repr=False)
    password: str = field(repr=False)
    token_url: str | None = None


def client_properties(kind: SecurityKind, login: Login) -> dict[str, str]:
    """A user's properties, without ``bootstrap.servers``."""
    from mmtool.config.sasl import jaas_text

    properties = {"security.protocol": kind.protocol, **_store("truststore", login.trusted, login)}
    match kind:
        case SecurityKind.MTLS:
            properties |= _store("keystore", login.identity, login)
        case SecurityKind.SCRAM:
            properties |= {
                "sasl.mechanism": SCRAM_MECHANISM,
                "sasl.jaas.config": jaas_text(
                    _SCRAM_MODULE, {"username": login.user, "password": login.password}
                ),
            }
        case SecurityKind.OAUTH:
            assert login.token_url is not None
            properties |= {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": login.token_url,
                "sasl.login.callback.handler.class": _OAUTH_HANDLER,
                "sasl.jaas.config": jaas_text(
                    OAUTH_MODULE, {"clientId": login.user, "clientSecret": login.password, "scope": "kafka"}
                ),
            }
    return properties


def without_secrets(properties: Mapping[str, str], file: Path) -> dict[str, str]:
    """The properties with placeholders for the secrets, which ``file`` holds under the same keys."""
    return {
        name: f"${{file:{file}:{name}}}" if name in SECRETS else value for name, value in properties.items()
    }


def _store(kind: str, path: Path, login: Login) -> dict[str, str]:
    found = {f"ssl.{kind}.type": login.store_format.value, f"ssl.{kind}.location": str(path)}
    if login.store_format is not StoreFormat.PEM:
        found[f"ssl.{kind}.password"] = login.store_password
    return found
