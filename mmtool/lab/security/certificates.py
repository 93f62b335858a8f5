"""Certificates of the lab and the stores that hold them: PEM, PKCS12 and JKS, as Kafka's clients read them."""

from __future__ import annotations

import ipaddress
import os
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from mmtool.errors import MmtoolError, UsageError
from mmtool.java import java_binary
from mmtool.keystores.certificates import certificates_pem, key_pem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, ExtensionType


_LIFETIME = timedelta(days=3650)
_CLOCK_SKEW = timedelta(hours=1)
_HOSTS = ("localhost",)
_ADDRESSES = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its private key."""

    certificate: Certificate
    key: EllipticCurvePrivateKey = field(repr=False)

    def certificate_pem(self) -> bytes:
        return certificates_pem([self.certificate]).encode()

    def key_pem(self) -> bytes:
        """The private key, unencrypted, as PKCS8: the form that Kafka asks for."""
        return key_pem(self.key).encode()


@dataclass(frozen=True, slots=True)
class Authority(Issued):
    """A certificate authority: a peer that trusts its certificate trusts the certificates that it has issued."""

    @classmethod
    def create(cls, name: str = "mmtool lab") -> Self:
        """A new authority with a self-signed certificate."""
        from cryptography.x509 import BasicConstraints, KeyUsage

        key = _new_key()
        signing = KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        extensions = [(BasicConstraints(ca=True, path_length=0), True), (signing, True)]
        return cls(_signed(name, key, extensions, name, key), key)

    def issue(self, name: str) -> Issued:
        """A certificate for ``CN=<name>``, valid for clients and for servers on this host."""
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        key = _new_key()
        names = [
            *(x509.DNSName(host) for host in _HOSTS),
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in _ADDRESSES),
        ]
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        extensions = [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (x509.SubjectAlternativeName(names), False),
            (usage, False),
        ]
        (own,) = self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return Issued(_signed(name, key, extensions, str(own.value), self.key), key)


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _signed(
    name: str,
    key: EllipticCurvePrivateKey,
    extensions: Sequence[tuple[ExtensionType, bool]],
    issuer: str,
    issuer_key: EllipticCurvePrivateKey,
) -> Certificate:
    """A certificate that is valid from an hour ago; ``extensions`` come with whether they are critical."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import NameOID

    now = datetime.now(UTC)
    subject, authority = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, of)]) for of in (name, issuer))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
    )
    identifiers = (
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
    )
    for extension, critical in (*extensions, *((identifier, False) for identifier in identifiers)):
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuer_key, SHA256())


TRUST_ALIAS, KEY_ALIAS = b"authority", b"client"
_KEYTOOL_SECONDS = 60.0


class StoreFormat(StrEnum):
    """The value of ``ssl.truststore.type`` and ``ssl.keystore.type``."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"

    @property
    def ending(self) -> str:
        """How the names of such files end."""
        return {"PEM": "pem", "PKCS12": "p12", "JKS": "jks"}[self.value]


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; it is complete or not there."""
    draft = path.with_name(f".{path.name}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    draft.rename(path)


def pem_identity(issued: Issued, authority: Issued) -> bytes:
    """A private key and its certificate chain."""
    return issued.key_pem() + issued.certificate_pem() + authority.certificate_pem()


def pkcs12_identity(issued: Issued, authority: Issued, password: str) -> bytes:
    """A private key and its certificate chain."""
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
    from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

    encryption = BestAvailableEncryption(password.encode())
    return serialize_key_and_certificates(
        KEY_ALIAS, issued.key, issued.certificate, [authority.certificate], encryption
    )


def pkcs12_trust(authority: Issued, password: str) -> bytes:
    """A certificate marked as trusted, as Java asks for."""
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
    from cryptography.hazmat.primitives.serialization.pkcs12 import (
        PKCS12Certificate,
        serialize_java_truststore,
    )

    trusted = PKCS12Certificate(authority.certificate, TRUST_ALIAS)
    return serialize_java_truststore([trusted], BestAvailableEncryption(password.encode()))


def copy_as_jks(store: Path, password_file: Path) -> Path:
    """Copy a PKCS12 store into a JKS store beside it, with the same password.

    Raises:
        UsageError: There is no Java, or it has no ``keytool``.
        MmtoolError: ``keytool`` failed.
    """
    copy = store.with_suffix(f".{StoreFormat.JKS.ending}")
    copy.unlink(missing_ok=True)
    binary = java_binary().resolve().with_name("keytool")
    passwords = str(password_file)  # in a file, because any user of the host may read arguments
    command: Sequence[str] = (
        *(str(binary), "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-importkeystore"),
        *("-srckeystore", str(store), "-srcstoretype", "PKCS12", "-srcstorepass:file", passwords),
        *("-destkeystore", str(copy), "-deststoretype", "JKS", "-deststorepass:file", passwords),
    )
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_KEYTOOL_SECONDS, check=False)
    except OSError as error:
        raise UsageError(
            f"{binary} cannot be run: {error.strerror}",
            remedy="install a Java runtime with keytool, which makes the lab's JKS stores",
            code="java",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise MmtoolError(
            f"keytool did not end within {_KEYTOOL_SECONDS:g} s",
            remedy="run the same command again when this host has less to do",
            code="keytool",
        ) from error
    if ran.returncode != 0:
        lines = (ran.stdout + ran.stderr).strip().splitlines()
        raise MmtoolError(
            f"keytool failed: {lines[0] if lines else ran.returncode}",
            remedy="set JAVA_HOME to another Java runtime, then run the same command again",
            code="keytool",
        )
    copy.chmod(0o600)
    return copy
