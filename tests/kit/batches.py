"""Record batches for tests: a plain writer, independent of the data path's, and hypothesis strategies.

The writer makes what brokers store, valid or not: holes, markers, flags, odd timestamps. It is written to be
read, not to be fast, and shares no code with ``mmtool.kafka.batches``, which it is there to check.
"""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import cramjam
import google_crc32c
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
ABORT, COMMIT = 0, 1

Headers = tuple[tuple[bytes, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class PlainRecord:
    """A record at its offset in the log; timestamp in ms."""

    offset: int
    timestamp: int = 0
    key: bytes | None = None
    value: bytes | None = b""
    headers: Headers = ()
    attributes: int = 0


@dataclass(frozen=True, slots=True)
class PlainBatch:
    """A batch as a broker stores it; ``last_offset`` lies behind the last record when compaction took it."""

    base_offset: int
    last_offset: int
    records: tuple[PlainRecord, ...]
    codec: str = "none"
    flags: int = 0
    base_timestamp: int = 0
    max_timestamp: int = 0
    producer: tuple[int, int, int] = field(default=(-1, -1, -1))
    leader_epoch: int = 0

    def write(self) -> bytes:
        """The bytes, checksum included."""
        section = packed(self.codec, b"".join(self._record(record) for record in self.records))
        checked = struct.pack(
            ">hiqqqhii",
            CODECS[self.codec] | self.flags,
            self.last_offset - self.base_offset,
            self.base_timestamp,
            self.max_timestamp,
            *self.producer,
            len(self.records),
        )
        body = struct.pack(">ib", self.leader_epoch, 2) + _crc(checked + section) + checked + section
        return struct.pack(">qi", self.base_offset, len(body)) + body

    def _record(self, record: PlainRecord) -> bytes:
        delta = _as_long(record.timestamp - self.base_timestamp)
        parts = [
            bytes((record.attributes,)),
            zigzag(delta),
            zigzag(record.offset - self.base_offset),
            _nullable(record.key),
            _nullable(record.value),
            zigzag(len(record.headers)),
            *(_nullable(name) + _nullable(value) for name, value in record.headers),
        ]
        body = b"".join(parts)
        return zigzag(len(body)) + body


def batch_of(
    records: Sequence[PlainRecord],
    *,
    codec: str = "none",
    flags: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> PlainBatch:
    """The batch that a producer would make of these records; `replace` offsets as compaction does."""
    times = [record.timestamp for record in records]
    return PlainBatch(
        base_offset=records[0].offset,
        last_offset=records[-1].offset,
        records=tuple(records),
        codec=codec,
        flags=flags,
        base_timestamp=times[0],
        max_timestamp=max(times),
        producer=producer,
    )


def data(
    offset: int, count: int = 1, *, pid: int = -1, transactional: bool = False, codec: str = "none"
) -> bytes:
    """A dense batch of distinct records, plain or of a producer."""
    records = [PlainRecord(at, 1000 + at, b"k%d" % at, b"v%d" % at) for at in range(offset, offset + count)]
    flags = TRANSACTIONAL if transactional else 0
    return batch_of(records, codec=codec, flags=flags, producer=(pid, 0, 0)).write()


def marker(offset: int, pid: int, kind: int, epoch: int = 0) -> bytes:
    """A transaction marker: ``ABORT`` or ``COMMIT``."""
    record = PlainRecord(offset, 0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return batch_of([record], flags=CONTROL | TRANSACTIONAL, producer=(pid, epoch, -1)).write()


def zigzag(value: int) -> bytes:
    """A signed varint or varlong, as in protocol buffers."""
    bits = (value << 1) ^ (value >> 63)
    groups = [bits >> shift & 127 for shift in range(0, max(bits.bit_length(), 1), 7)]
    return bytes(group | 128 for group in groups[:-1]) + bytes((groups[-1],))


def _nullable(value: bytes | None) -> bytes:
    return zigzag(-1) if value is None else zigzag(len(value)) + value


def _as_long(value: int) -> int:
    """Java's overflow."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _crc(checked: bytes) -> bytes:
    crc: int = google_crc32c.value(checked)
    return crc.to_bytes(4, "big")


def packed(codec: str, section: bytes) -> bytes:
    """Compressed as Kafka's Java client frames it, with cramjam's and Python's own codecs."""
    if codec == "gzip":
        return gzip.compress(section)
    if codec == "snappy":
        blocks = [section[at : at + 32768] for at in range(0, len(section), 32768)]
        framed = b"".join(struct.pack(">i", len(b)) + b for b in map(_snappy, blocks))
        return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed
    if codec == "lz4":
        return _lz4(section)
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(section))
    return section


def _lz4(section: bytes) -> bytes:
    """Independent blocks: brokers refuse linked ones (KIP-57)."""
    compressor = cramjam.lz4.Compressor(block_linked=False)
    compressor.compress(section)
    return bytes(compressor.finish())


def _snappy(block: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(block))


# ------------------------------------------------------------------------------------------ strategies

_LONGS = (1 << 63) - 1
timestamps = st.one_of(
    st.integers(1_600_000_000_000, 1_800_000_000_000),
    st.sampled_from([0, -1, -2, 1, -_LONGS - 1, _LONGS, -62_135_596_800_000]),
    st.integers(-_LONGS - 1, _LONGS),
)
"""Plausible ones, and what a client may have written: zero, negative, nanoseconds, the limits of a long."""

byte_fields = st.one_of(st.none(), st.just(b""), st.binary(max_size=200))
"""Null, empty, and bytes: three different things."""

header_lists: st.SearchStrategy[Headers] = st.lists(
    st.tuples(st.one_of(st.just(b"h"), st.just(b"\xff\xfe"), st.binary(max_size=20)), byte_fields), max_size=4
).map(tuple)
"""Repeated names, names that are no UTF-8, empty names, null and empty values."""


# Built once: hypothesis is slow where a strategy is made anew for every draw.
_NO_GAP = st.just(0)
_GAPS = st.sampled_from([0, 0, 0, 1, 5])
_FIELDS = st.tuples(timestamps, byte_fields, byte_fields, header_lists, st.sampled_from([0, 0, 0, 1, 255]))
_CODECS = st.sampled_from(sorted(CODECS))
_FLAGS = st.sampled_from([0, TRANSACTIONAL, LOG_APPEND_TIME, DELETE_HORIZON])


@cache
def _lists(gaps: st.SearchStrategy[int], size: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.tuples(gaps, _FIELDS), min_size=1, max_size=size)


@st.composite
def plain_batches(
    draw: Any, *, base_offset: int = 0, max_records: int = 12, codec: str | None = None, dense: bool = False
) -> PlainBatch:
    """A batch as a log may hold it from ``base_offset`` on: any codec, with holes unless ``dense``."""
    gaps = _NO_GAP if dense else _GAPS
    offset, records = base_offset - 1, []
    for step, fields in draw(_lists(gaps, max_records)):
        offset += 1 + step
        records.append(PlainRecord(offset, *fields))
    widened = replace(
        batch_of(
            records,
            codec=codec or draw(_CODECS),
            flags=0 if dense else draw(_FLAGS),
        ),
        base_offset=base_offset,
        last_offset=offset + draw(gaps),
        leader_epoch=draw(st.integers(0, 1000)),
    )
    if widened.flags & (LOG_APPEND_TIME | DELETE_HORIZON):
        return replace(widened, base_timestamp=draw(timestamps), max_timestamp=draw(timestamps))
    return widened


@st.composite
def plain_logs(draw: Any, *, max_batches: int = 6, dense: bool = False) -> list[PlainBatch]:
    """Consecutive batches of one partition, with gaps between them unless ``dense``."""
    offset = draw(st.integers(0, 1 << 40))
    log: list[PlainBatch] = []
    for _ in range(draw(st.integers(1, max_batches))):
        log.append(draw(plain_batches(base_offset=offset, dense=dense)))
        offset = log[-1].last_offset + 1 + (0 if dense else draw(st.integers(0, 3)))
    return log
