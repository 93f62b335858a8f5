"""The content of a store or key file: its format, how often its password is hashed, and its certificates and keys.

Format and iterations are read before anything is opened; certificates and keys are DER objects or PEM text.
"""

from __future__ import annotations

import base64
import contextlib
import re
import warnings
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate


_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_JCEKS_MAGIC = b"\xce\xce\xce\xce"
_BKS_STARTS = (b"\0\0\0\1\0\0\0\x14", b"\0\0\0\2\0\0\0\x14")  # version, then the length of the salt
_DER_SEQUENCE = 0x30
_LONG_LENGTH = 0x80
_PKCS12_VERSION = b"\x02\x01\x03"
PEM_START = b"-----BEGIN "


class Format(Enum):
    """The value is the format's name in messages."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"
    JCEKS = "JCEKS"
    BKS = "BKS"
    DER = "DER"
    EMPTY = "empty"
    UNKNOWN = "unknown"


def detect_format(content: bytes) -> Format:
    """The format of a file that was configured as a store, by its content."""
    if content.startswith(_JKS_MAGIC):
        return Format.JKS
    if content.startswith(_JCEKS_MAGIC):
        return Format.JCEKS
    if content.startswith(_BKS_STARTS):
        return Format.BKS
    if PEM_START in content:
        return Format.PEM
    if content[:1] == bytes([_DER_SEQUENCE]) and len(content) > 4:
        length = content[1]
        within = 2 + (length - _LONG_LENGTH if length >= _LONG_LENGTH else 0)
        return Format.PKCS12 if content.startswith(_PKCS12_VERSION, within) else Format.DER
    return Format.EMPTY if not content.strip() else Format.UNKNOWN


# --- how often an encrypted store or key has its password hashed, read before anything is hashed ---------

MOST_ITERATIONS = 5_000_000
"""Java refuses a PKCS12 store above it (``sun.security.pkcs12.PKCS12KeyStore``); OpenSSL would run for hours."""
TOO_MANY = f"more than {MOST_ITERATIONS:,} iterations to derive its key, which Java refuses as well"
"""What a store or a key asks for above the limit, in a sentence for the user."""
_OCTET_STRING, _INTEGER = 0x04, 0x02
_CONSTRUCTED = 0x20
_DEPTH = 24
"""A PKCS12 store shows its counts at depth 16."""


class _Element(NamedTuple):
    """One BER element; ``end`` is the offset behind it."""

    tag: int
    content: memoryview
    end: int


def iterations(ber: bytes) -> int:
    """The largest iteration count that a PKCS12 store or PKCS8 key shows outside its encrypted parts; 0 if none.

    PBES1 (RFC 8018, A.3), PBKDF2 (A.2) and the MAC of PKCS12 (RFC 7292, 4) give the count as an INTEGER right after
    the OCTET STRING with the salt. The count of a key inside an encrypted part is unknown until the password opens it.
    """
    return max(_counts(memoryview(ber), 0), default=0)


def _counts(ber: memoryview, depth: int) -> Iterator[int]:
    """The counts of a content, up to the first element that is damaged: whoever opens the store says so."""
    at = before = 0
    while depth < _DEPTH and (element := _element(ber, at, 0)) is not None and element.tag:
        if element.tag == _INTEGER and before == _OCTET_STRING:
            yield int.from_bytes(element.content, "big", signed=True)
        elif element.tag & _CONSTRUCTED or (
            element.tag == _OCTET_STRING and element.content[:1].tobytes() == b"0"
        ):
            yield from _counts(element.content, depth + 1)
        at, before = element.end, element.tag


def _element(ber: memoryview, at: int, depth: int) -> _Element | None:
    if at + 2 > len(ber) or depth > _DEPTH:
        return None
    tag, length, start = ber[at], ber[at + 1], at + 2
    if length == 0x80:  # it ends with two zero bytes, as Java before version 8 and Bouncy Castle write stores
        behind = start
        while (inner := _element(ber, behind, depth + 1)) is not None:
            behind = inner.end
            if inner.tag == 0:
                return _Element(tag, ber[start : behind - 2], behind)
        return None
    if length > 0x80:
        size = length - 0x80
        start, length = start + size, int.from_bytes(ber[start : start + size], "big")
    if start + length > len(ber):
        return None
    return _Element(tag, ber[start : start + length], start + length)


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
    from cryptography.x509 import load_pem_x509_certificate

    blocks = (block[0].encode() for block in _CERTIFICATE_BLOCK.finditer(text))
    found = (_loaded(load_pem_x509_certificate, block) for block in blocks)
    return tuple(certificate for certificate in found if certificate is not None)


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
    chain, left = [leaf], list(others)
    try:
        while chain[-1].issuer != chain[-1].subject:
            issuer = next((other for other in left if other.subject == chain[-1].issuer), None)
            if issuer is None:
                break
            left.remove(issuer)
            chain.append(issuer)
    except ValueError:
        return [leaf, *others]
    return chain


def certificates_pem(certificates: Sequence[Certificate]) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def key_pem(key: PrivateKeyTypes) -> str:
    """A private key as unencrypted PKCS8 in PEM, which librdkafka and OpenSSL read."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
