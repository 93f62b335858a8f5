"""Logins on an open connection: SaslHandshake (17), SaslAuthenticate (36), and sessions that end (KIP-368).

aiokafka authenticates only while it connects, and drops the lifetime that the broker grants. Its authenticators compute
the tokens here, too.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.schema import row

A = TypeVar("A")


class UnprovenBrokerError(Exception):
    """The broker accepted the login, and its answer does not prove that it knows the password."""


TAKES_NO_LOGIN = "the listener takes no login: its protocol is PLAINTEXT or SSL"

_EARLIEST, _LATEST = 0.85, 0.95
"""The share of its lifetime at which a session is renewed, as in Kafka's Java client."""
_SPARE_SECONDS = 1.0
_LARGEST_SPARE_SHARE = 0.5
_BROKERS_MINIMUM_SECONDS = 1.1
"""A broker refuses a re-authentication within one second of the last one's start."""


class Handshake(NamedTuple):
    """The answer to SaslHandshake: the mechanisms that the listener enables."""

    error_code: int
    mechanisms: list[str]


class SaslHandshakeRequest(WireRequest[Handshake], api=17, versions=(1,)):
    """Starts a login with a mechanism; version 1 announces SaslAuthenticate requests."""

    mechanism: str
    BODY = row("mechanism:string")
    ANSWER = row("error_code:int16 mechanisms:[string]", Handshake)


class Authenticated(NamedTuple):
    """The answer to SaslAuthenticate.

    Attributes:
        message: The broker's reason; empty without an error.
        token: The broker's token for the authenticator.
        lifetime_ms: How long the session lasts; 0 without an end, and before the last token.
    """

    error_code: int
    message: str
    token: bytes
    lifetime_ms: int = 0


class SaslAuthenticateRequest(WireRequest[Authenticated], api=36, versions=(0, 1)):
    """Sends one token of a login."""

    token: bytes = field(repr=False)
    BODY = row("token:bytes")
    ANSWER = row("error_code:int16 message:string token:bytes lifetime_ms:int64@1", Authenticated)


class Authenticator(Protocol):
    """One login with one mechanism: a token of ours for each of the broker's, None after the last."""

    def step(self, payload: bytes | None) -> Awaitable[tuple[bytes, bool] | None]: ...


class Ask(Protocol):
    """Sends a request and returns its decoded answer."""

    async def __call__(self, request: WireRequest[A]) -> A: ...


@dataclass(frozen=True, slots=True)
class Session:
    """The time that a broker grants to a login. Times are an event loop's, in seconds.

    A broker compares the time at which it reads a request with the session's end, closes the connection if that has
    passed, and counts it as killed. It reads a request only when it has answered the one before. So a session is
    renewed earlier where answers are slow, and a second before its end at the latest; in the second half of that time
    only the login is sent. A broker refuses a login within a second of the last one, so that a session of about a
    second ends.

    Attributes:
        began: When the last token was sent: the broker's session begins later.
        share: The share of the lifetime at which the session is to be renewed.
    """

    began: float
    lifetime: float
    share: float

    @classmethod
    def granted(cls, began: float, lifetime_ms: int) -> Session | None:
        """The session of an answer; None where it has no end."""
        # random, so that the connections of many workers do not log in at once
        share = random.uniform(_EARLIEST, _LATEST)
        return cls(began, lifetime_ms / 1000, share) if lifetime_ms > 0 else None

    def is_due(self, now: float, slowest_answer: float) -> bool:
        """Whether a re-authentication begins with the next request."""
        age = min(self.lifetime * self.share, self.lifetime - self._spare_seconds(slowest_answer))
        return now - self.began >= max(age, _BROKERS_MINIMUM_SECONDS)

    def is_ending(self, now: float, slowest_answer: float) -> bool:
        """Whether a request that is sent now may reach the broker after the session."""
        return now - self.began >= self.lifetime - self._spare_seconds(slowest_answer) / 2

    def _spare_seconds(self, slowest_answer: float) -> float:
        """How long before its end the session is renewed at the latest."""
        return min(_SPARE_SECONDS + 2 * slowest_answer, self.lifetime * _LARGEST_SPARE_SHARE)


@dataclass(frozen=True, slots=True)
class Login:
    """A mechanism, and its authenticator: a new one for each login, so that each takes the credentials of then."""

    mechanism: str
    authenticator: Callable[[], Authenticator] = field(repr=False)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Login | None:
        """The login of aiokafka's options; None for a connection without SASL."""
        mechanism = options.get("sasl_mechanism")
        return cls(mechanism, lambda: _authenticator(options)) if mechanism else None

    async def perform(self, ask: Ask, clock: Callable[[], float]) -> Session | None:
        """Log in; return the session, or None where it has no end.

        The first token is made before the first request: a token endpoint may take a while, and other requests can be
        sent meanwhile.

        Raises:
            SaslAuthenticationFailed, UnsupportedSaslMechanismError, IllegalSaslStateError: the broker refuses.
            UnprovenBrokerError: the broker's answer does not prove that it knows the password.
            ConnectionError, TimeoutError: the broker does not answer.
        """
        authenticator = self.authenticator()
        step = await self._step(authenticator, None)
        shaken = await ask(SaslHandshakeRequest(self.mechanism))
        _check(shaken.error_code, enabled_mechanisms(shaken.mechanisms))
        began, lifetime_ms = clock(), 0
        while step is not None:
            began = clock()
            answer = await ask(SaslAuthenticateRequest(step[0]))
            _check(answer.error_code, answer.message)
            lifetime_ms = answer.lifetime_ms
            step = await self._step(authenticator, answer.token)
        return Session.granted(began, lifetime_ms)

    async def _step(self, authenticator: Authenticator, token: bytes | None) -> tuple[bytes, bool] | None:
        try:
            return await authenticator.step(token)
        except (
            ValueError,
            KeyError,
            AssertionError,
        ) as error:  # as aiokafka's authenticators judge an answer
            if token is None:
                raise
            raise UnprovenBrokerError(
                f"the broker did not prove that it knows the password ({self.mechanism})"
            ) from error


def enabled_mechanisms(names: Iterable[str]) -> str:
    """The mechanisms that a listener enables, in words."""
    return f"the listener enables only {', '.join(sorted(names))}" if names else TAKES_NO_LOGIN


def _check(code: int, message: str) -> None:
    from aiokafka import errors

    if code != Code.NONE:
        raise errors.for_code(code)(message)


def _authenticator(options: Mapping[str, Any]) -> Authenticator:
    from aiokafka import conn

    mechanism = options["sasl_mechanism"]
    if mechanism == "OAUTHBEARER":

        class TokenExchange(conn.OAuthAuthenticator):  # type: ignore[misc]  # aiokafka has no types
            """Answers the refusal of a token (RFC 7628, section 3.2.3), which aiokafka takes for a success."""

            async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
                if payload:
                    return b"\x01", True
                return await super().step(payload)  # type: ignore[no-any-return]

        return TokenExchange(sasl_oauth_token_provider=options["sasl_oauth_token_provider"])
    login = {
        "loop": asyncio.get_running_loop(),
        "sasl_plain_username": options["sasl_plain_username"],
        "sasl_plain_password": options["sasl_plain_password"],
    }
    if mechanism == "PLAIN":
        return conn.SaslPlainAuthenticator(**login)  # type: ignore[no-any-return]
    return conn.ScramAuthenticator(**login, sasl_mechanism=mechanism)  # type: ignore[no-any-return]
