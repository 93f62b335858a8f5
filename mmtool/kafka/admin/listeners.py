"""Connect to listeners as a client does: DNS, TCP, TLS, first answer, login. Sends no request after the login."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from mmtool.config import ClusterSettings
from mmtool.config.credentials import Security
from mmtool.config.scopes import Role
from mmtool.errors import MmtoolError, UnreachableError
from mmtool.kafka.clients import CLIENT_ID, tls_context, wire_cluster, wire_options
from mmtool.kafka.wire.codec import UnreadableResponseError, int32
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.connection import open_connection
from mmtool.kafka.wire.metadata import MetadataRequest
from mmtool.kafka.wire.request import (
    NoCommonVersionError,
    Prepared,
    SpokenApis,
    api_versions_frame,
    read_api_versions,
)
from mmtool.kafka.wire.sasl import (
    TAKES_NO_LOGIN,
    SaslHandshakeRequest,
    UnprovenBrokerError,
    enabled_mechanisms,
)

LISTENER_SECONDS = 3.0
"""Longest time, in seconds, for each of connecting, the first answer and the login at one listener."""
_LARGEST_ANSWER = 1 << 20
_CLIENT_ID = f"{CLIENT_ID}-doctor"
_LONGEST_METADATA_SECONDS = 4.0
_NOT_KAFKA = "the first answer cannot be read"
_ALERTS = {
    "CERTIFICATE_REQUIRED": "the broker requires a client certificate",
    "CERTIFICATE_EXPIRED": "the broker reports that the client certificate has expired",
    "UNKNOWN_CA": "the broker does not trust the CA of the client certificate",
    "BAD_CERTIFICATE": "the broker refuses the client certificate",
    "CERTIFICATE_UNKNOWN": "the broker refuses the client certificate",
    "HANDSHAKE_FAILURE": "the broker refuses the TLS handshake; it may require a client certificate",
}
"""OpenSSL's name of a broker's TLS alert, and the sentence that mmtool reports for it."""
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
_CLOSED = ("UNEXPECTED_EOF",)
_ROLES: tuple[Role, ...] = ("admin", "consumer", "producer")


class Stage(StrEnum):
    """The stage at which connecting to a listener failed."""

    RESOLVE = "resolve"
    CONNECT = "connect"
    TLS = "tls"
    CLIENT_CERTIFICATE = "client certificate"
    ANSWER = "answer"
    PROTOCOL = "protocol"
    MECHANISM = "mechanism"
    NO_LOGIN = "no login"
    LOGIN = "login"
    PROOF = "proof"


class CertificateFault(StrEnum):
    """Why a broker's certificate is not accepted, as far as the remedies differ."""

    EXPIRED = "expired"
    NOT_YET_VALID = "not yet valid"
    OTHER_HOST = "other host"


_FAULTS = {
    9: CertificateFault.NOT_YET_VALID,
    10: CertificateFault.EXPIRED,
    62: CertificateFault.OTHER_HOST,
    64: CertificateFault.OTHER_HOST,
}
"""By OpenSSL's code: X509_V_ERR_CERT_NOT_YET_VALID, _CERT_HAS_EXPIRED, _HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH."""


class Entrance(NamedTuple):
    """A list of bootstrap servers in the properties file: some clients of mmtool have one of their own.

    Attributes:
        name: ``A``, or ``A.producer`` where that client's settings differ.
        servers: Its ``host:port`` addresses.
    """

    name: str
    servers: tuple[str, ...]
    security: Security


@dataclass(frozen=True, slots=True)
class ListenerAnswer:
    """The result of connecting to one listener.

    Attributes:
        address: ``host:port``.
        broker: The id of the broker that advertises it; None for a bootstrap server.
        failed: The stage that failed; None where the login succeeded.
        reason: Why, in words.
        certificate: The broker's own, DER; None without TLS, or where none was shown.
        apis: The APIs that it supports, where it answered.
        fault: Of a certificate that is not accepted; None for any other reason.
    """

    entrance: Entrance
    address: str
    broker: int | None
    failed: Stage | None = None
    reason: str = ""
    certificate: bytes | None = field(default=None, repr=False)
    apis: SpokenApis | None = None
    fault: CertificateFault | None = None


class _FailedError(Exception):
    """A listener let us come so far."""

    def __init__(self, stage: Stage, reason: str, fault: CertificateFault | None = None) -> None:
        super().__init__(reason)
        self.stage = stage
        self.reason = reason
        self.fault = fault


