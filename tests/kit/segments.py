"""What a broker of the lab has on disk, read by the book: the log's bytes themselves, no client between.

Clients hide what a mirror must keep: the codec of a batch, header names that are no UTF-8, which records are
absent. Independent of ``mmtool.kafka.batches``, as the writer in ``kit.batches`` is.
"""

from __future__ import annotations

import gzip
import struct
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import cramjam
import google_crc32c

from kit.batches import CODECS, CONTROL, PlainBatch, PlainRecord

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mmtool.lab.cluster import Cluster

    Edit = Callable[[list[PlainRecord]], list[PlainRecord]]

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CODEC_NAMES = {number: name for name, number in CODECS.items()}
_CODEC_BITS = 0x07


def stored_batches(cluster: Cluster, topic: str, partition: int, broker: int = 0) -> list[PlainBatch]:
    """Every batch of a partition as a broker stores it, markers included."""
    folder = cluster.directory / f"broker-{broker}" / "data" / f"{topic}-{partition}"
    while True:
        with suppress(FileNotFoundError):  # the cleaner swaps segments under our hands
            return [batch for segment in sorted(folder.glob("*.log")) for batch in batches_in(segment)]


def stored_bytes(cluster: Cluster, topic: str, broker: int = 0) -> int:
    """The size of a topic's logs on a broker, all its partitions together."""
    found = (cluster.directory / f"broker-{broker}" / "data").glob(f"{topic}-[0-9]*/*.log")
    return sum(segment.stat().st_size for segment in found)


def data_batches(cluster: Cluster, topic: str, partition: int) -> list[PlainBatch]:
    """As ``stored_batches``, without transaction markers and without batches that compaction emptied."""
    stored = stored_batches(cluster, topic, partition)
    return [batch for batch in stored if batch.records and not batch.flags & CONTROL]


def batches_in(segment: Path) -> list[PlainBatch]:
    """Every batch of one file of a log."""
    data = segment.read_bytes()
    found, at = [], 0
    while at + _HEADER.size <= len(data):
        length = int.from_bytes(data[at + 8 : at + 12], "big") + 12
        if length <= 12 or at + length > len(data):
            break  # preallocated, or being written
        found.append(_batch(data[at : at + length]))
        at += length
    return found


def _batch(data: bytes) -> PlainBatch:
    base, _, epoch, magic, crc, flags, last, first_ms, max_ms, pid, pid_epoch, sequence, count = (
        _HEADER.unpack_from(data)
    )
    assert magic == 2
    assert crc == google_crc32c.value(data[21:])
    codec = _CODEC_NAMES[flags & _CODEC_BITS]
    reader = _Reader(unpacked(codec, data[_HEADER.size :]))
    return PlainBatch(
        base_offset=base,
        last_offset=base + last,
        records=tuple(reader.record(base, first_ms) for _ in range(count)),
        codec=codec,
        flags=flags & ~_CODEC_BITS,
        base_timestamp=first_ms,
        max_timestamp=max_ms,
        producer=(pid, pid_epoch, sequence),
        leader_epoch=epoch,
    )


def unpacked(codec: str, section: bytes) -> bytes:
    """The records of a batch, whatever codec it has."""
    if codec == "gzip":
        return gzip.decompress(section)
    if codec == "snappy":
        return _unsnapped(section)
    if codec == "lz4":
        return bytes(cramjam.lz4.decompress(section))
    if codec == "zstd":
        return bytes(cramjam.zstd.decompress(section))
    return section


def _unsnapped(section: bytes) -> bytes:
    """Raw snappy, as librdkafka writes it, or Java's frames around it."""
    if not section.startswith(b"\x82SNAPPY\x00"):
        return bytes(cramjam.snappy.decompress_raw(section))
    blocks, at = [], 16
    while at < len(section):
        size = int.from_bytes(section[at : at + 4], "big")
        blocks.append(bytes(cramjam.snappy.decompress_raw(section[at + 4 : at + 4 + size])))
        at += 4 + size
    return b"".join(blocks)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def record(self, base_offset: int, base_timestamp: int) -> PlainRecord:
        self._varint()
        attributes = self._take(1)[0]
        timestamp = base_timestamp + self._varint()
        offset = base_offset + self._varint()
        key, value = self._nullable(), self._nullable()
        headers = tuple((self._nullable() or b"", self._nullable()) for _ in range(self._varint()))
        return PlainRecord(offset, timestamp, key, value, headers, attributes)

    def _nullable(self) -> bytes | None:
        length = self._varint()
        return None if length < 0 else self._take(length)

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken

    def _varint(self) -> int:
        bits = shift = 0
        while True:
            octet = self._take(1)[0]
            bits |= (octet & 127) << shift
            shift += 7
            if octet < 128:
                return (bits >> 1) ^ -(bits & 1)


def edit_log(cluster: Cluster, topic: str, partition: int, edit: Edit, broker: int = 0) -> None:
    """Rewrite the newest segment of a partition of a broker that is down, as no client can: checksums are right.

    A batch left empty is dropped.

    Args:
        cluster: Stopped.
        topic: Whose log.
        partition: Likewise.
        edit: From all records of the segment to those that are to be there. Records stay in the batch in whose range
            of offsets they lie.
        broker: Whose.
    """
    folder = cluster.directory / f"broker-{broker}" / "data" / f"{topic}-{partition}"
    segment = max(folder.glob("*.log"))
    batches = batches_in(segment)
    records = edit([record for batch in batches for record in batch.records])
    written = b""
    for batch in batches:
        mine = tuple(r for r in records if batch.base_offset <= r.offset <= batch.last_offset)
        if mine:
            times = [record.timestamp for record in mine]
            last = batch.last_offset if mine[-1].offset != batch.records[-1].offset else mine[-1].offset
            written += replace(batch, records=mine, last_offset=last, max_timestamp=max(times)).write()
    segment.write_bytes(written)
    for index in (*folder.glob("*.index"), *folder.glob("*.timeindex")):
        index.unlink()
