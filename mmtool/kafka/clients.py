"""Client configurations from settings, and clients that the process keeps for the next caller."""

from __future__ import annotations

import os
import re
import ssl
import sys
import tempfile
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from mmtool import __version__
from mmtool.config.clientkeys import java_names, librdkafka_value
from mmtool.config.credentials import PasswordLogin
from mmtool.config.redaction import HIDDEN
from mmtool.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mmtool.config.credentials import Security
    from mmtool.config.scopes import Role
    from mmtool.config.settings import ClusterSettings
    from mmtool.kafka.wire.blocking_client import BlockingWireClient
    from mmtool.kafka.wire.cluster import WireCluster


C = TypeVar("C")

_FIRST_WAIT, _LONGEST_WAIT = "reconnect.backoff.ms", "reconnect.backoff.max.ms"
_QUOTED = re.compile(r"[\"`]([a-z][a-z.]+)[\"`]")


_TOKEN_CALLBACK = "oauth_cb"  # noqa: S105 - the name of a setting
_OF_LIBRDKAFKA = ("sasl.mechanism", "sasl.username", "sasl.password", _TOKEN_CALLBACK)
_OF_AIOKAFKA = (
    "sasl_mechanism", "sasl_plain_username", "sasl_plain_password", "sasl_oauth_token_provider"
)  # fmt: skip
"""The client libraries' names for a login's mechanism, user, password and source of tokens."""

CLIENT_ID = f"mmtool/{__version__}"
"""The start of every client.id, by which brokers' request logs and quotas identify mmtool."""


def librdkafka_config(
    cluster: ClusterSettings, *, role: Role, client_id_suffix: str = "", is_lasting: bool = False
) -> dict[str, Any]:
    """librdkafka's configuration for a Producer, Consumer or AdminClient of confluent-kafka; contains secrets.

    With ``is_lasting`` the client goes back to the bootstrap servers when no known broker answers any more. Others are
    replaced by their owner then: they would pass over the next address of a bootstrap server whose first one is silent.

    The cluster's other connection properties are passed on, within librdkafka's bounds. The caller adds what its client
    needs (group.id, acks), and `new_client` builds the client.
    """
    config: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap_servers_for(role),
        "client.id": client_id(client_id_suffix),
        # its own lines would reach stderr around our console; errors come back through the API anyway
        "log_level": 2,
        # of a name with several addresses the next one gets its turn after this time, which a login is part of; with
        # addresses that are looked up again before that, as by a new bootstrap, librdkafka would begin with any of them
        "socket.connection.setup.timeout.ms": 4_000,
        "broker.address.ttl": 60_000,
        "metadata.recovery.strategy": "rebootstrap" if is_lasting else "none",
    }
    passed = filter(None, (librdkafka_value(name, value) for name, value in cluster.extras(role).items()))
    config |= {one.name: one.value for one in passed if one.value is not None}
    first, longest = (
        int(config.get(name, default)) for name, default in ((_FIRST_WAIT, 100), (_LONGEST_WAIT, 10_000))
    )
    if first > longest:  # raises the other one, as in Java's clients
        config[_LONGEST_WAIT] = str(first)
    security = cluster.security_for(role)
    config["security.protocol"] = security.protocol
    config |= _login(cluster.alias, security, _OF_LIBRDKAFKA)
    if not security.uses_tls:
        return config
    config["ssl.endpoint.identification.algorithm"] = "https" if security.verify_hostname else "none"
    pems = {
        "ssl.ca.pem": security.ca,
        "ssl.certificate.pem": security.certificate,
        "ssl.key.pem": security.key,
    }
    config |= {name: pem.text.get_secret_value() for name, pem in pems.items() if pem is not None}
    if security.key_password is not None and security.key is not None:
        config["ssl.key.password"] = security.key_password.get_secret_value()
    return config


def new_client(factory: Callable[[dict[str, Any]], C], config: dict[str, Any], cluster: ClusterSettings) -> C:
    """Create a client of confluent-kafka; a refused setting raises an error that names its key.

    Args:
        factory: ``AdminClient``, ``Consumer`` or ``Producer``.
        config: From `librdkafka_config`, with the caller's additions.
        cluster: The cluster, for the error's message.

    Raises:
        ConfigError: librdkafka refuses a setting; the message names the key.
        UnreachableError: The client logs in with a token, and there is none.
    """
    from confluent_kafka import KafkaException

    if _TOKEN_CALLBACK in config:
        config[_TOKEN_CALLBACK].source.token()  # or the client would wait 10 s, and not say why
    try:
        return factory(config)
    except KafkaException as error:
        reason = str(error.args[0].str()).strip()
        for secret in cluster.all_secrets():
            reason = reason.replace(secret, HIDDEN)
        keys = [key for name in _QUOTED.findall(reason) for key in (java_names(name) or (name,))]
        named = ", ".join(f"{cluster.alias}.{key}" for key in dict.fromkeys(keys)) or f"{cluster.alias}.*"
        raise ConfigError(
            f"cluster {cluster.alias}: librdkafka refuses the settings: {reason}",
            remedy=f"check {named}; `mmtool config show -c FILE` names the line",
        ) from None


