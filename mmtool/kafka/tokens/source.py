"""The token source of each login of this process, which keeps a token fresh, and its forms for client libraries."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mmtool.config.credentials import MskLogin, OAuthLogin, PasswordLogin, TokenFileLogin
from mmtool.errors import UnreachableError, is_away
from mmtool.events import Event, Notice
from mmtool.kafka.tokens.token import TokenFile, claims_of, name_in
from mmtool.runtime.threads import in_thread
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config.credentials import Pem, Security, TokenLogin, TokenPace
    from mmtool.kafka.tokens.endpoint import TokenEndpoint
    from mmtool.kafka.tokens.token import MskSigner, Token

_PATIENCE_SECONDS = 5.0
"""How long the first token is asked for again and again, in seconds: an endpoint may be restarting."""
_GRACE_SECONDS = 1.0
"""How long a caller waits for a newer token while it has a valid one, in seconds."""
_LONGEST_SECONDS = 60.0
"""How long a caller without a token waits for a request, in seconds: an endpoint may answer a byte at a time."""
_LEAST_WAIT_SECONDS = 1.0
"""The shortest time between failed requests after the first ones, in seconds."""
_ASKS_AFTER = 0.8
"""The part of the time until a token's expiry after which librdkafka asks for another one."""
_LEAST_SECONDS = 1.0
"""The shortest time after which librdkafka asks again, in seconds: it looks once a second."""


_listener: Callable[[Notice], None] | None = None
"""Nobody listens in Spark's workers: their driver reports the same endpoint."""


def report_trouble_to(listener: Callable[[Notice], None]) -> None:
    """Set who hears, in any thread, that a token could not be refreshed."""
    global _listener  # noqa: PLW0603 - one listener for the process
    _listener = listener


@dataclass
class TokenSource:
    """A token that several clients share.

    Attributes:
        alias: The cluster that the token is for, in messages.
        fetch: Gets a new token, blocking; raises `UnreachableError`, or `NotAuthorisedError` where a retry is useless.
        pace: When to refresh, and how long to wait after a failure.
        now: Seconds of the Unix epoch.
    """

    alias: str
    fetch: Callable[[], Token]
    pace: TokenPace
    now: Callable[[], float] = time.time
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _token: Token | None = None
    _request: threading.Event | None = None
    _failure: UnreachableError | None = None
    _wait_seconds: float = 0.0
    _next_request: float = 0.0
    _is_reported: bool = False

    def token(self) -> Token:
        """A valid token. Blocks while the first one is on its way; later ones are fetched beside the valid one.

        Raises:
            UnreachableError: There is no valid token, and the endpoint gives none. Until the next request is due,
                the same error is raised at once.
            NotAuthorisedError: Likewise; the endpoint refuses the credentials.
        """
        with self._lock:
            valid = self._valid()
            if valid is not None and self.now() < self.refresh_time(valid):
                return valid
            if self._request is None and self.now() >= self._next_request:
                self._request = threading.Event()
                run = threading.Thread(target=self._run, args=(self._request,), name="token", daemon=True)
                run.start()
            request = self._request  # none until the next one is due
        if request is not None:
            request.wait(_LONGEST_SECONDS if valid is None else _GRACE_SECONDS)
        with self._lock:
            found = self._valid()
            if found is not None:
                return found
            failure = self._failure
        if failure is None:
            raise UnreachableError(
                f"cluster {self.alias}: mmtool got no token within {_LONGEST_SECONDS:g} s",
                remedy="check that the token endpoint (with AWS_MSK_IAM: AWS) answers this host",
            )
        raise type(failure)(failure.message, remedy=failure.remedy)

    def refresh_time(self, token: Token) -> float:
        """When ``token`` is to be replaced, in seconds of the Unix epoch."""
        return token.issued + self.pace.refresh_factor * (token.expires - token.issued)

    def _valid(self) -> Token | None:
        return self._token if self._token is not None and self.now() < self._token.expires else None

    def _run(self, done: threading.Event) -> None:
        is_first = self._token is None and self._failure is None
        found: Token | UnreachableError
        try:
            found = self._patiently() if is_first else self.fetch()
        except UnreachableError as error:
            found = error
        except Exception as error:  # noqa: BLE001 - a caller waits for an answer; the text may hold a secret
            found = UnreachableError(
                f"cluster {self.alias}: getting a token failed: {type(error).__name__}",
                remedy=f"check the keys {self.alias}.sasl.* of the properties file",
            )
        notice = self._keep(found)
        done.set()
        if notice is not None and _listener is not None:
            _listener(notice)

    def _patiently(self) -> Token:
        """The first token; asked for again for a short time while the endpoint does not answer."""
        deadline = self.now() + min(_PATIENCE_SECONDS, self.pace.longest_backoff_seconds)
        pause = self.pace.backoff_seconds
        while True:
            try:
                return self.fetch()
            except UnreachableError as error:
                if not is_away(error) or self.now() + pause > deadline:
                    raise
            time.sleep(pause)
            pause *= 2

    def _keep(self, found: Token | UnreachableError) -> Notice | None:
        """Remember a request's result; returns the notice of the first failure after a success."""
        with self._lock:
            self._request = None
            if not isinstance(found, UnreachableError):
                self._token, self._failure, self._wait_seconds, self._is_reported = found, None, 0.0, False
                # an endpoint that grants a life of nothing is not asked again at once
                self._next_request = self.now() + min(_LEAST_WAIT_SECONDS, self.pace.longest_backoff_seconds)
                return None
            self._failure = found
            longest = self.pace.longest_backoff_seconds
            self._wait_seconds = min(max(2 * self._wait_seconds, _LEAST_WAIT_SECONDS), longest)
            self._next_request = self.now() + self._wait_seconds
            if (valid := self._valid()) is None or self._is_reported:
                return None
            self._is_reported = True
            return _notice(found, valid)