def entrances(settings: ClusterSettings) -> list[Entrance]:
    """The distinct pairs of bootstrap servers and security settings that mmtool's roles use on a cluster."""
    found: list[Entrance] = []
    common = settings.bootstrap_servers, settings.security
    for role in _ROLES:
        servers = tuple(server.strip() for server in settings.bootstrap_servers_for(role).split(","))
        security = settings.security_for(role)
        if not any((one.servers, one.security) == (servers, security) for one in found):
            of_role = settings.bootstrap_servers_for(role), security
            name = settings.alias if of_role == common else f"{settings.alias}.{role}"
            found.append(Entrance(name, servers, security))
    return found


async def try_listeners(settings: ClusterSettings) -> list[ListenerAnswer]:
    """Try each bootstrap server of a cluster and each advertised listener, all at the same time."""
    trials = [_Trial(settings, entrance) for entrance in entrances(settings)]
    tried = await asyncio.gather(*(trial.run() for trial in trials))
    return [answer for answers in tried for answer in answers]


@dataclass(frozen=True, slots=True)
class _Trial:
    """Tries the listeners of one entrance."""

    settings: ClusterSettings
    entrance: Entrance

    async def run(self) -> list[ListenerAnswer]:
        """Try the bootstrap servers first, then the advertised listeners that one of them returned."""
        first = await asyncio.gather(*(self._try(server, None) for server in self.entrance.servers))
        if all(answer.failed for answer in first):
            return first
        advertised = await self._advertised()
        tried = {answer.address for answer in first}
        rest = await asyncio.gather(
            *(self._try(address, node) for address, node in advertised.items() if address not in tried)
        )
        return [*(replace(one, broker=advertised.get(one.address)) for one in first), *rest]

    async def _advertised(self) -> dict[str, int]:
        """The brokers by the addresses that they advertise at this entrance, in the order of their ids."""
        update = {"bootstrap_servers": ",".join(self.entrance.servers), "role_bootstrap_servers": {}}
        wire = wire_cluster(self._settings(**update), "doctor")
        try:
            async with asyncio.timeout(_LONGEST_METADATA_SECONDS):
                await wire.start()
            return {broker.address: broker.node for broker in sorted(wire.brokers)}
        except (MmtoolError, TimeoutError):
            return {}
        finally:
            await wire.close()

    def _settings(self, **update: Any) -> ClusterSettings:
        """The cluster's settings with the entrance's security."""
        return self.settings.model_copy(
            update={"security": self.entrance.security, "role_security": {}, **update}
        )

    async def _try(self, address: str, broker: int | None) -> ListenerAnswer:
        answer = ListenerAnswer(self.entrance, address, broker)
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        try:
            await _resolve(host, int(port))
            certificate, apis = await self._first_answer(host, int(port))
        except _FailedError as failure:
            shown = await _shown_certificate(host, int(port)) if failure.stage is Stage.TLS else None
            answer = replace(answer, failed=failure.stage, reason=failure.reason, certificate=shown)
            return replace(answer, fault=failure.fault)
        answer = replace(answer, certificate=certificate, apis=apis)
        try:
            await self._log_in(host, int(port))
        except _FailedError as failure:
            return replace(answer, failed=failure.stage, reason=failure.reason)
        return answer

    async def _first_answer(self, host: str, port: int) -> tuple[bytes | None, SpokenApis]:
        security = self.entrance.security
        context = tls_context(security, self.entrance.name) if security.uses_tls else None
        reader, writer = await _open(host, port, context)
        try:
            certificate = _certificate_of(writer)
            apis = await _ask_versions(reader, writer)
            if security.sasl is None:
                return certificate, apis
            handshake = Prepared(
                SaslHandshakeRequest(security.sasl.wire_mechanism), SaslHandshakeRequest.VERSIONS[-1]
            )
            frame = b"".join(handshake.pieces(1, _CLIENT_ID))
            answer = await _exchange(reader, writer, int32(len(frame)) + frame)
            with _in_protocol():
                error_code, enabled = handshake.read(memoryview(answer))
            if error_code == Code.ILLEGAL_SASL_STATE:
                raise _FailedError(Stage.NO_LOGIN, TAKES_NO_LOGIN)
            if security.sasl.wire_mechanism not in enabled:
                raise _FailedError(Stage.MECHANISM, enabled_mechanisms(enabled))
            return certificate, apis
        finally:
            writer.close()

    async def _log_in(self, host: str, port: int) -> None:
        """Log in, then send one request: a SASL listener answers the first request without a login too."""
        from aiokafka import errors

        from mmtool.kafka.errors import readable_refusal

        try:
            async with asyncio.timeout(LISTENER_SECONDS):
                options = wire_options(self._settings(), client_id_suffix="doctor")
                options.pop("bootstrap_servers")
                connection = await open_connection(host, port, options, LISTENER_SECONDS)
                try:
                    await connection.send(MetadataRequest(()))
                except NoCommonVersionError:
                    pass  # it has let mmtool in, and its APIs say how old it is
                finally:
                    connection.close()
        except errors.SaslAuthenticationFailed as error:
            raise _FailedError(Stage.LOGIN, readable_refusal(_said(error))) from error
        except UnprovenBrokerError as error:
            raise _FailedError(Stage.PROOF, str(error)) from error
        except UnreachableError as error:  # there is no token
            raise _FailedError(Stage.LOGIN, error.message) from error
        except (errors.KafkaError, ValueError) as error:
            raise _FailedError(Stage.LOGIN, f"the login failed: {_said(error)}") from error
        except TimeoutError as error:
            raise _FailedError(Stage.LOGIN, _silence(self._last_request())) from error
        except OSError as error:
            why = f"the broker closes the connection at {self._last_request()}"
            hint = "" if self.entrance.security.sasl else "; the listener may require a SASL login"
            raise _FailedError(Stage.LOGIN, why + hint) from error

    def _last_request(self) -> str:
        return "the login or the request after it" if self.entrance.security.sasl else "the second request"


