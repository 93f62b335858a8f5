"""The format of a store's content, and how often its password is hashed, both read before it is opened."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    if length == 0x80:
        return _of_unknown_length(ber, tag, start, depth)
    if length > 0x80:
        size = length - 0x80
        start, length = start + size, int.from_bytes(ber[start : start + size], "big")
    if start + length > len(ber):
        return None
    return _Element(tag, ber[start : start + length], start + length)


def _of_unknown_length(ber: memoryview, tag: int, start: int, depth: int) -> _Element | None:
    """An element that ends with two zero bytes, as Java before version 8 and Bouncy Castle write stores."""
    at = start
    while (inner := _element(ber, at, depth + 1)) is not None:
        at = inner.end
        if inner.tag == 0:
            return _Element(tag, ber[start : at - 2], at)
    return None
