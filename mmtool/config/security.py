"""Translate ``security.protocol`` and ``ssl.*`` from Java's form to one for both Python clients; restore PEM."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast, get_args

from pydantic import SecretStr

from mmtool.config.credentials import OAuthLogin, Pem, Protocol, Security
from mmtool.config.properties import PropertyEntry
from mmtool.config.report import Report
from mmtool.config.sasl import SaslReader
from mmtool.config.scopes import Properties, filled, scope_of, sibling
from mmtool.config.values import java_trim
from mmtool.keystores import StoreError, StoreFile, read_identity, read_trusted
from mmtool.keystores.certificates import (
    TOO_MANY,
    asks_too_much,
    certificates_in,
    has_certificate,
    has_expired,
    has_key,
    is_self_issued,
    missing_issuer,
    opens,
    out_of_date,
    renewal,
)

_BLOCK = re.compile(r"-{5}BEGIN ([A-Z0-9 ]+)-{5}([^-]*+(?:-(?!----)[^-]*+)*+)-{5}END \1-{5}")
_HEADERS = re.compile(r"\s*(Proc-Type:\s*4,ENCRYPTED)\s+(DEK-Info:\s*[A-Z0-9-]+,[0-9A-Fa-f]+)\s+")
_SPACE = re.compile(r"(?:\s|\\[rn])+")
_LINE = 64


def pem_document(text: str) -> str:
    """The PEM blocks of a text, in lines as OpenSSL reads them; text between the blocks is left out.

    Args:
        text: A file's content, or a value; a backslash and an ``n`` that reached it as two characters are a line
            break as well.

    Raises:
        ValueError: The text has no PEM block.
    """
    # the words of headers and footers separated by one blank
    spaced = re.sub(r"-{5}(?:BEGIN|END)[^-]*-{5}", lambda match: _SPACE.sub(" ", match.group()), text)
    blocks = [_block(match.group(1), match.group(2)) for match in _BLOCK.finditer(spaced)]
    if not blocks:
        raise ValueError("PEM text, which begins with -----BEGIN ...-----")
    return "".join(blocks)


def _block(label: str, body: str) -> str:
    found = _HEADERS.match(_SPACE.sub(" ", body))
    headers = [*found.groups(), ""] if found else []
    content = _SPACE.sub("", _SPACE.sub(" ", body)[found.end() :] if found else body)
    lines = [content[at : at + _LINE] for at in range(0, len(content), _LINE)]
    return "\n".join([f"-----BEGIN {label}-----", *headers, *lines, f"-----END {label}-----", ""])


PROTOCOLS: tuple[str, ...] = get_args(Protocol)
_NAMED_AT_MOST = 3
_Identity = tuple[Pem | None, Pem | None, SecretStr | None]
"""The client's certificate chain, its private key, and the password of an encrypted key."""


def read_security(properties: Properties, report: Report) -> Security:
    """The security settings among a client's properties; settings that cannot be translated are reported."""
    return _Reader(properties, report).security()


