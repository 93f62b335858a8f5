"""What logs hold: record batches of every format, transaction markers, MirrorMaker 2's records, commit records."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import google_crc32c
from aiokafka.record import legacy_records

from kit.batches import ABORT, CODECS, COMMIT, LOG_APPEND_TIME, PlainRecord, batch_of, data, marker
from kit.decoders.table import Decoder, packed, parts
from mmtool.kafka.batches import (
    AbortedFilter,
    BatchError,
    coalesce,
    decode,
    iter_batches,
    producer_ids,
    rebuild_reason,
    same_records,
    verify_crc,
)
from mmtool.kafka.batches.records import is_abort_marker
from mmtool.kafka.groups.coordinators import commit_of
from mmtool.kafka.state.own_log import foreign_records
from mmtool.plan.groups.outside_offsets import is_of_streams
from mmtool.translation.connect_offsets import decode_position
from mmtool.translation.mm2_records import (
    Checkpoint,
    Heartbeat,
    OffsetSync,
    decode_checkpoint,
    decode_heartbeat,
    decode_offset_sync,
)
from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLACE = TopicPartition("orders", 3)
_BATCHES = "mmtool.kafka.batches"
_READING = tuple(f"{_BATCHES}.{name}" for name in ("header", "records", "compression", "checksum"))
_MM2 = "mmtool.translation.mm2_records"


def rows() -> Iterator[Decoder]:
    bad = (BatchError,)
    yield Decoder("record batches", _READING, _batches, _read_batches, bad, sealed_batches)
    yield Decoder("messages of formats 0 and 1", _READING, old_messages, _read_batches, bad, sealed_batches)
    yield Decoder(
        "batches to rebuild",
        (f"{_BATCHES}.rebuild", f"{_BATCHES}.ready"),
        _batches,
        _rebuild,
        bad,
        sealed_batches,
    )
    yield Decoder("batches to compare", (f"{_BATCHES}.compare",), _batches, _compare, bad, sealed_batches)
    yield Decoder("transaction markers", (f"{_BATCHES}.records",), _markers, _filter, bad, sealed_batches)
    yield Decoder("producer ids", (f"{_BATCHES}.header",), _batches, producer_ids)
    yield Decoder("records of MM2's topics", ("mmtool.kafka.state.own_log",), _batches, _foreign, bad)
    yield Decoder("offset syncs", (_MM2,), _syncs, lambda data: decode_offset_sync(*_record(data)))
    yield Decoder("checkpoints", (_MM2,), _checkpoints, lambda data: decode_checkpoint(*_record(data)))
    yield Decoder("heartbeats", (_MM2,), _heartbeats, lambda data: decode_heartbeat(*_record(data)))
    yield Decoder(
        "Connect's offsets",
        ("mmtool.translation.connect_offsets", "mmtool.translation.connect_offsets"),
        _positions,
        lambda data: decode_position(*_record(data), "east", "west"),
    )
    yield Decoder("keys of commit records", ("mmtool.kafka.groups.coordinators",), _commit_keys, commit_of)
    yield Decoder("metadata of commits", ("mmtool.plan.groups.outside_offsets",), _metadata, _read_metadata)


def _batches() -> Iterator[bytes]:
    headers = ((b"name", b"value"), (b"\xff", None))
    records = [PlainRecord(5 + at, 1000 * at, b"key", b"value" * at, headers) for at in range(3)]
    for codec in CODECS:
        yield batch_of(records, codec=codec).write()
        yield data(0, 40, pid=7, codec=codec) + data(40, 2, codec=codec)
    yield batch_of(records, flags=LOG_APPEND_TIME).write()
    yield batch_of([PlainRecord(5, 1, None, None), PlainRecord(9, -5, b"", b"")]).write()


def _markers() -> Iterator[bytes]:
    yield data(0, 2, pid=7, transactional=True) + marker(2, 7, ABORT) + data(3, 2) + marker(5, 8, COMMIT)


def old_messages() -> Iterator[bytes]:
    """Formats 0 and 1, plain and compressed."""
    for magic in (0, 1):
        for codec in (0, 1, 2, 3)[: 4 if magic else 3]:
            builder = legacy_records.LegacyRecordBatchBuilder(magic, codec, 1 << 20)
            for at in range(3):
                builder.append(at, timestamp=50 + at, key=b"k" * at, value=None if at == 1 else b"value")
            yield bytes(builder.build())


def sealed_batches(damaged: bytes) -> bytes:
    """The batches with lengths and checksums that fit what is there, of any format."""
    sealed = b""
    while len(damaged) >= 61:
        (length,) = struct.unpack_from(">i", damaged, 8)
        size = length + 12 if 49 <= length <= len(damaged) - 12 else len(damaged)
        sealed += _sealed(damaged[:size])
        damaged = damaged[size:]
    return sealed + damaged


def _sealed(batch: bytes) -> bytes:
    head = batch[:8] + struct.pack(">i", len(batch) - 12)
    if batch[16] < 2:
        return head + zlib.crc32(batch[16:]).to_bytes(4) + batch[16:]
    checksum: int = google_crc32c.value(batch[21:])
    return head + batch[12:17] + checksum.to_bytes(4) + batch[21:]


def _read_batches(data: bytes) -> None:
    for view in iter_batches(data):
        rebuild_reason(view, position=3, max_batch_bytes=1 << 20)
        list(decode(view))
        verify_crc(view)


def _rebuild(data: bytes) -> None:
    views = list(iter_batches(data))
    for batch in coalesce(
        views, position=UpstreamOffset(6), max_batch_bytes=1 << 20, target_bytes=1 << 16, without=(7,)
    ):
        assert len(batch.payload) <= 1 << 20


def _compare(data: bytes) -> None:
    views = list(iter_batches(data))
    same_records(views, UpstreamOffset(0), views, 1 << 31)
    same_records(views, UpstreamOffset(6), list(iter_batches(next(_batches()))), 10)


def _filter(data: bytes) -> None:
    admitted = AbortedFilter([(7, 0), (8, 4)])
    for view in iter_batches(data):
        admitted.admits(view)
        if view.header.is_control:
            is_abort_marker(view)


def _foreign(data: bytes) -> None:
    foreign_records(iter_batches(data))


def _record(data: bytes) -> tuple[bytes | None, bytes | None]:
    key, value = parts(data)
    return key or None, value or None


def _syncs() -> Iterator[bytes]:
    sync = OffsetSync(_PLACE, UpstreamOffset(700), DownstreamOffset(12))
    yield packed(sync.key(), sync.value())


def _checkpoints() -> Iterator[bytes]:
    for text in ("", "metadata"):
        found = Checkpoint("group", _PLACE, UpstreamOffset(700), DownstreamOffset(12), text)
        yield packed(found.key(), found.value())


def _heartbeats() -> Iterator[bytes]:
    beat = Heartbeat("east", "west", 1_780_000_000_000)
    yield packed(beat.key(), beat.value())


def _positions() -> Iterator[bytes]:
    place = {"cluster": "east", "partition": 3, "topic": "orders"}
    for name in ("MirrorSourceConnector", "east->west.MirrorSourceConnector"):
        for value in ({"offset": 700}, None):
            yield packed(json.dumps([name, place]).encode(), json.dumps(value).encode())


def _commit_keys() -> Iterator[bytes]:
    yield struct.pack(">hh5sh6si", 1, 5, b"group", 6, b"orders", 3)
    yield struct.pack(">hh5s", 2, 5, b"group")


def _metadata() -> Iterator[bytes]:
    for raw in (b"\x01" + bytes(8), b"\x02" + bytes(20), b"n\x00\x01\x00\x02"):
        yield b64encode(raw)


def _read_metadata(data: bytes) -> Any:
    return is_of_streams(data.decode("utf-8", "replace"))
