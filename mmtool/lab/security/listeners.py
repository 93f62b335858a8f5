"""The part of ``server.properties`` that secures a broker. Pure.

Each broker has three listeners: the clients' one; one of the brokers among themselves; and the controller's. On
the last two every peer needs a certificate of the lab's authority. No listener accepts an anonymous peer, so
``User:ANONYMOUS`` is no super user and has no rights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.lab.security.kinds import ADMIN, BROKER, SecurityKind, principal

if TYPE_CHECKING:
    from collections.abc import Mapping

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