def renew_login(client: Any, config: Mapping[str, Any], security: Security, alias: str) -> None:
    """Give a running client of confluent-kafka another password or token source, for its next connection or session.

    Args:
        client: The client.
        config: What it was created with.
        security: The new security settings; their certificates are not used.
        alias: The cluster's, for messages.
    """
    login = _login(alias, security, _OF_LIBRDKAFKA)
    if _TOKEN_CALLBACK in login and _TOKEN_CALLBACK in config:
        config[_TOKEN_CALLBACK].become(login[_TOKEN_CALLBACK])
    elif "sasl.username" in login:
        client.set_sasl_credentials(login["sasl.username"], login["sasl.password"])


def wire_options(
    cluster: ClusterSettings, *, role: Role | None = None, client_id_suffix: str = ""
) -> dict[str, Any]:
    """Keyword arguments for a `WireCluster`'s connections (aiokafka's names), TLS context included.

    Args:
        cluster: The cluster to connect to.
        role: The role whose ``ALIAS.<role>.*`` overrides apply: a worker reads its source as consumer and writes its
        target as producer. None takes the cluster's common settings.
        client_id_suffix: The part of the client id after ``mmtool/<version>``.

    Raises:
        ConfigError: A certificate or key is no PEM that OpenSSL accepts.
    """
    security = cluster.security if role is None else cluster.security_for(role)
    servers = cluster.bootstrap_servers if role is None else cluster.bootstrap_servers_for(role)
    options: dict[str, Any] = {
        "bootstrap_servers": servers.split(","),
        "client_id": client_id(client_id_suffix),
        "security_protocol": security.protocol,
    }
    options |= _login(cluster.alias, security, _OF_AIOKAFKA)
    if security.uses_tls:
        options["ssl_context"] = tls_context(security, cluster.alias)
    return options


def wire_cluster(
    cluster: ClusterSettings,
    client_id_suffix: str = "",
    *,
    role: Role | None = None,
    request_timeout_ms: int = 30_000,
) -> WireCluster:
    """Create a `WireCluster` for a cluster, not yet connected; ``role`` as in `wire_options`.

    Raises:
        ConfigError: As `wire_options`.
    """
    from mmtool.kafka.wire.cluster import WireCluster

    options = wire_options(cluster, role=role, client_id_suffix=client_id_suffix)
    return WireCluster(
        options,
        alias=cluster.alias,
        client_id=options["client_id"],
        request_timeout_ms=request_timeout_ms,
    )


def blocking_wire(
    cluster: ClusterSettings, client_id_suffix: str, role: Role, seconds: float, patience: float = 0.0
) -> BlockingWireClient:
    """Create the client of a cluster for callers without an event loop; the times are those of `BlockingWireClient`.

    Raises:
        ConfigError: As `wire_options`.
    """
    from mmtool.kafka.wire.blocking_client import BlockingWireClient

    return BlockingWireClient(wire_cluster(cluster, client_id_suffix, role=role), seconds, patience)


def client_id(suffix: str = "") -> str:
    """The client id: ``mmtool/<version>`` and, after a dash, the purpose of the client."""
    return f"{CLIENT_ID}-{suffix.removeprefix('-')}" if suffix else CLIENT_ID


def check_certificates(clusters: Iterable[ClusterSettings]) -> None:
    """Check that OpenSSL accepts certificates and keys in all roles, also where one half of a pair was replaced.

    Raises:
        ConfigError: As `tls_context`.
    """
    used = (
        (one.alias, security) for one in clusters for security in (one.security, *one.role_security.values())
    )
    for alias, security in dict.fromkeys(used):  # many flows may share a cluster
        if security.uses_tls:
            tls_context(security, alias)


def tls_context(security: Security, alias: str) -> ssl.SSLContext:
    """A TLS client context that verifies the broker's certificate, and its host name unless that is turned off.

    Raises:
        ConfigError: OpenSSL refuses the certificates, the key or its password.
    """
    # with a CA only that one, as Java's trust store means it: a default context has the system's as well
    own = security.ca is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if own else ssl.create_default_context()
    context.check_hostname = security.verify_hostname
    try:
        if security.ca is not None:
            context.load_verify_locations(cadata=security.ca.text.get_secret_value())
        if security.certificate is not None:
            # OpenSSL reads chains from files only; a password is always given, or it would ask on the terminal
            password = security.key_password.get_secret_value() if security.key_password else ""
            with ExitStack() as files:
                certificate, key = [
                    files.enter_context(pem_path(pem.text.get_secret_value()))
                    for pem in (security.certificate, security.key or security.certificate)
                ]
                context.load_cert_chain(certificate, key, password=password)
    except (ssl.SSLError, ValueError, TypeError) as error:  # TypeError: a character beyond ASCII
        reason = getattr(error, "reason", None) or "not valid PEM"
        pems = (security.ca, security.certificate, security.key)
        origins = ", ".join(dict.fromkeys(pem.origin for pem in pems if pem is not None))
        raise ConfigError(
            f"cluster {alias}: OpenSSL refuses {origins}: {reason}",
            remedy=f"check that the key belongs to the certificate, and that {alias}.ssl.key.password is the key's"
            " password; `openssl x509 -in FILE` and `openssl pkey -in FILE` read PEM files, `keytool -list -keystore"
            " FILE` reads key stores",
        ) from None
    return context


