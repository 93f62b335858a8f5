"""Ask an OAuth token endpoint for a token, with client credentials (RFC 6749, section 4.4)."""

from __future__ import annotations

import base64
import ssl
import time
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, urlsplit
from urllib.request import getproxies, proxy_bypass

from mmtool import __version__
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.tokens.token import Token, claims_of, life_seconds, name_in
from mmtool.plain_text import printable
from mmtool.translation.connect_offsets import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mmtool.config.credentials import OAuthLogin, Pem

_LARGEST_BYTES = 1 << 20
_QUOTED_CHARACTERS = 200
_RETRIED = frozenset({408, 425, 429})
"""Answers below 500 that say: later. All others of that kind refuse the request itself."""
_OUT_OF_DATE, _OTHER_HOST = frozenset({9, 10}), frozenset({62, 64})
"""OpenSSL's verify codes: not yet valid or expired; another host name or address."""
_NOT_ENCODED = "%+:/?=~!$'()*,;@"
"""Kept in a scope as Java's clients keep it; what would end the parameter is encoded."""


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """The token endpoint of one cluster's login.

    Attributes:
        alias: The cluster.
        login: Its client credentials.
        cluster_ca: The CA of the brokers, trusted beside the system's where the login names no CA of its own.
    """

    alias: str
    login: OAuthLogin
    cluster_ca: Pem | None

    @property
    def shown_url(self) -> str:
        """The URL without query, for messages."""
        url = urlsplit(self.login.endpoint)
        return f"{url.scheme}://{url.netloc}{url.path}"

    def fetch(self) -> Token:
        """A new token.

        Raises:
            UnreachableError: The endpoint does not answer, or not with a token.
            NotAuthorisedError: It refuses the client.
        """
        now = time.time()
        try:
            status, body = self._post()
        except ssl.SSLCertVerificationError as error:
            raise self._away(
                f"shows a certificate that is not trusted: {error.verify_message}", self._trust_it(error)
            ) from None
        except (OSError, HTTPException, UnicodeError) as error:  # the last of a name that no host can have
            raise self._away(f"does not answer: {self._quoted(_reason(error))}") from None
        return self._token(status, body, now)

    def _trust_it(self, error: ssl.SSLCertVerificationError) -> str:
        if error.verify_code in _OTHER_HOST:
            return f"in {self.login.endpoint_key}, use a host name that the certificate has"
        if error.verify_code in _OUT_OF_DATE:
            return "have the certificate of the token endpoint renewed, and check the clock of this host"
        trusted = self.login.ca or self.cluster_ca
        if trusted is None:
            return (
                f"set {self.alias}.ssl.truststore.location to a file with the CAs of the token endpoint and of the"
                " brokers"
            )
        return f"add the CA of the token endpoint to {trusted.origin}"

    def _post(self) -> tuple[int, bytes]:
        login, url = self.login, urlsplit(self.login.endpoint)
        target = f"{url.path or '/'}{'?' + url.query if url.query else ''}"
        safe = "" if login.encodes_header else _NOT_ENCODED
        fields = {"scope": quote(login.scope, safe=safe), "audience": quote(login.audience, safe="")}
        form = ["grant_type=client_credentials", *(f"{name}={text}" for name, text in fields.items() if text)]
        client, secret = login.client_id, login.client_secret.get_secret_value()
        if login.encodes_header:
            client, secret = quote_plus(client), quote_plus(secret)
        headers = {
            "Accept": "application/json",
            "Authorization": "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode(),
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
            "User-Agent": f"mmtool/{__version__}",
        }
        with closing(self._connection()) as connection:
            connection.connect()
            if connection.sock is not None:
                connection.sock.settimeout(login.pace.read_seconds)
            connection.request("POST", target, body="&".join(form).encode(), headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_LARGEST_BYTES)

    def _connection(self) -> HTTPConnection:
        url, seconds = urlsplit(self.login.endpoint), self.login.pace.connect_seconds
        host = url.hostname or ""
        if url.scheme == "http":
            return HTTPConnection(host, url.port, timeout=seconds)
        proxy = urlsplit(getproxies().get("https", ""))
        if not proxy.hostname or proxy_bypass(host):
            return HTTPSConnection(host, url.port, timeout=seconds, context=self._tls_context())
        connection = HTTPSConnection(proxy.hostname, proxy.port, timeout=seconds, context=self._tls_context())
        connection.set_tunnel(host, url.port or 443)
        return connection

    def _tls_context(self) -> ssl.SSLContext:
        """A context with the CA of the JAAS options alone, or with the system's and the brokers'."""
        own = self.login.ca
        context = ssl.create_default_context() if own is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.login.verify_hostname
        trusted = own or self.cluster_ca
        if trusted is not None:
            try:
                context.load_verify_locations(cadata=trusted.text.get_secret_value())
            except (ssl.SSLError, ValueError, TypeError):
                raise self._away(
                    f"cannot be verified: OpenSSL refuses {trusted.origin}",
                    f"replace what is damaged in {trusted.origin} by intact CA certificates in PEM",
                ) from None
        return context

    def _token(self, status: int, body: bytes, now: float) -> Token:
        answer = _document(body)
        if status != 200:
            raise self._refused(status, answer)
        value = answer.get("access_token")
        if not isinstance(value, str) or not value.isascii() or not value.isprintable() or not value.strip():
            raise self._away(
                "answers without an access_token",
                f"check that {self.login.endpoint_key} is the URL for grants of client credentials",
            )
        claims = claims_of(value)
        life = life_seconds(claims, answer.get("expires_in"), now)
        if life is None or life <= 0:
            raise self._away(
                "grants a token that has expired or has no expiry time: neither expires_in nor exp is in the future",
                "check the clocks of this host and of the token endpoint, and the lifetime of its tokens",
            )
        longest = self.login.longest_life_seconds
        life = life if longest is None else min(life, longest)
        name = name_in(claims, self.login.subject_claim) or self.login.client_id
        return Token(value, now, now + life, name)

    def _refused(self, status: int, answer: Mapping[str, Any]) -> UnreachableError:
        said = [answer.get(name) for name in ("error", "error_description")]
        reason = ": ".join(
            [*(self._quoted(text) for text in said if isinstance(text, str) and text), f"HTTP {status}"]
        )
        if status in _RETRIED or not 400 <= status < 500:
            return self._away(
                f"answers {reason}",
                f"check that {self.login.endpoint_key} is the URL of the token endpoint; if it is, read the log of that"
                " server",
            )
        if status == 404:
            return self._away(f"answers {reason}", f"check the path of the URL in {self.login.endpoint_key}")
        return NotAuthorisedError(
            f"cluster {self.alias}: the token endpoint {self.shown_url} refuses client {self.login.client_id}: "
            f"{reason}",
            remedy=f"check client id, secret, scope and audience of the login; {self.login.key} holds the secret",
        )

    def _quoted(self, text: str) -> str:
        """What the endpoint said, short and printable; an endpoint may quote the secret."""
        for secret in self.login.secrets():
            text = text.replace(secret.get_secret_value(), "[hidden]")
        return printable(" ".join(text.split()))[:_QUOTED_CHARACTERS]

    def _away(self, what: str, remedy: str = "") -> UnreachableError:
        return UnreachableError(
            f"cluster {self.alias}: the token endpoint {self.shown_url} {what}",
            remedy=remedy or f"check {self.login.endpoint_key}, the network, and HTTPS_PROXY if it is set",
        )


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        found = parse_json(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
