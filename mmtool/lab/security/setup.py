"""What the secured clusters of a lab share: authority, stores, users, and with OAUTHBEARER the token endpoint."""

from __future__ import annotations

import json
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Self

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
from mmtool.lab.security.kinds import (
    BROKER,
    USERS,
    Login,
    SecurityKind,
    client_file,
    client_properties,
    oauth_properties,
    scram_arguments,
    scram_properties,
    secured_properties,
    without_secrets,
)
from mmtool.lab.security.token_endpoint import TokenEndpoint, TokenPolicy
from mmtool.plan.records.shapes import made_of
from mmtool.translation.connect_offsets import parse_json

if TYPE_CHECKING:
    from pathlib import Path

    from mmtool.lab.security.certificates import Issued

_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
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
            properties = self.client_properties(user)
            write_private(self.client_file(user), self._file_text(user, properties).encode())

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
        """The properties that secure each broker, with placeholders for its ports."""
        files = self.broker_files
        found = secured_properties(self.kind, files.trusted, files.identity)
        if self.kind is SecurityKind.SCRAM:
            return found | scram_properties()
        if self.endpoint is None:
            return found
        policy = self.endpoint.policy
        return found | oauth_properties(self.endpoint.keys_url, policy.audience, policy.issuer)

    def format_arguments(self) -> list[str]:
        """Additional arguments of ``StorageTool format``. They hold passwords."""
        return scram_arguments(self.credentials.passwords) if self.kind is SecurityKind.SCRAM else []

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

    def client_properties(self, user: str, store_format: StoreFormat = StoreFormat.PKCS12) -> dict[str, str]:
        """The properties of a user, secrets included."""
        login = Login(
            user,
            self.trust_store(store_format),
            self.key_store(user, store_format),
            store_format,
            self.credentials.store_password,
            self.credentials.passwords[user],
            self.endpoint.url if self.endpoint is not None else None,
        )
        return client_properties(self.kind, login)

    def placeholders(self, user: str) -> dict[str, str]:
        """The properties of a user, with placeholders for the secrets, which `client_file` holds."""
        return without_secrets(self.client_properties(user), self.client_file(user))

    @property
    def _authority_key(self) -> Path:
        return self.folder / "authority.key"

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
        write_private(self._authority_key, authority.own.key_pem())
        self._write_stores(authority, made.store_password)
        self._store(made)
        return made

    def _write_stores(self, authority: Authority, password: str) -> None:
        own = authority.own
        trust = self.trust_store(StoreFormat.PKCS12)
        write_private(self.trust_store(StoreFormat.PEM), own.certificate_pem())
        write_private(trust, pkcs12_trust(own, password))
        write_private(self.key_store(BROKER, StoreFormat.PEM), pem_identity(authority.issue(BROKER), own))
        users = USERS if self.kind is SecurityKind.MTLS else ()
        keys = [self._write_identity(user, authority.issue(user), own, password) for user in users]
        password_file = self.folder / ".store-password"
        write_private(password_file, password.encode())
        try:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda store: copy_as_jks(store, password_file), [trust, *keys]))
        finally:
            password_file.unlink()

    def _write_identity(self, user: str, issued: Issued, own: Issued, password: str) -> Path:
        """The PEM and PKCS12 key stores of a user; the latter's path."""
        path = self.key_store(user, StoreFormat.PKCS12)
        write_private(path, pkcs12_identity(issued, own, password))
        write_private(self.key_store(user, StoreFormat.PEM), pem_identity(issued, own))
        return path

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

    def _file_text(self, user: str, properties: dict[str, str]) -> str:
        lines = [
            f"# Kafka client properties of the user {user}, as kafka-topics.sh --command-config takes them."
        ]
        lines += [
            f"# Kafka's tools need this variable as well: KAFKA_OPTS={option}"
            for option in self.jvm_options()
        ]
        return "\n".join([*lines, *(f"{name}={value}" for name, value in properties.items()), ""])