@dataclass(frozen=True, slots=True)
class _Reader:
    properties: Properties
    report: Report

    def security(self) -> Security:
        protocol = self._protocol()
        reader = SaslReader(self.properties, self.report, self._ca_among)
        sasl = reader.login() if protocol.startswith("SASL_") else None
        if not protocol.endswith("SSL"):
            ca = self._ca() if isinstance(sasl, OAuthLogin) else None  # of the token endpoint
            return Security(protocol=protocol, sasl=sasl, ca=ca)
        self._refuse_java_code()
        ca = self._ca()
        certificate, key, key_password = self._client_identity()
        return Security(
            protocol=protocol,
            sasl=sasl,
            ca=ca,
            certificate=certificate,
            key=key,
            key_password=key_password,
            verify_hostname=self._verify_hostname(),
        )

    def _protocol(self) -> Protocol:
        entry = self.properties.get("security.protocol")
        word = entry.value.strip().upper() if entry else "PLAINTEXT"
        if entry is not None and word not in PROTOCOLS:
            self.report.expected(entry, f"{', '.join(PROTOCOLS[:-1])} or {PROTOCOLS[-1]}")
            return "PLAINTEXT"
        return cast("Protocol", word)

    def _refuse_java_code(self) -> None:
        entry = self._filled("ssl.engine.factory.class")
        if entry is not None:
            self.report.refused(
                entry,
                "names a Java class, which mmtool does not run: remove the key and use ssl.truststore.* and "
                "ssl.keystore.*",
            )

    def _ca_among(self, properties: Properties) -> Pem | None:
        return replace(self, properties=properties)._ca()  # noqa: SLF001 - its own

    def _ca(self) -> Pem | None:
        """The trusted certificates; text in the properties file wins over files."""
        for entry, read in (
            (self._filled("ssl.truststore.certificates"), self._pem_text),
            (self._filled("ssl.ca.location"), self._pem_file),
            (self._filled("ssl.truststore.location"), self._trusted_store),
        ):
            if entry is not None:
                pem = read(entry)
                if pem is not None:
                    self._check_trusted(entry, pem)
                return pem
        return None

    def _trusted_store(self, location: PropertyEntry) -> Pem | None:
        try:
            text = read_trusted(self._store("truststore", location))
        except StoreError as error:
            self.report.refused(location, str(error))
            return None
        return Pem(origin=location.raw.strip(), text=_secret_lines(text))

    def _client_identity(self) -> _Identity:
        chain = self._filled("ssl.keystore.certificate.chain") or self._filled("ssl.certificate.location")
        location = self._filled("ssl.keystore.location")
        password = self._secret("ssl.key.password")
        if chain is None and location is not None:
            certificate, key, password = self._identity_store(location, password)
        else:
            of_key = self._filled("ssl.keystore.key") or self._filled("ssl.key.location") or chain
            certificate, key = self._pem(chain), self._pem(of_key)
        at = chain or location
        if at is not None and certificate is not None and key is not None:  # else the report has the reason
            self._check_identity(at, certificate, key, password)
        return certificate, key, password

    def _pem(self, entry: PropertyEntry | None) -> Pem | None:
        if entry is None:
            return None
        return self._pem_file(entry) if entry.key.endswith(".location") else self._pem_text(entry)

    def _check_trusted(self, entry: PropertyEntry, pem: Pem) -> None:
        text = pem.text.get_secret_value()
        if not has_certificate(text):
            self.report.refused(entry, f"{pem.origin} holds no certificate; add the brokers' CA certificate")
            return
        certificates = certificates_in(text)
        late = [(why, one) for one in certificates if (why := out_of_date(one))]
        say = self.report.alarm if len(late) == len(certificates) else self.report.warn
        for why, one in late[:_NAMED_AT_MOST]:
            remedy = "import the CA's current certificate" if has_expired(one) else renewal(one)
            say(entry, f"in {pem.origin}, {why}; OpenSSL, unlike Java, does not trust it: {remedy}")
        if certificates and not any(map(is_self_issued, certificates)):
            self.report.warn(
                entry,
                f"{pem.origin} holds no root certificate, which OpenSSL, unlike Java, needs: add the certificate of"
                f" {missing_issuer(certificates)}",
            )

    def _check_identity(
        self, entry: PropertyEntry, certificate: Pem, key: Pem, password: SecretStr | None
    ) -> None:
        chain, key_text = certificate.text.get_secret_value(), key.text.get_secret_value()
        if not has_certificate(chain):
            self.report.refused(
                entry, f"{certificate.origin} holds no certificate; add the client's certificate"
            )
        if not has_key(key_text):
            self.report.refused(
                entry,
                f"{key.origin} holds no private key; {_key_place(entry, key)}",
            )
        elif asks_too_much(key_text):
            self.report.refused(
                entry, f"{key.origin} asks for {TOO_MANY}; write it again with `openssl pkcs8 -topk8`"
            )
        elif not opens(key_text, password.get_secret_value() if password else None):
            wrong = "wrong password for" if password else "no password for"
            self.report.refused(
                self._filled("ssl.key.password") or entry,
                f"{wrong} the private key in {key.origin}; set {sibling(entry, 'ssl.key.password')}",
            )
        for place, one in enumerate(certificates_in(chain)):
            if not (why := out_of_date(one)):
                continue
            # no error: an emergency failover needs no connection to a source that is lost
            say, refuse = (self.report.warn, "may refuse") if place else (self.report.alarm, "refuse")
            say(entry, f"in {certificate.origin}, {why}; brokers {refuse} the connection: {renewal(one)}")

    def _identity_store(self, location: PropertyEntry, key_password: SecretStr | None) -> _Identity:
        """The client's chain and key from a key store; a PEM store, as in Kafka, holds both in one file."""
        try:
            found = read_identity(self._store("keystore", location))
        except StoreError as error:
            self.report.refused(location, str(error))
            return None, None, None
        origin = location.raw.strip()
        chain, key = (Pem(origin=origin, text=_secret_lines(text)) for text in (found.chain, found.key))
        return chain, key, key_password if found.is_encrypted else None

    def _store(self, kind: Literal["truststore", "keystore"], location: PropertyEntry) -> StoreFile:
        store_type, password = self._filled(f"ssl.{kind}.type"), self._filled(f"ssl.{kind}.password")
        key_password = self._filled("ssl.key.password")
        self.report.files.note(location.value.strip())
        return StoreFile(
            kind=kind,
            location=location.value.strip(),
            shown=location.raw.strip(),
            store_type=java_trim(store_type.value) if store_type else "",
            password=java_trim(password.value) if password else None,
            key_password=java_trim(key_password.value) if key_password else None,
            scope=scope_of(location),
        )

    def _pem_file(self, entry: PropertyEntry) -> Pem | None:
        self.report.files.note(entry.value.strip())
        try:
            text = Path(entry.value.strip()).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            self.report.expected(entry, "a readable PEM file (not a text file)")
            return None
        except (OSError, ValueError) as error:  # ValueError: a null character
            reason = getattr(error, "strerror", None) or "not a path"
            self.report.expected(entry, f"a readable PEM file ({reason})")
            return None
        try:
            return Pem(origin=entry.raw.strip(), text=SecretStr(pem_document(text)))
        except ValueError as error:
            self.report.expected(entry, f"a file with {error}")
            return None

    def _pem_text(self, entry: PropertyEntry) -> Pem | None:
        """A PEM document in the properties file itself; it may be a key, and is never quoted."""
        try:
            return Pem(origin=entry.key, text=SecretStr(pem_document(entry.value)))
        except ValueError as error:
            self.report.refused(entry, f"expected {error}")
            return None

    def _verify_hostname(self) -> bool:
        entry = self.properties.get("ssl.endpoint.identification.algorithm")
        word = entry.value.strip().lower() if entry else "https"
        if entry is not None and word not in {"https", "", "none"}:
            self.report.expected(entry, "https, or empty to turn the check of host names off")
        return word == "https"

    def _secret(self, name: str) -> SecretStr | None:
        entry = self._filled(name)
        return None if entry is None else SecretStr(java_trim(entry.value))

    def _filled(self, name: str) -> PropertyEntry | None:
        return filled(self.properties, name)


def _key_place(entry: PropertyEntry, key: Pem) -> str:
    """What to do about a missing private key; a key store and ``ssl.keystore.key`` win over ``ssl.key.location``."""
    if entry.key.endswith("ssl.keystore.location") or key.origin.endswith("ssl.keystore.key"):
        return "add it"
    return f"add it, or name its file in {sibling(entry, 'ssl.key.location')}"


def _secret_lines(text: str) -> SecretStr:
    """The PEM text of a store, in lines as OpenSSL reads them; text without a PEM block stays as it is."""
    with suppress(ValueError):
        return SecretStr(pem_document(text))
    return SecretStr(text)
