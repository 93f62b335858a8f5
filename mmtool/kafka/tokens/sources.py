"""The token source of each login of this process, and its forms for librdkafka and for aiokafka."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from mmtool.config.settings import MskLogin, OAuthLogin, PasswordLogin, TokenFileLogin
from mmtool.kafka.tokens.source import TokenSource
from mmtool.kafka.tokens.token import claims_of, name_in
from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config.settings import Pem, Security, TokenLogin
    from mmtool.kafka.tokens.endpoint import TokenEndpoint
    from mmtool.kafka.tokens.msk import MskSigner
    from mmtool.kafka.tokens.token_file import TokenFile

_ASKS_AFTER = 0.8
"""The part of the time until a token's expiry after which librdkafka asks for another one."""
_LEAST_SECONDS = 1.0
"""The shortest time after which librdkafka asks again, in seconds: it looks once a second."""

_sources: dict[tuple[str, TokenLogin, Pem | None], TokenSource] = {}
_lock = threading.Lock()


def token_source(alias: str, login: TokenLogin, cluster_ca: Pem | None) -> TokenSource:
    """The token source of a cluster's login; the same login has the same source in the whole process."""
    key = (alias, login, cluster_ca)
    with _lock:
        if key not in _sources:
            _sources[key] = TokenSource(alias, _fetcher(alias, login, cluster_ca).fetch, login.pace)
        return _sources[key]


def principal_of(alias: str, security: Security) -> str | Unknown:
    """The principal of a SASL login, as Kafka's default principal builder names it; UNKNOWN where a token has none.

    Raises:
        UnreachableError: There is no token.
    """
    login = security.sasl
    if isinstance(login, PasswordLogin):
        return f"User:{login.username}"
    if login is None or isinstance(login, MskLogin):
        return UNKNOWN
    name = name_in(claims_of(token_source(alias, login, security.ca).token().value), login.subject_claim)
    return f"User:{name}" if name else UNKNOWN


def _fetcher(alias: str, login: TokenLogin, cluster_ca: Pem | None) -> TokenEndpoint | TokenFile | MskSigner:
    from mmtool.kafka.tokens.endpoint import TokenEndpoint
    from mmtool.kafka.tokens.msk import MskSigner
    from mmtool.kafka.tokens.token_file import TokenFile

    if isinstance(login, OAuthLogin):
        return TokenEndpoint(alias, login, cluster_ca)
    return TokenFile(alias, login) if isinstance(login, TokenFileLogin) else MskSigner(alias, login)


class OauthCallback:
    """librdkafka's ``oauth_cb``, which it calls in a thread of its own, for a first token and before one expires.

    librdkafka asks again when 80 % of the time until the given expiry has passed, and renews a session with the token
    that it has when 90 % of the session have passed. The token of a source that several clients share may be old: with
    its real expiry librdkafka would renew a session with a token that is about to end. So the expiry given is one with
    which it asks again when the source refreshes.

    Args:
        source: Of the tokens.
        login: Whose SASL extensions are sent with them.
        now: Seconds of the Unix epoch.
    """

    def __init__(self, source: TokenSource, login: TokenLogin, now: Callable[[], float] = time.time) -> None:
        self.source = source
        self._extensions = dict(login.extensions)
        self._now = now

    def become(self, other: OauthCallback) -> None:
        """Give the tokens of another login from now on."""
        self.source, self._extensions = other.source, other._extensions

    def __call__(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        token, now = self.source.token(), self._now()
        again = max(self.source.refresh_time(token) - now, _LEAST_SECONDS)
        return token.value, now + again / _ASKS_AFTER, token.principal, self._extensions
