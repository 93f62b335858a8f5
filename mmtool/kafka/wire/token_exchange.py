"""A login with a token: aiokafka's authenticator, with the part of OAUTHBEARER that aiokafka leaves out."""

from __future__ import annotations

from aiokafka import conn

_ACKNOWLEDGED = b"\x01"


class TokenExchange(conn.OAuthAuthenticator):  # type: ignore[misc]  # aiokafka has no types
    """Answers the broker's refusal of a token (RFC 7628, section 3.2.3), which aiokafka takes for a success."""

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        if payload:
            return _ACKNOWLEDGED, True
        step: tuple[bytes, bool] | None = await super().step(payload)
        return step
