"""Open a connection to a broker: aiokafka's, with the part of OAUTHBEARER that aiokafka leaves out."""

from __future__ import annotations

from typing import Any

from aiokafka.conn import AIOKafkaConnection, OAuthAuthenticator

_ACKNOWLEDGED = b"\x01"


class TokenExchange(OAuthAuthenticator):  # type: ignore[misc]  # aiokafka has no types
    """Answers the broker's refusal of a token (RFC 7628, section 3.2.3), which aiokafka takes for a success."""

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        if payload:
            return _ACKNOWLEDGED, True
        step: tuple[bytes, bool] | None = await super().step(payload)
        return step


class _Connection(AIOKafkaConnection):  # type: ignore[misc]  # aiokafka has no types
    def authenticator_oauth(self) -> TokenExchange:
        return TokenExchange(sasl_oauth_token_provider=self._sasl_oauth_token_provider)


async def open_connection(host: str, port: int, **options: Any) -> Any:
    """A connection that is logged in.

    Raises:
        KafkaError: The login fails; `readable_refusal` reads its text.
        UnreachableError: There is no token to log in with.
        OSError: The broker does not answer.
    """
    connection = _Connection(host, port, **options)
    await connection.connect()
    return connection
