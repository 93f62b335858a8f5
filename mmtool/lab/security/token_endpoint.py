"""An OAuth 2.0 token endpoint on loopback, for brokers and clients with OAUTHBEARER.

It grants tokens for client credentials (RFC 6749, section 4.4), signed with RS256, and serves the public key as JWKS.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, unquote_plus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

TOKEN_PATH, KEYS_PATH = "/token", "/jwks"
_HOST = "127.0.0.1"
_KEY_BITS = 2048
_CLIENT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class TokenPolicy:
    """Whom tokens are granted to, and what they say.

    Attributes:
        secrets: Client id to client secret.
        lifetime_seconds: ``exp`` minus ``iat``.
        scopes: The scopes that a client may ask for.
        audience, issuer: The claims ``aud`` and ``iss``.
    """

    secrets: Mapping[str, str] = field(repr=False)
    lifetime_seconds: float = 300.0
    scopes: frozenset[str] = frozenset({"kafka"})
    audience: str = "kafka"
    issuer: str = "mmtool-lab"


class SigningKey:
    """An RSA key that signs tokens with RS256."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric import rsa

        self._key: RSAPrivateKey = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
        self._id = secrets.token_hex(8)

    def token(self, claims: Mapping[str, object]) -> str:
        """A signed JWT with these claims."""
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.hashes import SHA256

        header = {"alg": "RS256", "typ": "JWT", "kid": self._id}
        signed = f"{_encoded(_json(header))}.{_encoded(_json(claims))}"
        signature = self._key.sign(signed.encode(), PKCS1v15(), SHA256())
        return f"{signed}.{_encoded(signature)}"

    def public_jwk(self) -> dict[str, str]:
        """The public key as RFC 7517 has it."""
        numbers = self._key.public_key().public_numbers()
        n, e = (_encoded(one.to_bytes((one.bit_length() + 7) // 8, "big")) for one in (numbers.n, numbers.e))
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self._id, "n": n, "e": e}


class TokenEndpoint:
    """Binds its port at once, and answers between `start` and `stop`; a context manager does both.

    Attributes:
        policy: Whom tokens are granted to; it may be replaced while the endpoint runs.
        failure: The status with which token requests fail, or None; it may be set while the endpoint runs.
        url: Where tokens are granted: ``sasl.oauthbearer.token.endpoint.url``.
        keys_url: Where the public key is: ``sasl.oauthbearer.jwks.endpoint.url``.
        answers: The statuses of all answers to requests for tokens, oldest first.

    Args:
        policy: See the attribute.
        port: 0 for any free port of 127.0.0.1.

    Raises:
        OSError: The port is in use.
    """

    def __init__(self, policy: TokenPolicy, port: int = 0) -> None:
        self.policy = policy
        self.failure: HTTPStatus | None = None
        self.answers: list[HTTPStatus] = []
        self.key = SigningKey()
        self._server = _Server((_HOST, port), _Handler)
        self._server.endpoint = self
        address = f"http://{_HOST}:{self._server.server_address[1]}"
        self.url, self.keys_url = f"{address}{TOKEN_PATH}", f"{address}{KEYS_PATH}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="token endpoint", daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Refuse connections from now on, and release the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def grant(
        self, form: Mapping[str, str], client: str, secret: str
    ) -> tuple[HTTPStatus, dict[str, object]]:
        """The answer to a request: a token, or an error as RFC 6749 names it (section 5.2)."""
        policy = self.policy
        known = policy.secrets.get(client)
        if known is None or not hmac.compare_digest(known.encode(), secret.encode()):
            return HTTPStatus.UNAUTHORIZED, {"error": "invalid_client"}
        if form.get("grant_type") != "client_credentials":
            return HTTPStatus.BAD_REQUEST, {"error": "unsupported_grant_type"}
        scopes = set(form.get("scope", "").split())
        if not scopes <= policy.scopes:
            return HTTPStatus.BAD_REQUEST, {"error": "invalid_scope"}
        granted = " ".join(sorted(scopes or policy.scopes))
        now = time.time()
        claims: dict[str, object] = {
            "iss": policy.issuer,
            "aud": policy.audience,
            "sub": client,
            "scope": granted,
            "iat": int(now),
            "exp": int(now + policy.lifetime_seconds),
            "jti": secrets.token_hex(8),
        }
        return HTTPStatus.OK, {
            "access_token": self.key.token(claims),
            "token_type": "Bearer",
            "scope": granted,
            "expires_in": int(policy.lifetime_seconds),
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    endpoint: TokenEndpoint

    def server_bind(self) -> None:
        """Bind without looking up this host's name, which may take as long as a resolver does."""
        TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of a connection: a client may close it."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = _CLIENT_SECONDS

    def do_GET(self) -> None:
        if self.path != KEYS_PATH:
            self._answer(HTTPStatus.NOT_FOUND, {})
        else:
            self._answer(HTTPStatus.OK, {"keys": [self.server.endpoint.key.public_jwk()]})

    def do_POST(self) -> None:
        endpoint, size = self.server.endpoint, int(self.headers.get("Content-Length") or 0)
        form = {name: values[0] for name, values in parse_qs(self.rfile.read(size).decode()).items()}
        if self.path != TOKEN_PATH:
            self._answer(HTTPStatus.NOT_FOUND, {})
            return
        if endpoint.failure is not None:
            status, document = endpoint.failure, dict[str, object]()
        else:
            status, document = endpoint.grant(form, *self._credentials(form))
        endpoint.answers.append(status)
        self._answer(status, document)

    def _credentials(self, form: Mapping[str, str]) -> tuple[str, str]:
        """Client id and secret: from the header, as Kafka's clients send them, else from the form."""
        scheme, _, encoded = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return form.get("client_id", ""), form.get("client_secret", "")
        try:
            client, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            return "", ""
        if client in self.server.endpoint.policy.secrets:
            return client, secret
        return unquote_plus(client), unquote_plus(secret)  # with sasl.oauthbearer.header.urlencode

    def _answer(self, status: HTTPStatus, document: Mapping[str, object]) -> None:
        body = _json(document)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server has
        """Write no access log."""


def _json(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _encoded(content: bytes) -> str:
    """Base64url without padding (RFC 7515)."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
