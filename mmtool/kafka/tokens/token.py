"""A bearer token, its life, and its claims; one that another process keeps fresh in a file."""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmtool.errors import UnreachableError
from mmtool.translation.json_text import parse_json

if TYPE_CHECKING:
    from mmtool.config.settings import TokenFileLogin

_OPAQUE_SECONDS = 300.0
"""How long an opaque token is used before the file is read again, in seconds."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token as brokers get it. Times are seconds of the Unix epoch, by this host's clock.

    Attributes:
        value: The token itself, a secret.
        issued: When it was obtained.
        expires: When it ends.
        principal: The name in it, or the client's id.
    """

    value: str = field(repr=False)
    issued: float
    expires: float
    principal: str


def claims_of(value: str) -> dict[str, Any]:
    """The claims of a JWT, not verified: that is the broker's work. Empty where the token is opaque."""
    parts = value.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = parse_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:  # binascii's as well
        return {}
    return found if isinstance(found, dict) else {}


def name_in(claims: dict[str, Any], claim: str) -> str:
    """The principal's name in a claim; empty where it has none."""
    name = claims.get(claim)
    return name if isinstance(name, str) else ""


def life_seconds(claims: dict[str, Any], expires_in: object, now: float) -> float | None:
    """How long a token lives from now on, in seconds; None where nothing says it.

    The endpoint's own figure and the distance of ``iat`` and ``exp`` do not depend on this host's clock, so they win
    over ``exp`` alone.
    """
    issued, expires = finite_number(claims.get("iat")), finite_number(claims.get("exp"))
    given = finite_number(expires_in)
    if given is not None:
        return given
    if expires is None:
        return None
    return expires - (now if issued is None else issued)


def finite_number(value: object) -> float | None:
    """A finite number, also one written as text, as Azure's older endpoint answers ``expires_in``."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < 1e12 else None


@dataclass(frozen=True, slots=True)
class TokenFile:
    """The token file of one cluster's login."""

    alias: str
    login: TokenFileLogin

    def fetch(self) -> Token:
        """The token in the file.

        Raises:
            UnreachableError: The file cannot be read, or its token has expired.
        """
        now = time.time()
        try:
            value = Path(self.login.path).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise self._away(getattr(error, "strerror", None) or "it is not ASCII text") from None
        if not value or not value.isprintable():
            raise self._away("it has no token")
        claims = claims_of(value)
        expires = finite_number(claims.get("exp", now + _OPAQUE_SECONDS))
        if expires is None:
            raise self._away("the expiry time (exp) of its token is not a number")
        if expires <= now:
            raise self._away("its token has expired")
        return Token(value, now, expires, name_in(claims, self.login.subject_claim) or self.login.path)

    def _away(self, why: str) -> UnreachableError:
        return UnreachableError(
            f"cluster {self.alias}: the token file {self.login.path} cannot be used: {why}",
            remedy=f"check {self.login.key}, and the process that writes the file",
        )
