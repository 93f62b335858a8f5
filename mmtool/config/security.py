"""``security.protocol``, ``ssl.*`` and ``sasl.*`` from Java's form to one that both Python clients take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from pydantic import SecretStr

from mmtool.config.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from mmtool.config.pem import pem_document
from mmtool.config.settings import Mechanism, Pem, Protocol, Sasl, Security

if TYPE_CHECKING:
    from mmtool.config.properties import Entry
    from mmtool.config.report import Report
    from mmtool.config.scopes import Properties

PROTOCOLS: tuple[str, ...] = get_args(Protocol)
MECHANISMS: tuple[str, ...] = get_args(Mechanism)

_MODULE_OF = {"PLAIN": PLAIN_MODULE, "SCRAM-SHA-256": SCRAM_MODULE, "SCRAM-SHA-512": SCRAM_MODULE}
_JAVA_ONLY = (
    "ssl.engine.factory.class",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
)


def read_security(properties: Properties, report: Report) -> Security:
    """The security settings among a client's properties; what cannot be translated goes into the report."""
    return _Reader(properties, report).security()


@dataclass(frozen=True, slots=True)
class _Reader:
    properties: Properties
    report: Report

    def security(self) -> Security:
        protocol = self._protocol()
        self._refuse_java_code(protocol)
        sasl = self._sasl() if protocol.startswith("SASL_") else None
        if not protocol.endswith("SSL"):
            return Security(protocol=protocol, sasl=sasl)
        return Security(
            protocol=protocol,
            sasl=sasl,
            ca=self._ca(),
            certificate=self._certificate(),
            key=self._key(),
            key_password=self._secret("ssl.key.password"),
            verify_hostname=self._verify_hostname(),
        )

    def _protocol(self) -> Protocol:
        entry = self.properties.get("security.protocol")
        word = entry.value.strip().upper() if entry else "PLAINTEXT"
        if entry is not None and word not in PROTOCOLS:
            self.report.expected(entry, ", ".join(PROTOCOLS))
            return "PLAINTEXT"
        return cast("Protocol", word)

    def _refuse_java_code(self, protocol: Protocol) -> None:
        for name in _JAVA_ONLY:
            entry = self._filled(name)
            relevant = protocol.startswith("SASL_") if name.startswith("sasl.") else protocol.endswith("SSL")
            if entry is not None and relevant:
                self.report.refused(
                    entry,
                    f"is Java code, which mmtool does not run: use {', '.join(MECHANISMS)}, or PEM files",
                )

    def _sasl(self) -> Sasl | None:
        mechanism = self._mechanism()
        if mechanism is None:
            return None
        username, password = self._filled("sasl.username"), self._filled("sasl.password")
        if username is not None and password is not None:
            return Sasl(mechanism=mechanism, username=username.value, password=SecretStr(password.value))
        jaas = self._filled("sasl.jaas.config")
        if jaas is None:
            at = username or password or self.properties["security.protocol"]
            self.report.refused(
                at, f"{mechanism} needs a login: set {_sibling(at, 'sasl.username')} and sasl.password"
            )
            return None
        return self._login(mechanism, jaas)

    def _mechanism(self) -> Mechanism | None:
        entry = self._filled("sasl.mechanism")
        if entry is None:
            at = self.properties["security.protocol"]
            self.report.refused(
                at,
                "Kafka's default mechanism GSSAPI (Kerberos) is not supported: "
                f"set {_sibling(at, 'sasl.mechanism')} to {', '.join(MECHANISMS)}",
            )
            return None
        word = entry.value.strip()
        if word not in MECHANISMS:
            self.report.expected(entry, f"{', '.join(MECHANISMS)}: the ones that mmtool's clients speak")
            return None
        return cast("Mechanism", word)

    def _login(self, mechanism: Mechanism, entry: Entry) -> Sasl | None:
        way_out = (
            f"write {_sibling(entry, 'sasl.username')} = ... and {_sibling(entry, 'sasl.password')} = "
            "${env:NAME} beside it: they win over sasl.jaas.config"
        )
        try:
            login = parse_jaas(entry.value)
        except ValueError as error:
            self.report.refused(entry, f"expected {error}; or {way_out}")
            return None
        if login.module != _MODULE_OF[mechanism]:
            self.report.refused(entry, f"{login.module} is not {mechanism}'s login module; {way_out}")
        elif login.username is None or login.password is None:
            self.report.refused(entry, f"has no username or no password; {way_out}")
        else:
            return Sasl(mechanism=mechanism, username=login.username, password=SecretStr(login.password))
        return None

    def _ca(self) -> Pem | None:
        text = self._filled("ssl.truststore.certificates")
        if text is not None:
            return self._pem_text(text)
        return self._pem_file(self._filled("ssl.ca.location") or self._store("truststore"))

    def _certificate(self) -> Pem | None:
        text = self._filled("ssl.keystore.certificate.chain")
        if text is not None:
            return self._pem_text(text)
        return self._pem_file(self._filled("ssl.certificate.location") or self._store("keystore"))

    def _key(self) -> Pem | None:
        """The private key; a PEM key store, as Kafka's, holds the chain and the key in one file."""
        text = self._filled("ssl.keystore.key")
        if text is not None:
            return self._pem_text(text)
        location = self._filled("ssl.key.location") or self._filled("ssl.certificate.location")
        return self._pem_file(location or self._store("keystore"))

    def _store(self, kind: str) -> Entry | None:
        """The location of a trust store or key store that is PEM; other types are refused."""
        location = self._filled(f"ssl.{kind}.location")
        if location is None:
            return None
        entry = self._filled(f"ssl.{kind}.type")
        store_type = entry.value.strip().upper() if entry else "JKS"
        if store_type == "PEM":
            return location
        self.report.refused(location, _pem_way(location, kind, store_type))
        return None

    def _pem_file(self, entry: Entry | None) -> Pem | None:
        if entry is None:
            return None
        try:
            text = Path(entry.value.strip()).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not a text file"
            self.report.expected(entry, f"a readable PEM file ({reason})")
            return None
        try:
            return Pem(origin=entry.raw.strip(), text=SecretStr(pem_document(text)))
        except ValueError as error:
            self.report.expected(entry, f"a file in {error}")
            return None

    def _pem_text(self, entry: Entry) -> Pem | None:
        """A document that the file itself holds; it may be a key, and is never quoted."""
        try:
            return Pem(origin=entry.key, text=SecretStr(pem_document(entry.value)))
        except ValueError as error:
            self.report.refused(entry, f"expected {error}")
            return None

    def _verify_hostname(self) -> bool:
        entry = self.properties.get("ssl.endpoint.identification.algorithm")
        word = entry.value.strip().lower() if entry else "https"
        if entry is not None and word not in {"https", "", "none"}:
            self.report.expected(entry, "https, or nothing to turn the check off")
        return word == "https"

    def _secret(self, name: str) -> SecretStr | None:
        entry = self._filled(name)
        return None if entry is None else SecretStr(entry.value)

    def _filled(self, name: str) -> Entry | None:
        """An entry with a value; an empty one counts as absent, as Java's clients treat it."""
        entry = self.properties.get(name)
        return entry if entry is not None and entry.value.strip() else None


