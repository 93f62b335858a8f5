"""Convert certificates and keys between DER objects and PEM text, and find what is wrong with them."""

from __future__ import annotations

import base64
import contextlib
import re
import warnings
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mmtool.keystores.formats import MOST_ITERATIONS, iterations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

_BODY = r"[^-]*+(?:-(?!----)[^-]*+)*+"  # what is between two lines of hyphens
_KEY = re.compile(rf"-----BEGIN ([A-Z ]*PRIVATE KEY)-----{_BODY}-----END \1-----")
_CERTIFICATE = re.compile(r"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----")
_CERTIFICATE_BLOCK = re.compile(rf"-----BEGIN ((?:X509 )?CERTIFICATE)-----{_BODY}-----END \1-----")

CHECK_CLOCKS = (
    "check the clocks of this host and of the brokers; if they are right, issue the certificate again"
)
"""The remedy for a certificate that is not valid yet."""


def has_certificate(text: str) -> bool:
    """Whether a PEM text holds a certificate."""
    return _CERTIFICATE.search(text) is not None


def has_key(text: str) -> bool:
    """Whether a PEM text holds a private key."""
    return "PRIVATE KEY-----" in text


def asks_too_much(text: str) -> bool:
    """Whether the private key of a PEM text asks for more iterations than `MOST_ITERATIONS`."""
    found = _KEY.search(text)
    if found is None:
        return False
    lines = found[0].splitlines()[1:-1]
    with contextlib.suppress(ValueError):
        return iterations(base64.b64decode("".join(lines))) > MOST_ITERATIONS
    return False


def opens(text: str, password: str | None) -> bool:
    """Whether a password decrypts the private key of a PEM text; True where only OpenSSL can tell."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    found = _KEY.search(text)
    if found is None or "ENCRYPTED" not in found[0]:
        return True
    if not password:
        return False
    try:
        load_pem_private_key(found[0].encode(), password.encode())
    except UnsupportedAlgorithm:
        return True
    except (ValueError, TypeError):
        return False
    return True


def certificates_in(text: str) -> tuple[Certificate, ...]:
    """The readable certificates of a PEM text; about others OpenSSL decides when it connects."""
    found = (_certificate(block[0]) for block in _CERTIFICATE_BLOCK.finditer(text))
    return tuple(certificate for certificate in found if certificate is not None)


def _certificate(block: str) -> Certificate | None:
    from cryptography.x509 import load_pem_x509_certificate

    return _loaded(load_pem_x509_certificate, block.encode())


def _loaded(load: Callable[[bytes], Certificate], content: bytes) -> Certificate | None:
    from cryptography.x509 import InvalidVersion

    with contextlib.suppress(ValueError, InvalidVersion), warnings.catch_warnings(action="ignore"):
        return load(content)
    return None


def out_of_date(certificate: Certificate) -> str:
    """``certificate CN=... expired on DATE``, or that it is not valid yet; empty when it is valid now."""
    now = datetime.now(UTC)
    end, start = certificate.not_valid_after_utc, certificate.not_valid_before_utc
    if end < now:
        return f"certificate {subject_of(certificate)} expired on {end:%Y-%m-%d %H:%M} UTC"
    if start > now:
        return f"certificate {subject_of(certificate)} is not valid before {start:%Y-%m-%d %H:%M} UTC"
    return ""


def has_expired(certificate: Certificate) -> bool:
    """Whether a certificate is past its dates."""
    return certificate.not_valid_after_utc < datetime.now(UTC)


def renewal(certificate: Certificate) -> str:
    """What to do about a certificate that `out_of_date` names."""
    if has_expired(certificate):
        return "renew the certificate"
    return CHECK_CLOCKS


def first_expiry(text: str) -> datetime | None:
    """The earliest expiry of the certificates of a PEM text; None where none can be read."""
    return min((one.not_valid_after_utc for one in certificates_in(text)), default=None)


def subject_of(certificate: Certificate) -> str:
    """The subject's name, as ``CN=mm``; its serial number where it has no name, or none that can be decoded."""
    with contextlib.suppress(ValueError):
        return certificate.subject.rfc4514_string() or f"number {certificate.serial_number}"
    return f"number {certificate.serial_number}"


def der_certificate(content: bytes) -> Certificate | None:
    """The certificate that a peer presented, from DER; None where it cannot be read."""
    from cryptography.x509 import load_der_x509_certificate

    return _loaded(load_der_x509_certificate, content)


def leaf_subject(text: str) -> str:
    """The subject of the first certificate of a PEM text; empty where none can be read."""
    found = certificates_in(text)
    return subject_of(found[0]) if found else ""


def missing_issuer(certificates: Sequence[Certificate]) -> str:
    """The name of an issuer whose certificate is not among these, of which none is its own issuer.

    Of a chain file this is the root; of a bundle with several, that of the first certificate.
    """
    subjects = {certificate.subject for certificate in certificates}
    outside = [one.issuer for one in certificates if one.issuer not in subjects]
    return (outside or [certificates[0].issuer])[0].rfc4514_string()


def is_self_issued(certificate: Certificate) -> bool:
    """Whether a certificate is its own issuer, as roots are; True where its names cannot be decoded."""
    try:
        return certificate.issuer == certificate.subject
    except ValueError:
        return True


def chain_of(leaf: Certificate, others: Sequence[Certificate]) -> list[Certificate]:
    """A certificate and its issuers, in order; certificates of other chains are left out.

    All certificates where a name cannot be decoded.
    """
    try:
        return _issuers_in_order(leaf, others)
    except ValueError:
        return [leaf, *others]


def _issuers_in_order(leaf: Certificate, others: Sequence[Certificate]) -> list[Certificate]:
    """The chain from ``leaf`` to its last known issuer; raises ValueError where a name cannot be decoded."""
    chain, left = [leaf], list(others)
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((other for other in left if other.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        left.remove(issuer)
        chain.append(issuer)
    return chain


def certificates_pem(certificates: Sequence[Certificate]) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def key_pem(key: PrivateKeyTypes) -> str:
    """A private key as unencrypted PKCS8 in PEM, which librdkafka and OpenSSL read."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
