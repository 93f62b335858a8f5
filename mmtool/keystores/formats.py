"""Detect the format of a store by its content: Java reads JKS and PKCS12 under either name as well."""

from __future__ import annotations

from enum import Enum

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
        return Format.PKCS12 if _sequence_content(content).startswith(_PKCS12_VERSION) else Format.DER
    return Format.EMPTY if not content.strip() else Format.UNKNOWN


def _sequence_content(content: bytes) -> bytes:
    """The first bytes inside the outermost DER sequence."""
    length = content[1]
    start = 2 + (length - _LONG_LENGTH if length >= _LONG_LENGTH else 0)
    return content[start : start + len(_PKCS12_VERSION)]
