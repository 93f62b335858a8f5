"""Read a token that another process keeps fresh in a file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mmtool.errors import UnreachableError
from mmtool.kafka.tokens.token import Token, claims_of, finite_number, name_in

if TYPE_CHECKING:
    from mmtool.config.settings import TokenFileLogin

_OPAQUE_SECONDS = 300.0
"""How long an opaque token is used before the file is read again, in seconds."""


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