def _notice(error: UnreachableError, valid: Token) -> Notice:
    until = datetime.fromtimestamp(valid.expires, UTC).strftime("%H:%M:%SZ")
    todo = f"; before {until}, {error.remedy}" if error.remedy else ""
    return Notice(
        f"{error.message}; the last token is valid until {until}, and mmtool keeps asking for a new one{todo}",
        Event.TOKEN_REFRESH_FAILED,
    )


_sources: dict[tuple[str, TokenLogin, Pem | None], TokenSource] = {}
_lock = threading.Lock()


def token_source(alias: str, login: TokenLogin, cluster_ca: Pem | None) -> TokenSource:
    """The token source of a cluster's login; the same login has the same source in the whole process."""
    key = (alias, login, cluster_ca)
    with _lock:
        if key not in _sources:
            fetcher: TokenEndpoint | TokenFile | MskSigner
            if isinstance(login, OAuthLogin):
                from mmtool.kafka.tokens.endpoint import TokenEndpoint

                fetcher = TokenEndpoint(alias, login, cluster_ca)
            elif isinstance(login, TokenFileLogin):
                fetcher = TokenFile(alias, login)
            else:
                from mmtool.kafka.tokens.token import MskSigner

                fetcher = MskSigner(alias, login)
            _sources[key] = TokenSource(alias, fetcher.fetch, login.pace)
        return _sources[key]


def principal_of(alias: str, security: Security) -> str | Unknown:
    """mmtool's principal, as Kafka's default principal builder names it; UNKNOWN where a token has none.

    That of a client certificate depends on the brokers' ``ssl.principal.mapping.rules``, so it is unknown.

    Raises:
        UnreachableError: There is no token.
    """
    login = security.sasl
    if isinstance(login, PasswordLogin):
        return f"User:{login.username}"
    if login is None and security.certificate is None:
        return "User:ANONYMOUS"
    if login is None or isinstance(login, MskLogin):
        return UNKNOWN
    name = name_in(claims_of(token_source(alias, login, security.ca).token().value), login.subject_claim)
    return f"User:{name}" if name else UNKNOWN


class ClientTokens:
    """The tokens of a source with the SASL extensions of a login, as both client libraries take them.

    Called it is librdkafka's ``oauth_cb``, in a thread of librdkafka's, for a first token and before one expires.
    librdkafka asks again when 80 % of the time until the given expiry has passed, and renews a session with the token
    that it has when 90 % of the session have passed. The token of a source that several clients share may be old: with
    its real expiry librdkafka would renew a session with a token that is about to end. So the expiry given is one with
    which it asks again when the source refreshes.

    To aiokafka's connections it is the provider of tokens.

    Attributes:
        user: Whom the tokens are for: a broker accepts no other on an open connection of aiokafka's.

    Args:
        source: Of the tokens.
        login: Whose SASL extensions are sent with them.
        now: Seconds of the Unix epoch.
    """

    def __init__(self, source: TokenSource, login: TokenLogin, now: Callable[[], float] = time.time) -> None:
        self.source, self.user = source, login.description
        self._extensions = dict(login.extensions)
        self._now = now

    def become(self, other: ClientTokens) -> None:
        """Give the tokens of another login from now on."""
        self.source, self._extensions = other.source, other._extensions

    def __call__(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        token, now = self.source.token(), self._now()
        again = max(self.source.refresh_time(token) - now, _LEAST_SECONDS)
        return token.value, now + again / _ASKS_AFTER, token.principal, self._extensions

    async def token(self) -> str:
        """A valid token.

        Raises:
            UnreachableError: As `TokenSource.token`.
        """
        return (await in_thread(self.source.token)).value

    def extensions(self) -> dict[str, str]:
        return self._extensions
