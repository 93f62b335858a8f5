"""What the secured clusters of a lab share: authority, stores, users, and with OAUTHBEARER the token endpoint."""

from __future__ import annotations

import json
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from mmtool.errors import UsageError
from mmtool.lab.ports import PortReservation, TlsFiles
from mmtool.lab.process import down_command
from mmtool.lab.security.certificates import (
    Authority,
    StoreFormat,
    copy_as_jks,
    pem_identity,
    pkcs12_identity,
    pkcs12_trust,
    write_private,
)
from mmtool.lab.security.kinds import ADMIN, BROKER, USERS, SecurityKind, client_file, principal
from mmtool.lab.security.token_endpoint import TokenEndpoint, TokenPolicy
from mmtool.plan.records.shapes import made_of
from mmtool.translation.connect_offsets import parse_json

_HOST = "127.0.0.1"
_CLIENTS, _BROKERS, _CONTROLLERS = "CLIENTS", "BROKERS", "CONTROLLER"
_SCRAM, _MODULES = "SCRAM-SHA-512", "org.apache.kafka.common.security"
_SCRAM_MODULE = f"{_MODULES}.scram.ScramLoginModule"
_OAUTH_MODULE = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule"
_VALIDATOR = f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
_OAUTH_HANDLER = f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
SECRETS = ("sasl.jaas.config", "ssl.truststore.password", "ssl.keystore.password")
"""The keys of clients' properties whose values hold a secret."""
_CREDENTIALS = "credentials.json"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What is stored between two starts with the same data.

    Attributes:
        kind: The value of a `SecurityKind`.
        passwords: Of each user; with OAUTHBEARER the client secret.
        store_password: Of all PKCS12 and JKS stores.
        token_port: Of the token endpoint, once it had one.
    """

    kind: str
    passwords: dict[str, str] = field(repr=False)
    store_password: str = field(repr=False)
    token_port: int | None = None


class Security:
    """The files below ``folder``, made at the first start; a context manager that runs the token endpoint.

    Attributes:
        endpoint: The token endpoint while it runs, with OAUTHBEARER.
    """

    def __init__(self, kind: SecurityKind, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.endpoint: TokenEndpoint | None = None
        self._ports = PortReservation()
        self._credentials: Credentials | None = None

    def start(self) -> None:
        """Make or read the files, and start the token endpoint.

        Raises:
            UsageError: The files are of another kind, or Java has no ``keytool``.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        stored = self._stored() or self._create()
        if self.kind is SecurityKind.OAUTH:
            stored = self._start_endpoint(stored)
        self._credentials = stored
        for user in USERS:
            lines = [
                f"# Kafka client properties of the user {user}, as kafka-topics.sh --command-config takes them."
            ]
            lines += [
                f"# Kafka's tools need this variable as well: KAFKA_OPTS={o}" for o in self.jvm_options()
            ]
            lines += [f"{name}={value}" for name, value in self.client_properties(user).items()]
            write_private(self.client_file(user), "\n".join([*lines, ""]).encode())

    def stop(self) -> None:
        if self.endpoint is not None:
            self.endpoint.stop()
            self.endpoint = None
        self._ports.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def credentials(self) -> Credentials:
        """The users' secrets, known from `start` on."""
        assert self._credentials is not None
        return self._credentials

    @property
    def broker_files(self) -> TlsFiles:
        """By which brokers, and the lab itself, authenticate on the brokers' own listener."""
        return TlsFiles(str(self.trust_store(StoreFormat.PEM)), str(self.key_store(BROKER, StoreFormat.PEM)))

    def broker_properties(self) -> dict[str, str]:
        """A broker's listeners, their certificates and the authorizer, with placeholders for the broker's ports."""
        files, of_clients = self.broker_files, f"listener.name.{_CLIENTS.lower()}"
        clients, brokers = f"{_CLIENTS}://{_HOST}:{{port}}", f"{_BROKERS}://{_HOST}:{{broker_port}}"
        properties = {
            "listeners": f"{clients},{brokers},{_CONTROLLERS}://{_HOST}:{{controller_port}}",
            "advertised.listeners": f"{clients},{brokers}",
            "listener.security.protocol.map": f"{_CLIENTS}:{self.kind.protocol},{_BROKERS}:SSL,{_CONTROLLERS}:SSL",
            "inter.broker.listener.name": _BROKERS,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": files.trusted,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": files.identity,
            f"{of_clients}.ssl.client.auth": "required" if self.kind is SecurityKind.MTLS else "none",
            f"listener.name.{_BROKERS.lower()}.ssl.client.auth": "required",
            f"listener.name.{_CONTROLLERS.lower()}.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join((principal(ADMIN), principal(BROKER))),
            "allow.everyone.if.no.acl.found": "false",
        }
        if self.kind is SecurityKind.SCRAM:
            properties |= {
                "sasl.enabled.mechanisms": _SCRAM,
                f"{of_clients}.{_SCRAM.lower()}.sasl.jaas.config": f"{_SCRAM_MODULE} required;",
            }
        if self.endpoint is not None:
            properties |= {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": self.endpoint.keys_url,
                "sasl.oauthbearer.expected.audience": self.endpoint.policy.audience,
                "sasl.oauthbearer.expected.issuer": self.endpoint.policy.issuer,
                f"{of_clients}.oauthbearer.sasl.jaas.config": f"{_OAUTH_MODULE} required;",
                f"{of_clients}.oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
            }
        return properties

    def format_arguments(self) -> list[str]:
        """Additional arguments of ``StorageTool format``, which create the users. They hold passwords."""
        if self.kind is not SecurityKind.SCRAM:
            return []
        return [
            argument
            for user, password in self.credentials.passwords.items()
            for argument in ("--add-scram", f"{_SCRAM}=[name={user},password={password}]")
        ]

    def jvm_options(self) -> tuple[str, ...]:
        """Additional options of the JVM of brokers and of Java clients."""
        if self.endpoint is None:
            return ()
        return (f"-D{_ALLOWED_URLS}={self.endpoint.url},{self.endpoint.keys_url}",)

    def trust_store(self, store_format: StoreFormat) -> Path:
        return self.folder / f"truststore.{store_format.ending}"

    def key_store(self, user: str, store_format: StoreFormat) -> Path:
        """The key store of a user: with mTLS only, and of the brokers as PEM only."""
        return self.folder / f"{user}.keystore.{store_format.ending}"

    def client_file(self, user: str) -> Path:
        """The properties file of a user, for Kafka's command-line tools."""
        return client_file(self.folder, user)

    def client_properties(self, user: str) -> dict[str, str]:
        """The properties of a user without ``bootstrap.servers``, secrets included."""
        from mmtool.config.sasl import jaas_text

        password, stores = (
            self.credentials.passwords[user],
            {"truststore": self.trust_store(StoreFormat.PKCS12)},
        )
        if self.kind is SecurityKind.MTLS:
            stores["keystore"] = self.key_store(user, StoreFormat.PKCS12)
        properties = {"security.protocol": self.kind.protocol}
        for name, path in stores.items():
            properties |= {f"ssl.{name}.type": StoreFormat.PKCS12.value, f"ssl.{name}.location": str(path)}
            properties[f"ssl.{name}.password"] = self.credentials.store_password
        if self.kind is SecurityKind.SCRAM:
            login = {"username": user, "password": password}
            properties |= {"sasl.mechanism": _SCRAM, "sasl.jaas.config": jaas_text(_SCRAM_MODULE, login)}
        if self.endpoint is not None:
            login = {"clientId": user, "clientSecret": password, "scope": "kafka"}
            properties |= {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": self.endpoint.url,
                "sasl.login.callback.handler.class": _OAUTH_HANDLER,
                "sasl.jaas.config": jaas_text(_OAUTH_MODULE, login),
            }
        return properties

    def placeholders(self, user: str) -> dict[str, str]:
        """The properties of a user, with placeholders for the secrets, which `client_file` holds."""
        file = self.client_file(user)
        return {
            name: f"${{file:{file}:{name}}}" if name in SECRETS else value
            for name, value in self.client_properties(user).items()
        }

    def _stored(self) -> Credentials | None:
        try:
            stored = made_of(Credentials, parse_json((self.folder / _CREDENTIALS).read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise self._unusable(f"cannot be read: {error}") from error
        if stored.kind != self.kind.value:
            keep = f"to keep the clusters, use --secure {stored.kind}; otherwise "
            raise self._unusable(f"are of clusters with --secure {stored.kind}, not {self.kind.value}", keep)
        return stored

    def _unusable(self, why: str, first: str = "") -> UsageError:
        return UsageError(
            f"the certificates and users in {self.folder} {why}",
            remedy=f"{first}delete them together with the clusters: {down_command(self.folder.parent)}; or name another"
            " directory: --state-dir DIR",
        )

    def _create(self) -> Credentials:
        """Make the stores and, as the last file, the credentials: without it all files are made again."""
        passwords = {user: secrets.token_urlsafe(18) for user in USERS}
        made = Credentials(self.kind.value, passwords, secrets.token_urlsafe(18))
        authority = Authority.create()
        write_private(self.folder / "authority.key", authority.key_pem())
        self._write_stores(authority, made.store_password)
        self._store(made)
        return made

    def _write_stores(self, authority: Authority, password: str) -> None:
        stores = [self.trust_store(StoreFormat.PKCS12)]
        write_private(self.trust_store(StoreFormat.PEM), authority.certificate_pem())
        write_private(stores[0], pkcs12_trust(authority, password))
        write_private(
            self.key_store(BROKER, StoreFormat.PEM), pem_identity(authority.issue(BROKER), authority)
        )
        for user in USERS if self.kind is SecurityKind.MTLS else ():
            issued, path = authority.issue(user), self.key_store(user, StoreFormat.PKCS12)
            write_private(path, pkcs12_identity(issued, authority, password))
            write_private(self.key_store(user, StoreFormat.PEM), pem_identity(issued, authority))
            stores.append(path)
        password_file = self.folder / ".store-password"
        write_private(password_file, password.encode())
        try:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda store: copy_as_jks(store, password_file), stores))
        finally:
            password_file.unlink()

    def _store(self, credentials: Credentials) -> None:
        document = json.dumps(asdict(credentials), indent=1)
        write_private(self.folder / _CREDENTIALS, document.encode())

    def _start_endpoint(self, stored: Credentials) -> Credentials:
        """Start the token endpoint, on the port that it had before where that is free."""
        port = stored.token_port
        if port is None or not self._ports.keep(port):
            port = self._ports.take()
        self.endpoint = TokenEndpoint(TokenPolicy(stored.passwords), port).start()
        placed = replace(stored, token_port=port)
        self._store(placed)
        return placed