def _scope_of(entry: Entry) -> str:
    """What stands before the client property's own name, as ``A.`` or ``S->T.source.consumer.``."""
    starts = [entry.key.find(word) for word in ("security.protocol", "ssl.", "sasl.")]
    return entry.key[: max(0, *starts)]


def _sibling(entry: Entry, name: str) -> str:
    return _scope_of(entry) + name


def _pem_way(location: Entry, kind: str, store_type: str) -> str:
    """The way from a Java key store to PEM, written out as commands and keys."""
    store = location.raw
    is_p12 = store_type == "PKCS12"
    p12 = store if is_p12 else f"{kind}.p12"
    import_it = f"keytool -importkeystore -srckeystore {store} -destkeystore {p12} -deststoretype PKCS12 && "
    to_p12 = "" if is_p12 else import_it
    if kind == "truststore":
        command = f"{to_p12}openssl pkcs12 -in {p12} -nokeys -out ca.pem"
        keys = f"{_sibling(location, 'ssl.ca.location')} = ca.pem"
    else:
        command = (
            f"{to_p12}openssl pkcs12 -in {p12} -nokeys -out cert.pem && "
            f"openssl pkcs12 -in {p12} -nocerts -out key.pem"
        )
        keys = (
            f"{_sibling(location, 'ssl.certificate.location')} = cert.pem, "
            f"{_sibling(location, 'ssl.key.location')} = key.pem"
        )
    return f"a {store_type} store can only be read by Java: `{command}`, then set {keys}"
