"""Unsigned LEB128 varints (as in KIP-107's records, without zigzag), one at a time and by the column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mmtool.translation.errors import UnreadableStateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mmtool.translation.runs import Offsets

_LONGEST = 9  # 63 bits: what a signed int64 offset can hold
_COLUMN_PAYS = 48  # values from which numpy beats the loop [measured]


def put_varint(out: bytearray, value: int) -> None:
    """Append ``value`` (0 to 2^63 - 1) to ``out``."""
    if value < 0:
        raise ValueError(f"{value} is negative: a varint here has no sign")
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def take_varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at index ``at``, and the index after it.

    Raises IndexError at the end of ``data``, ValueError when over-long.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift >= 7 * _LONGEST:
            raise ValueError("a varint longer than 63 bits")


def encode_column(values: Offsets) -> bytes:
    """The varints of all values, one after the other."""
    if len(values) < _COLUMN_PAYS:
        return _encode_each(values.tolist())
    lengths = np.ones(len(values), dtype=np.int64)
    for going, _ in _septets_after_the_first(values):
        lengths[going] += 1
    starts = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), dtype=np.uint8)
    out[starts] = _octets(values)
    for place, (going, rest) in enumerate(_septets_after_the_first(values), 1):
        out[starts[going] + place] = _octets(rest)
    return out.tobytes()


def _septets_after_the_first(values: Offsets) -> Iterator[tuple[Offsets, Offsets]]:
    """For each further septet the indexes of the values that have it, and their remaining bits."""
    going = np.flatnonzero(values > 0x7F)
    rest = values[going] >> 7
    while len(going):
        yield going, rest
        further = rest > 0x7F
        going, rest = going[further], rest[further] >> 7


def _octets(values: Offsets) -> Offsets:
    """The lowest septet of each value, with its high bit set where more septets follow."""
    return (values & 0x7F) | ((values > 0x7F) << 7)


def _encode_each(values: Iterable[int]) -> bytes:
    out = bytearray()
    for value in values:
        put_varint(out, value)
    return bytes(out)


def decode_columns(parts: Sequence[bytes], counts: Sequence[int]) -> Offsets:
    """The values of several columns of varints, one after the other; each part holds exactly its own count.

    Raises:
        UnreadableStateError: A part does not; the error does not name it.
    """
    octets = np.frombuffer(b"".join(parts), dtype=np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    last = np.cumsum(np.array(counts, dtype=np.int64))  # values up to and with each part
    total = int(last[-1]) if len(last) else 0
    bounds = np.cumsum(np.fromiter(map(len, parts), dtype=np.int64, count=len(parts)))
    if len(ends) != total or not np.array_equal(np.concatenate([[-1], ends])[last] + 1, bounds):
        raise UnreadableStateError(
            "varint column", f"its parts should hold {total} numbers as its header says, and do not"
        )
    return _gathered(octets, ends) if total else np.zeros(0, dtype=np.int64)


def _gathered(octets: np.typing.NDArray[np.uint8], ends: Offsets) -> Offsets:
    """The values whose varints end at the indexes ``ends``.

    It adds the first septet of each value, then the next one of those that have one, and so forth: soon these are few.
    """
    starts = np.concatenate([[0], ends[:-1] + 1])
    longest = int((ends - starts).max()) + 1
    if longest > _LONGEST:
        raise UnreadableStateError("varint column", f"a value of {longest} bytes")
    septets = (octets & 0x7F).astype(np.int64)
    values = septets.take(starts)
    going = np.flatnonzero(starts != ends)
    at = starts.take(going)
    for place in range(1, longest):
        at += 1
        values[going] |= septets.take(at) << (7 * place)
        further = at < ends.take(going)
        going, at = going[further], at[further]
    return values
