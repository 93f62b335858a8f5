"""CRC-32C, how it changes with the front of a message, and the check where records are copied."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import cache, reduce
from operator import xor
from typing import Final, TypeAlias

import google_crc32c

from mmtool.kafka.batches.header import CHECKED_FROM, MAGIC, BatchView, CorruptBatchError
from mmtool.kafka.batches.records import legacy_crc_fits

crc32c: Callable[[bytes], int] = google_crc32c.value
extend: Callable[[int, bytes], int] = google_crc32c.extend
"""CRC-32C of bytes that continue others: ``extend(crc32c(a), b) == crc32c(a + b)``.

`extend` and `crc32c` want `bytes`: they refuse a bytearray or a memoryview."""

_STEP: Final = 4096
_ZEROS: Final = bytes(_STEP)
_ONES: Final = 0xFFFFFFFF
_LARGE: Final = 256  # steps of 4 KiB in one step of 1 MiB

Matrix: TypeAlias = "tuple[array[int], array[int], array[int], array[int]]"
"""For each of a checksum's four bytes (least significant first), the result for each of its 256 values."""


def push(difference: int, count: int) -> int:
    """The difference (XOR) of two checksums after ``count`` more bytes that are the same on both sides.

    ``push(crc32c(a) ^ crc32c(b), len(tail)) == crc32c(a + tail) ^ crc32c(b + tail)`` for equally long a and
    b.
    """
    steps, odd = divmod(count, _STEP)
    if odd:
        difference = _push_short(difference, _ZEROS[:odd])
    if steps:
        larges, smalls = divmod(steps, _LARGE)
        if smalls:
            difference = _apply(_matrix(smalls), difference)
        for _ in range(larges):
            difference = _apply(_matrix(_LARGE), difference)
    return difference


def _push_short(difference: int, zeros: bytes) -> int:
    """Push a difference through zeros with the library, whose checksums are inverted at both ends."""
    return extend(difference ^ _ONES, zeros) ^ _ONES


def _apply(matrix: Matrix, value: int) -> int:
    lowest, low, high, highest = matrix
    return lowest[value & 255] ^ low[value >> 8 & 255] ^ high[value >> 16 & 255] ^ highest[value >> 24]


@cache
def _matrix(steps: int) -> Matrix:
    """The matrix that pushes a difference through ``steps`` times 4 KiB of zeros; at most 257 of 4 KiB each."""
    if steps == 1:
        return _tabulate([_push_short(1 << bit, _ZEROS) for bit in range(32)])
    half = _matrix(steps // 2)
    columns = [_apply(half, _apply(half, 1 << bit)) for bit in range(32)]
    if steps % 2:
        columns = [_apply(_matrix(1), column) for column in columns]
    return _tabulate(columns)


def _tabulate(columns: list[int]) -> Matrix:
    first, second, third, fourth = (
        array("I", (_sum(columns[at : at + 8], value) for value in range(256))) for at in range(0, 32, 8)
    )
    return first, second, third, fourth


def _sum(columns: list[int], value: int) -> int:
    return reduce(xor, (column for bit, column in enumerate(columns) if value >> bit & 1), 0)


def verify_crc(view: BatchView) -> None:
    """Check a batch's records against its own checksum.

    A batch that is copied as it is does not need it: `ReadyBatch.stamp` carries the checksum over, and the target's
    broker checks it. A batch that is rebuilt or exported gets a new checksum, which would hide the damage.

    Raises:
        CorruptBatchError: the checksum does not fit; the message names the offsets.
    """
    header = view.header
    current = header.magic == MAGIC
    if not (header.crc == crc32c(bytes(view.memory[CHECKED_FROM:])) if current else legacy_crc_fits(view)):
        raise CorruptBatchError(
            f"offsets {header.base_offset} to {header.last_offset}: the checksum of the batch is wrong",
            header.next_offset,
        )
