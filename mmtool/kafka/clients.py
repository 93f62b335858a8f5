"""Client configurations from settings: librdkafka's dictionary and aiokafka's keyword arguments.

Both hold secrets as plain text; they are handed to the client and not kept.
"""

from __future__ import annotations

import re
import ssl
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from mmtool import __version__
from mmtool.config.clientkeys import java_names, librdkafka_value
from mmtool.config.redaction import HIDDEN
from mmtool.config.settings import PasswordLogin
from mmtool.errors import ConfigError
from mmtool.kafka.key_files import pem_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mmtool.config.scopes import Role
    from mmtool.config.settings import ClusterSettings, Pem, Security
    from mmtool.kafka.wire.cluster import WireCluster

C = TypeVar("C")

_FIRST_WAIT, _LONGEST_WAIT = "reconnect.backoff.ms", "reconnect.backoff.max.ms"
_QUOTED = re.compile(r"[\"`]([a-z][a-z.]+)[\"`]")

_TOKEN_CALLBACK = "oauth_cb"  # noqa: S105 - the name of a setting

CLIENT_ID = f"mmtool/{__version__}"
"""The start of every client.id, by which brokers' request logs and quotas identify mmtool."""


def librdkafka_config(cluster: ClusterSettings, *, role: Role, client_id_suffix: str = "") -> dict[str, Any]:
    """librdkafka's configuration for a Producer, Consumer or AdminClient of confluent-kafka; contains secrets.

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
        "metadata.recovery.strategy": "none",
    }
    security = cluster.security_for(role)
    return config | _connecting(cluster.extras(role)) | _librdkafka_security(cluster.alias, security)


def _connecting(extras: Mapping[str, str]) -> dict[str, Any]:
    """The connection properties under librdkafka's names, within librdkafka's bounds.

    A ``reconnect.backoff.ms`` above ``reconnect.backoff.max.ms`` raises the latter, as in Java's clients.
    """
    passed = filter(None, (librdkafka_value(name, value) for name, value in extras.items()))
    config: dict[str, Any] = {one.name: one.value for one in passed if one.value is not None}
    first, longest = (
        int(config.get(name, default)) for name, default in ((_FIRST_WAIT, 100), (_LONGEST_WAIT, 10_000))
    )
    return config | ({_LONGEST_WAIT: str(first)} if first > longest else {})


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
    login = _librdkafka_login(alias, security)
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
    options |= _wire_login(cluster.alias, security)
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
            _load_chain(context, security)
    except (ssl.SSLError, ValueError, TypeError) as error:  # TypeError: a character beyond ASCII
        reason = getattr(error, "reason", None) or "not valid PEM"
        raise ConfigError(
            f"cluster {alias}: OpenSSL refuses {_origins(security)}: {reason}",
            remedy=f"check that the key belongs to the certificate, and that {alias}.ssl.key.password is the key's"
            " password; `openssl x509 -in FILE` and `openssl pkey -in FILE` read PEM files, `keytool -list -keystore"
            " FILE` reads key stores",
        ) from None
    return context


def _load_chain(context: ssl.SSLContext, security: Security) -> None:
    """Load the client certificate and key through temporary paths, since OpenSSL reads chains from files only."""
    key_password = security.key_password.get_secret_value() if security.key_password else ""
    with ExitStack() as files:
        certificate = _path_of(security.certificate, files)
        key = _path_of(security.key, files)
        # a password is always given: without one OpenSSL would ask on the terminal
        context.load_cert_chain(certificate or "", key or certificate, password=key_password)


def _path_of(pem: Pem | None, files: ExitStack) -> str | None:
    return None if pem is None else files.enter_context(pem_path(pem.text.get_secret_value()))


def _origins(security: Security) -> str:
    pems = (security.ca, security.certificate, security.key)
    return ", ".join(dict.fromkeys(pem.origin for pem in pems if pem is not None))


def _wire_login(alias: str, security: Security) -> dict[str, Any]:
    login = security.sasl
    if login is None:
        return {}
    options: dict[str, Any] = {"sasl_mechanism": login.wire_mechanism}
    if isinstance(login, PasswordLogin):
        options["sasl_plain_username"] = login.username
        options["sasl_plain_password"] = login.password.get_secret_value()
    else:
        from mmtool.kafka.tokens.provider import TokenProvider
        from mmtool.kafka.tokens.sources import token_source

        options["sasl_oauth_token_provider"] = TokenProvider(token_source(alias, login, security.ca), login)
    return options


def _librdkafka_login(alias: str, security: Security) -> dict[str, Any]:
    login = security.sasl
    if login is None:
        return {}
    config: dict[str, Any] = {"sasl.mechanism": login.wire_mechanism}
    if isinstance(login, PasswordLogin):
        config["sasl.username"] = login.username
        config["sasl.password"] = login.password.get_secret_value()
    else:
        from mmtool.kafka.tokens.sources import OauthCallback, token_source

        config[_TOKEN_CALLBACK] = OauthCallback(token_source(alias, login, security.ca), login)
    return config


def _librdkafka_security(alias: str, security: Security) -> dict[str, Any]:
    config = {"security.protocol": security.protocol, **_librdkafka_login(alias, security)}
    if security.uses_tls:
        config |= _librdkafka_tls(security)
    return config


def _librdkafka_tls(security: Security) -> dict[str, Any]:
    config = {"ssl.endpoint.identification.algorithm": "https" if security.verify_hostname else "none"}
    pems = {
        "ssl.ca.pem": security.ca,
        "ssl.certificate.pem": security.certificate,
        "ssl.key.pem": security.key,
    }
    config |= {name: pem.text.get_secret_value() for name, pem in pems.items() if pem is not None}
    if security.key_password is not None and security.key is not None:
        config["ssl.key.password"] = security.key_password.get_secret_value()
    return config
