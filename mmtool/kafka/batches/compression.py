"""Kafka's four codecs, compressed with aiokafka's framing: xerial for snappy, independent blocks for lz4 (KIP-57).

Decompression has a limit: a zstd batch of 30 KB can claim, and have, a gigabyte of records.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from mmap import MADV_DONTNEED, MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Any, Final

from mmtool.kafka.batches.header import LENGTH_FIELD, Codec

# Kafka's own defaults. aiokafka's are 9 and 9: for gzip and lz4 that is several times slower than a producer.
_GZIP_LEVEL: Final = 6
_LZ4_LEVEL: Final = 1

MOST_BYTES: Final = 256 << 20
"""Bytes that the records of one batch may have when they are decompressed.

Producers batch far less (Java's ``batch.size`` is 16 KB); brokers limit only the compressed size.
"""
_KEPT_BYTES: Final = 32 << 20
_XERIAL: Final = b"\x82SNAPPY\x00\x00\x00\x00\x01"
_XERIAL_HEADER: Final = len(_XERIAL) + 4  # and the oldest compatible version


class DecodedSizeError(ValueError):
    """Records that have more than `MOST_BYTES` when they are decompressed."""


def compress(codec: Codec, records: bytes) -> bytes:
    """Compress records with a codec, as a batch carries them."""
    return records if codec is Codec.NONE else _packers()[codec](records)


def decompress(codec: Codec, records: memoryview) -> bytes:
    """Decompress a batch's records; raises whatever the codec's library raises on garbage.

    Raises:
        ValueError: they have more than `MOST_BYTES`, or are no snappy.
    """
    if codec is Codec.NONE:
        return bytes(records)
    unpack = _unpackers()[codec]
    return _room().filled(lambda room: unpack(bytes(records), room))


class _Room(threading.local):
    """Memory for one decompressed batch at a time: its pages exist only once they are written.

    The pages of small batches are kept for the next one: new pages cost half of the decompression [measured].
    """

    def __init__(self) -> None:
        self._pages = mmap(-1, MOST_BYTES, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        self._view = memoryview(self._pages)

    def filled(self, unpack: Callable[[memoryview], int]) -> bytes:
        """The bytes that ``unpack`` wrote; it returns their number."""
        import cramjam

        size = MOST_BYTES
        try:
            size = unpack(self._view)
            return bytes(self._view[:size])
        except cramjam.DecompressionError as error:  # its only one
            if "whole buffer" in str(error) or "output buffer" in str(error):
                raise DecodedSizeError(
                    f"its decompressed records have more than {MOST_BYTES >> 20} MiB"
                ) from error
            raise
        finally:
            if size > _KEPT_BYTES:
                self._pages.madvise(MADV_DONTNEED)


@cache
def _room() -> _Room:
    return _Room()


@cache
def _packers() -> dict[Codec, Callable[[bytes], bytes]]:
    from aiokafka import codec as codecs  # loads the whole client

    return {
        Codec.GZIP: lambda records: codecs.gzip_encode(records, _GZIP_LEVEL),
        Codec.SNAPPY: codecs.snappy_encode,
        Codec.LZ4: lambda records: codecs.lz4_encode(records, _LZ4_LEVEL),
        Codec.ZSTD: codecs.zstd_encode,
    }


@cache
def _unpackers() -> dict[Codec, Callable[[bytes, memoryview], int]]:
    import cramjam

    return {
        Codec.GZIP: cramjam.gzip.decompress_into,
        Codec.SNAPPY: _unsnap,
        Codec.LZ4: cramjam.lz4.decompress_into,
        Codec.ZSTD: cramjam.zstd.decompress_into,
    }


def _unsnap(records: bytes, room: memoryview) -> int:
    """Decompress snappy: the blocks of Java's xerial framing, or one block without a frame."""
    import cramjam

    unpack: Callable[[Any, memoryview], int] = cramjam.snappy.decompress_raw_into
    if not records.startswith(_XERIAL):
        return unpack(records, room)
    packed, at, size = memoryview(records), _XERIAL_HEADER, 0
    while at < len(packed):
        (length,) = LENGTH_FIELD.unpack_from(packed, at)
        at += LENGTH_FIELD.size
        if not 0 < length <= len(packed) - at:
            raise ValueError(f"a snappy block of {length} bytes, but {len(packed) - at} are left")
        size += unpack(packed[at : at + length], room[size:])
        at += length
    return size