@contextmanager
def pem_path(text: str) -> Iterator[str]:
    """Provide PEM text as a path that OpenSSL can read, until the ``with`` block ends.

    The file has no name in any folder: nothing is left of a private key, however the process ends.

    Raises:
        UsageError: no folder can hold the file.
    """
    with ExitStack() as ends:
        try:
            file = ends.enter_context(_nameless_file())
            file.write(text.encode())
            file.flush()
            file.seek(0)  # outside Linux the path shares the file's position
            path = f"{'/proc/self' if sys.platform == 'linux' else '/dev'}/fd/{file.fileno()}"
            os.stat(path)  # noqa: PTH116  a missing /proc is an error here and not at OpenSSL
        except OSError as error:
            raise UsageError(
                f"mmtool's private key for TLS cannot be written to a file for OpenSSL: {error.strerror}",
                remedy="set TMPDIR to a folder that this user can write to, and that has free space",
            ) from error
        yield path


def _nameless_file() -> IO[bytes]:
    if sys.platform == "linux":
        with suppress(OSError):
            return os.fdopen(os.memfd_create("mmtool-pem"), "w+b")  # in memory, never on a disk
    return tempfile.TemporaryFile()


def _login(alias: str, security: Security, keys: tuple[str, str, str, str]) -> dict[str, Any]:
    """The login's options for a client library, with a token source in that library's form."""
    login = security.sasl
    if login is None:
        return {}
    mechanism, user, password, token = keys
    options: dict[str, Any] = {mechanism: login.wire_mechanism}
    if isinstance(login, PasswordLogin):
        return options | {user: login.username, password: login.password.get_secret_value()}
    from mmtool.kafka.tokens.source import ClientTokens, token_source

    if keys is _OF_AIOKAFKA:
        from aiokafka import abc

        # not a base class: the command's lock is asked for before aiokafka is loaded
        abc.AbstractTokenProvider.register(ClientTokens)
    return options | {token: ClientTokens(token_source(alias, login, security.ca), login)}


T = TypeVar("T")


class HearingClient(NamedTuple):
    """A client of confluent-kafka, and the newest errors that it reported when it was polled."""

    client: Any
    heard: deque[Any]


class _Shelf:
    """What is kept for one purpose with one cluster's settings."""

    def __init__(self, cluster: ClusterSettings) -> None:
        self.cluster = cluster
        self.lock = Lock()
        self.shared: Any = None


_shelves: dict[tuple[str, str], _Shelf] = {}
_lock = Lock()
_of_parent: list[object] = []


def _begin_child() -> None:
    """Leave the parent's clients alone after a fork: they have no threads here, so destroying one would never end."""
    global _shelves, _lock
    _of_parent.append(_shelves)
    _shelves, _lock = {}, Lock()


os.register_at_fork(after_in_child=_begin_child)


def shared(
    cluster: ClusterSettings,
    purpose: str,
    create: Callable[[], T],
    is_sound: Callable[[T], bool] = lambda _: True,
) -> T:
    """The client of a cluster for this purpose, which threads use at the same time; created anew if it is not sound."""
    with _lock:
        shelf = _shelves.get((cluster.alias, purpose))
        if shelf is None or shelf.cluster != cluster:
            shelf = _shelves[cluster.alias, purpose] = _Shelf(cluster)
    with shelf.lock:
        if shelf.shared is None or not is_sound(shelf.shared):
            shelf.shared = create()
        return shelf.shared  # type: ignore[no-any-return]


def admin_client(cluster: ClusterSettings) -> HearingClient:
    """The process's one AdminClient of a cluster.

    Raises:
        ConfigError, UnreachableError: As `new_client`.
    """

    def create() -> HearingClient:
        config = librdkafka_config(cluster, role="admin", client_id_suffix="admin")
        heard: deque[Any] = deque(maxlen=100)
        return HearingClient(new_client(AdminClient, config | {"error_cb": heard.append}, cluster), heard)

    return shared(cluster, "admin", create, _has_brokers)


def _has_brokers(kept: HearingClient) -> bool:
    """Whether the client has not lost all brokers that it knows; those of a rebuilt cluster have other addresses."""
    kept.client.poll(0)
    return KafkaError._ALL_BROKERS_DOWN not in [error.code() for error in kept.heard]  # noqa: SLF001  a public name
