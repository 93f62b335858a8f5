"""The properties by which Kafka's clients, MirrorMaker 2 and mmtool connect to a secured cluster. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.lab.security.kinds import SecurityKind
from mmtool.lab.security.listeners import OAUTH_MODULE, SCRAM_MECHANISM
from mmtool.lab.security.stores import StoreFormat

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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
    from mmtool.config.jaas import jaas_text

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
