"""Bearer tokens: what a token endpoint answers, what a file holds, and how brokers refuse one."""

from __future__ import annotations

import json
import time
from base64 import b64encode, urlsafe_b64encode
from typing import TYPE_CHECKING

from kit.decoders.files import as_file
from kit.decoders.table import Decoder
from mmtool.config.credentials import OAuthLogin, TokenFileLogin
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.errors import readable_refusal
from mmtool.kafka.tokens.endpoint import TokenEndpoint, _document
from mmtool.kafka.tokens.token import TokenFile, signed_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

_LATER = 4_000_000_000


def rows() -> Iterator[Decoder]:
    room = "mmtool.kafka.tokens"
    yield Decoder(
        "answer of a token endpoint",
        (f"{room}.endpoint", f"{room}.token"),
        _answers,
        _read_answer,
        (UnreachableError, NotAuthorisedError),
    )
    yield Decoder("token file", (f"{room}.token",), _tokens, _read_file, (UnreachableError,))
    yield Decoder("signed IAM token", (f"{room}.token",), _signed, _read_signed, (UnreachableError,))
    yield Decoder("refusal of a token", ("mmtool.kafka.errors",), _refusals, _read_refusal)


def _jwt(**claims: object) -> str:
    return ".".join(
        urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in ({}, claims, 0)
    )


def _tokens() -> Iterator[bytes]:
    yield _jwt(exp=_LATER, iat=1, sub="mm").encode()
    yield _jwt(exp=_LATER + 0.5).encode()
    yield b"opaque"


def _answers() -> Iterator[bytes]:
    for token in _tokens():
        body = {"access_token": token.decode(), "expires_in": 300, "token_type": "Bearer"}
        yield (200).to_bytes(2) + json.dumps(body).encode()
    for status, error in ((400, "invalid_scope"), (401, "invalid_client"), (503, "later")):
        yield status.to_bytes(2) + json.dumps({"error": error, "error_description": "why"}).encode()


def _read_answer(data: bytes) -> None:
    login = OAuthLogin.model_validate(
        {
            "key": "a.sasl.jaas.config",
            "endpoint": "https://idp/token",
            "endpoint_key": "a.sasl.oauthbearer.token.endpoint.url",
            "client_id": "mm",
            "client_secret": "hidden",
        }
    )
    at, status = TokenEndpoint("a", login, None), int.from_bytes(data[:2])
    if status == 200:
        at._token(status, data[2:], time.time())
    else:
        at._refused(status, _document(data[2:]))


def _read_file(data: bytes) -> None:
    TokenFile("a", TokenFileLogin(key="a.sasl.jaas.config", path=str(as_file(data)))).fetch()


def _signed() -> Iterator[bytes]:
    yield b64encode(
        b"https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&X-Amz-Expires=900"
    )


def _read_signed(data: bytes) -> None:
    signed_seconds(data.decode("latin-1"))


def _refusals() -> Iterator[bytes]:
    yield b'SASL authentication failed: {"status":"invalid_token","scope":"kafka"}'


def _read_refusal(data: bytes) -> None:
    readable_refusal(data.decode(errors="replace"))
