"""A certificate authority of the lab, and the certificates that it issues. Keys are of the curve P-256."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, ExtensionType, Name

LIFETIME = timedelta(days=3650)
_CLOCK_SKEW = timedelta(hours=1)
_HOSTS = ("localhost",)
_ADDRESSES = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its private key."""

    certificate: Certificate
    key: EllipticCurvePrivateKey = field(repr=False)

    def certificate_pem(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding

        return self.certificate.public_bytes(Encoding.PEM)

    def key_pem(self) -> bytes:
        """The private key, unencrypted, as PKCS8: the form that Kafka asks for."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority: a peer that trusts its certificate trusts the certificates that it has issued."""

    own: Issued

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
        return cls(Issued(_signed(_name(name), key, _name(name), key, LIFETIME, extensions), key))

    def issue(self, name: str, lifetime: timedelta = LIFETIME) -> Issued:
        """A certificate for ``CN=<name>``, valid for clients and for servers on this host."""
        from cryptography.x509 import (
            BasicConstraints,
            DNSName,
            ExtendedKeyUsage,
            IPAddress,
            SubjectAlternativeName,
        )
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = _new_key()
        names = [
            *(DNSName(host) for host in _HOSTS),
            *(IPAddress(ipaddress.ip_address(address)) for address in _ADDRESSES),
        ]
        usage = ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        extensions = [
            (BasicConstraints(ca=False, path_length=None), True),
            (SubjectAlternativeName(names), False),
            (usage, False),
        ]
        issuer = self.own.certificate.subject
        return Issued(_signed(_name(name), key, issuer, self.own.key, lifetime, extensions), key)


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> Name:
    from cryptography.x509 import Name, NameAttribute
    from cryptography.x509.oid import NameOID

    return Name([NameAttribute(NameOID.COMMON_NAME, common_name)])


def _signed(
    subject: Name,
    key: EllipticCurvePrivateKey,
    issuer: Name,
    issuer_key: EllipticCurvePrivateKey,
    lifetime: timedelta,
    extensions: Sequence[tuple[ExtensionType, bool]],
) -> Certificate:
    """A certificate that is valid from an hour ago; ``extensions`` come with whether they are critical."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256

    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
    )
    identifiers = (
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
    )
    for extension, critical in (*extensions, *((identifier, False) for identifier in identifiers)):
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuer_key, SHA256())
