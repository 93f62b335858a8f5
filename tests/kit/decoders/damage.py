"""Damage to a valid encoding, as data: hypothesis draws and shrinks it, and a fuzzer may make it too."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LONGEST = 64 << 10
_NUMBERS = (
    0,
    1,
    -1,
    2,
    -2,
    127,
    128,
    255,
    2**15 - 1,
    -(2**15),
    2**31 - 1,
    -(2**31),
    2**31,
    2**63 - 1,
    -(2**63),
)
_TOKENS = (
    b"null", b"true", b"-1", b"1e999", b"NaN", b"[]", b"{}", b'""', b'"x"', b'"\\ud800"', b"\\ud800", b"0",
    b"9" * 5000, b"1" * 30, b"[" * 5000, b'{"a":' * 2000, b"\xff" * 10, b"\x00", b"\xed\xa0\x80", b"\r\n", b"\\",
    b'"', b",", b"${env:", b"}", b"-----BEGIN ", b"(" * 3000, b"\xef\xbb\xbf", "\u0661".encode(), b"\x80" * 300,
)  # fmt: skip
_VALUES = re.compile(rb'-?\d+|"[^"]*"|true|false|null|\[[^\[\]]*\]')


class Edit(NamedTuple):
    """One change: its kind, where (in 65536ths of the length), and with what."""

    kind: int
    where: int
    what: int


_EDIT = struct.Struct(">BHI")
LONGEST_DAMAGE = 4 * _EDIT.size


def edits_of(damage: bytes) -> list[Edit]:
    """The changes that some bytes describe; a rest that is too short for one describes none."""
    whole = len(damage) - len(damage) % _EDIT.size
    return list(map(Edit._make, _EDIT.iter_unpack(damage[:whole])))


def damaged(sample: bytes, changes: Iterable[Edit]) -> bytes:
    """The sample after these changes, of at most 64 KiB more than it had."""
    limit = len(sample) + _LONGEST
    data = sample
    for edit in changes:
        data = _KINDS[edit.kind % len(_KINDS)](data, len(data) * edit.where >> 16, edit.what)[:limit]
    return data


def _flip(data: bytes, at: int, what: int) -> bytes:
    return data[:at] + bytes(byte ^ 1 << what % 8 for byte in data[at : at + 1]) + data[at + 1 :]


def _octet(data: bytes, at: int, what: int) -> bytes:
    return data[:at] + bytes((what % 256,)) + data[at + 1 :]


def _integer(width: int) -> Callable[[bytes, int, int], bytes]:
    def overwrite(data: bytes, at: int, what: int) -> bytes:
        number = _NUMBERS[what % len(_NUMBERS)] % (1 << 8 * width)
        return data[:at] + number.to_bytes(width) + data[at + width :]

    return overwrite


def _cut(data: bytes, at: int, _what: int) -> bytes:
    return data[:at]


def _extend(data: bytes, _at: int, what: int) -> bytes:
    return data + what.to_bytes(4) * (what % 17)


def _delete(data: bytes, at: int, what: int) -> bytes:
    return data[:at] + data[at + 1 + what % 64 :]


def _repeat(data: bytes, at: int, what: int) -> bytes:
    piece = data[at : at + 1 + what % 64]
    return data[:at] + piece * (2 + (what >> 8) % (2000 if what >> 30 else 4)) + data[at:]


def _insert(data: bytes, at: int, what: int) -> bytes:
    return data[:at] + _TOKENS[what % len(_TOKENS)] + data[at:]


def _replace(data: bytes, at: int, what: int) -> bytes:
    """Another value in the place of one of a text."""
    found = _VALUES.search(data, at) or _VALUES.search(data)
    if found is None:
        return _insert(data, at, what)
    return data[: found.start()] + _TOKENS[what % len(_TOKENS)] + data[found.end() :]


_KINDS = (
    _flip, _flip, _octet, _octet, _integer(1), _integer(2), _integer(4), _integer(4), _integer(8), _cut, _extend,
    _delete, _repeat, _insert, _replace, _replace,
)  # fmt: skip
