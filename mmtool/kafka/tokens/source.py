"""Keep one token fresh for all threads that need it: one request at a time, few while the endpoint does not answer."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.events import Event, Notice

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config.settings import TokenPace
    from mmtool.kafka.tokens.token import Token

_PATIENCE_SECONDS = 5.0
"""How long the first token is asked for again and again, in seconds: an endpoint may be restarting."""
_GRACE_SECONDS = 1.0
"""How long a caller waits for a newer token while it has a valid one, in seconds."""
_LONGEST_SECONDS = 60.0
"""How long a caller without a token waits for a request, in seconds: an endpoint may answer a byte at a time."""
_LEAST_WAIT_SECONDS = 1.0
"""The shortest time between failed requests after the first ones, in seconds."""


def _unheard(_notice: Notice) -> None:
    """Where nobody listens, as in Spark's workers: their driver reports the same endpoint."""


_listener: Callable[[Notice], None] = _unheard


def report_trouble_to(listener: Callable[[Notice], None]) -> None:
    """Set who hears, in any thread, that a token could not be refreshed."""
    global _listener  # noqa: PLW0603 - one listener for the process
    _listener = listener


class TokenSource:
    """A token that several clients share.

    Args:
        alias: The cluster that the token is for, in messages.
        fetch: Gets a new token, blocking; raises `UnreachableError`, or `NotAuthorisedError` where a retry is useless.
        pace: When to refresh, and how long to wait after a failure.
        now: Seconds of the Unix epoch.
    """

    def __init__(
        self,
        alias: str,
        fetch: Callable[[], Token],
        pace: TokenPace,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._alias = alias
        self._fetch = fetch
        self._pace = pace
        self._now = now
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._request: threading.Event | None = None
        self._failure: UnreachableError | None = None
        self._wait_seconds = 0.0
        self._next_request = 0.0
        self._is_reported = False

    def token(self) -> Token:
        """A valid token. Blocks while the first one is on its way; later ones are fetched beside the valid one.

        Raises:
            UnreachableError: There is no valid token, and the endpoint gives none. Until the next request is due,
                the same error is raised at once.
            NotAuthorisedError: Likewise; the endpoint refuses the credentials.
        """
        with self._lock:
            valid = self._valid()
            if valid is not None and self._now() < self.refresh_time(valid):
                return valid
            request = self._running_request()
        if request is not None:
            request.wait(_LONGEST_SECONDS if valid is None else _GRACE_SECONDS)
        with self._lock:
            found = self._valid()
            if found is not None:
                return found
            failure = self._failure
        if failure is None:
            raise UnreachableError(
                f"cluster {self._alias}: mmtool got no token within {_LONGEST_SECONDS:g} s",
                remedy="check that the token endpoint (with AWS_MSK_IAM: AWS) answers this host",
            )
        raise type(failure)(failure.message, remedy=failure.remedy)

    def refresh_time(self, token: Token) -> float:
        """When ``token`` is to be replaced, in seconds of the Unix epoch."""
        return token.refresh_time(self._pace.refresh_factor)

    def _valid(self) -> Token | None:
        return self._token if self._token is not None and self._now() < self._token.expires else None

    def _running_request(self) -> threading.Event | None:
        """The request on its way, a new one, or None until the next one is due."""
        if self._request is None and self._now() >= self._next_request:
            self._request = threading.Event()
            thread = threading.Thread(target=self._run, args=(self._request,), name="token", daemon=True)
            thread.start()
        return self._request

    def _run(self, done: threading.Event) -> None:
        is_first = self._token is None and self._failure is None
        found: Token | UnreachableError
        try:
            found = self._patiently() if is_first else self._fetch()
        except UnreachableError as error:
            found = error
        except Exception as error:  # noqa: BLE001 - a caller waits for an answer; the text may hold a secret
            found = UnreachableError(
                f"cluster {self._alias}: getting a token failed: {type(error).__name__}",
                remedy=f"check the keys {self._alias}.sasl.* of the properties file",
            )
        notice = self._keep(found)
        done.set()
        if notice is not None:
            _listener(notice)

    def _patiently(self) -> Token:
        """The first token; asked for again for a short time while the endpoint does not answer."""
        deadline = self._now() + min(_PATIENCE_SECONDS, self._pace.longest_backoff_seconds)
        pause = self._pace.backoff_seconds
        while True:
            try:
                return self._fetch()
            except NotAuthorisedError:
                raise
            except UnreachableError:
                if self._now() + pause > deadline:
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
                self._next_request = self._now() + min(
                    _LEAST_WAIT_SECONDS, self._pace.longest_backoff_seconds
                )
                return None
            self._failure = found
            longest = self._pace.longest_backoff_seconds
            self._wait_seconds = min(max(2 * self._wait_seconds, _LEAST_WAIT_SECONDS), longest)
            self._next_request = self._now() + self._wait_seconds
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
