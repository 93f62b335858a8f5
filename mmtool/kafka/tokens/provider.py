"""aiokafka's view of a token source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokafka import abc

from mmtool.runtime.threads import in_thread

if TYPE_CHECKING:
    from mmtool.config.settings import TokenLogin
    from mmtool.kafka.tokens.source import TokenSource


class TokenProvider(abc.AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Gives aiokafka's connections the token of a source, and the SASL extensions of the login.

    Attributes:
        user: Whom the tokens are for: a broker accepts no other on an open connection.
    """

    def __init__(self, source: TokenSource, login: TokenLogin) -> None:
        self.user = login.description
        self._source = source
        self._extensions = dict(login.extensions)

    async def token(self) -> str:
        """A valid token.

        Raises:
            UnreachableError: As `TokenSource.token`.
        """
        return (await in_thread(self._source.token)).value

    def extensions(self) -> dict[str, str]:
        return self._extensions