async def _resolve(host: str, port: int) -> None:
    try:
        async with asyncio.timeout(LISTENER_SECONDS):
            await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError as error:
        raise _FailedError(Stage.RESOLVE, f"no DNS server answers for {host}") from error
    except (OSError, UnicodeError) as error:
        raise _FailedError(Stage.RESOLVE, f"the name {host} does not resolve") from error


async def _open(
    host: str, port: int, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        async with asyncio.timeout(LISTENER_SECONDS):
            _, plain = await asyncio.open_connection(host, port)
        plain.close()
    except TimeoutError as error:
        raise _FailedError(Stage.CONNECT, _silence("the attempt to connect")) from error
    except OSError as error:  # whose text is asyncio's where there are several addresses
        number = error.errno or next(map(int, re.findall(r"\[Errno (\d+)\]", str(error))), 0)
        why = os.strerror(number).lower() if number else str(error)
        raise _FailedError(Stage.CONNECT, why) from error
    try:
        async with asyncio.timeout(LISTENER_SECONDS):
            return await asyncio.open_connection(host, port, ssl=context)
    except TimeoutError as error:
        raise _FailedError(Stage.TLS, _silence("the TLS handshake")) from error
    except OSError as error:
        raise _tls_failure(error) from error


def _certificate_of(writer: asyncio.StreamWriter) -> bytes | None:
    session: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    return None if session is None else session.getpeercert(binary_form=True)


async def _shown_certificate(host: str, port: int) -> bytes | None:
    """The certificate (DER) that a broker presents, without verifying it; None where it presents none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        _, writer = await _open(host, port, context)
    except _FailedError:
        return None
    certificate = _certificate_of(writer)
    writer.close()
    return certificate


async def _ask_versions(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> SpokenApis:
    for with_features in (True, False):
        request = api_versions_frame(_CLIENT_ID, with_features=with_features)
        answer = await _exchange(reader, writer, request)
        with _in_protocol():
            apis = read_api_versions(answer, with_features=with_features)
        if apis is not None:
            return apis
    raise _FailedError(Stage.PROTOCOL, _NOT_KAFKA)


@contextmanager
def _in_protocol() -> Iterator[None]:
    try:
        yield
    except UnreadableResponseError as error:
        raise _FailedError(Stage.PROTOCOL, _NOT_KAFKA) from error


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    """Send a request and return the answer without its size prefix."""
    try:
        async with asyncio.timeout(LISTENER_SECONDS):
            writer.write(request)
            size = int.from_bytes(await reader.readexactly(4))
            if size > _LARGEST_ANSWER:
                raise _FailedError(Stage.PROTOCOL, _NOT_KAFKA)
            return await reader.readexactly(size)
    except TimeoutError as error:
        raise _FailedError(Stage.ANSWER, _silence("the first request")) from error
    except ssl.SSLError as error:
        raise _tls_failure(error) from error
    except (OSError, EOFError) as error:
        raise _FailedError(Stage.ANSWER, "the broker closes the connection at the first request") from error


def _tls_failure(error: OSError) -> _FailedError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _FailedError(Stage.TLS, error.verify_message, _FAULTS.get(error.verify_code))
    word = str(getattr(error, "reason", None) or error)
    alert = next((said for name, said in _ALERTS.items() if name in word), "")
    if alert:
        return _FailedError(Stage.CLIENT_CERTIFICATE, alert)
    if any(name in word for name in _NO_TLS):
        return _FailedError(Stage.TLS, "the listener does not speak TLS")
    if any(name in word for name in _CLOSED) or not isinstance(error, ssl.SSLError):
        return _FailedError(Stage.TLS, "the connection is closed during the TLS handshake")
    return _FailedError(Stage.TLS, word)


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def _silence(what: str) -> str:
    return f"no answer within {LISTENER_SECONDS:g} s to {what}"
