"""Open a connection to a broker: aiokafka's, with the part of OAUTHBEARER that aiokafka leaves out."""

from __future__ import annotations

import json
from typing import Any

from aiokafka.conn import AIOKafkaConnection, OAuthAuthenticator

_ACKNOWLEDGED = b"\x01"


class _Exchange(OAuthAuthenticator):  # type: ignore[misc]  # aiokafka has no types
    """Answers the broker's refusal of a token (RFC 7628, section 3.2.3), which aiokafka takes for a success."""

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        if payload:
            return _ACKNOWLEDGED, True
        step: tuple[bytes, bool] | None = await super().step(payload)
        return step


class _Connection(AIOKafkaConnection):  # type: ignore[misc]  # aiokafka has no types
    def authenticator_oauth(self) -> _Exchange:
        return _Exchange(sasl_oauth_token_provider=self._sasl_oauth_token_provider)


async def open_connection(host: str, port: int, **options: Any) -> Any:
    """A connection that is logged in.

    Raises:
        KafkaError: The login fails; its text may be what `refusal` reads.
        UnreachableError: There is no token to log in with.
        OSError: The broker does not answer.
    """
    connection = _Connection(host, port, **options)
    await connection.connect()
    return connection


def refusal(error: Exception) -> str:
    """Why a broker refuses a login, for people; a broker that refuses a token answers with a JSON document."""
    said = str(error)
    start = said.find("{")
    try:
        found = json.loads(said[start:]) if start >= 0 else {}
    except ValueError:
        return said
    status = found.get("status") if isinstance(found, dict) else None
    if not isinstance(status, str):
        return said
    scope = f", the brokers expect scope {found['scope']}" if found.get("scope") else ""
    return f"the brokers do not accept the token ({status}){scope}"
