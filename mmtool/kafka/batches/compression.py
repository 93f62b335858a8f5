"""Kafka's four codecs over aiokafka's framing: xerial for snappy, independent blocks for lz4 (KIP-57)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from mmtool.kafka.batches.header import Codec

if TYPE_CHECKING:
    from collections.abc import Callable

# Kafka's own defaults. aiokafka's are 9 and 9: for gzip and lz4 that is several times slower than a producer.
_GZIP_LEVEL: Final = 6
_LZ4_LEVEL: Final = 1


def compress(codec: Codec, records: bytes) -> bytes:
    """Compress records with a codec, as a batch carries them."""
    return records if codec is Codec.NONE else _packers()[codec](records)


def decompress(codec: Codec, records: memoryview) -> bytes:
    """Decompress a batch's records; raises whatever the codec's library raises on garbage."""
    plain = bytes(records)
    return plain if codec is Codec.NONE else _unpackers()[codec](plain)


@cache
def _packers() -> dict[Codec, Callable[[bytes], bytes]]:
    codecs = _aiokafka_codecs()
    return {
        Codec.GZIP: lambda records: codecs.gzip_encode(records, _GZIP_LEVEL),
        Codec.SNAPPY: codecs.snappy_encode,
        Codec.LZ4: lambda records: codecs.lz4_encode(records, _LZ4_LEVEL),
        Codec.ZSTD: codecs.zstd_encode,
    }


@cache
def _unpackers() -> dict[Codec, Callable[[bytes], bytes]]:
    codecs = _aiokafka_codecs()
    return {
        Codec.GZIP: codecs.gzip_decode,
        Codec.SNAPPY: codecs.snappy_decode,
        Codec.LZ4: codecs.lz4_decode,
        Codec.ZSTD: codecs.zstd_decode,
    }


def _aiokafka_codecs() -> Any:
    from aiokafka import codec  # loads the whole client

    return codec
