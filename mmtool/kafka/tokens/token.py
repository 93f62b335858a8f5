"""A bearer token, its life, and its claims."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from mmtool.translation.json_text import parse_json


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

    def refresh_time(self, factor: float) -> float:
        """When the token is to be replaced: after that part of its life."""
        return self.issued + factor * (self.expires - self.issued)


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
