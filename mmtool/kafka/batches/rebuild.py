"""Rebuild batches that cannot, or should not, be passed on unchanged: why, and how: decode, join, split, encode."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from itertools import accumulate, groupby, pairwise
from typing import Final

from mmtool.kafka.batches.checksum import crc32c, verify_crc
from mmtool.kafka.batches.compression import compress
from mmtool.kafka.batches.header import (
    CHECKED_FROM,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC,
    BatchView,
    Codec,
    OversizeRecordError,
    view_of,
)
from mmtool.kafka.batches.ready import ReadyBatch, Segment, as_is, sealed
from mmtool.kafka.batches.records import (
    TABLED,
    RecordColumns,
    as_longs,
    read_columns,
    short_varints,
    varint,
)
from mmtool.translation.types import UpstreamOffset

_SPECIAL_TIME: Final = LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT


class RebuildReason(StrEnum):
    """Why a batch has to be decoded and encoded again."""

    OLD_MAGIC = "old_magic"
    """Message format 0 or 1: brokers accept format 2 only."""

    STARTS_BEFORE_POSITION = "starts_before_position"
    """The batch contains records before the wanted offset: a fetch returns the whole batch around an offset."""

    HOLES = "holes"
    """Compacted, perhaps to no record: brokers refuse it as an inconsistent offset range (error 87)."""

    LOG_APPEND_TIME = "log_append_time"
    """Brokers accept a batch with this flag, but its timestamps become its records' create times."""

    DELETE_HORIZON = "delete_horizon"
    """The base timestamp is the deletion time that the source's log cleaner stored (KIP-534)."""

    TOO_LARGE = "too_large"
    """Above the target's ``max.message.bytes``: it must be split."""


def rebuild_reason(view: BatchView, *, position: int, max_batch_bytes: int) -> RebuildReason | None:
    """The reason why a data batch must be rebuilt; None where it moves as it is.

    Args:
        view: A batch that is no control batch.
        position: The next upstream offset wanted.
        max_batch_bytes: The target's limit for a batch, header included.
    """
    header = view.header
    if (
        header.last_offset_delta + 1 == header.record_count
        and header.base_offset >= position
        and header.length + LOG_OVERHEAD <= max_batch_bytes
        and not header.attributes & _SPECIAL_TIME
        and header.magic == MAGIC
    ):
        return None
    if header.magic != MAGIC:
        return RebuildReason.OLD_MAGIC
    if header.base_offset < position:
        return RebuildReason.STARTS_BEFORE_POSITION
    if header.last_offset_delta + 1 != header.record_count:
        return RebuildReason.HOLES
    if header.is_log_append_time:
        return RebuildReason.LOG_APPEND_TIME
    return RebuildReason.DELETE_HORIZON if header.has_delete_horizon else RebuildReason.TOO_LARGE


def encode(records: RecordColumns, codec: Codec, upstream_next: UpstreamOffset) -> ReadyBatch:
    """Encode records (at least one) as one CreateTime batch with offset deltas 0, 1, 2, ...

    The base timestamp is the first record's, as every producer writes it.
    """
    times, count = records.timestamps, len(records)
    packed = compress(codec, _section(records, range(count)))
    payload = sealed(packed, codec, count, times[0], max(times))
    return ReadyBatch(payload, count, segments_of(records.offsets), upstream_next)


def with_records(view: BatchView, records: RecordColumns) -> BatchView:
    """The batch with these records, which may be none, instead of its own, at their offsets: as compaction leaves one.

    Its producer, its codec and its last offset stay; it has format 2 and the records' own times.
    """
    header, count = view.header, len(records)
    first = records.timestamps[0] if count else header.base_timestamp
    newest = max(records.timestamps) if count else header.max_timestamp
    places = [offset - header.base_offset for offset in records.offsets]
    packed = compress(header.codec, _section(records, places) if count else b"")
    fields = header._replace(
        length=HEADER_SIZE + len(packed) - LOG_OVERHEAD,
        magic=MAGIC,
        crc=0,
        attributes=header.attributes & ~_SPECIAL_TIME,
        base_timestamp=first,
        max_timestamp=newest,
        record_count=count,
    )
    octets = bytearray(HEADER_SIZE) + packed
    HEADER.pack_into(octets, 0, *fields)
    crc = crc32c(bytes(octets[CHECKED_FROM:]))
    octets[CRC_AT:CHECKED_FROM] = crc.to_bytes(4, "big")
    return BatchView(fields._replace(crc=crc), memoryview(octets))


def _section(records: RecordColumns, places: Iterable[int]) -> bytes:
    """Encode the records section of a batch, uncompressed, with these offset deltas.

    Paid per record: table look-ups, and one join for all copies.
    """
    table, base = short_varints(), records.timestamps[0]
    deltas = as_longs([timestamp - base for timestamp in records.timestamps])
    parts: list[bytes] = []
    keep = parts.append
    for delta, place, attributes, body in zip(
        deltas, places, records.attributes, records.bodies, strict=True
    ):
        bits = delta << 1 if delta >= 0 else ~(delta << 1)
        time = table[bits] if bits < TABLED else varint(bits)
        index = table[place << 1] if place << 1 < TABLED else varint(place << 1)
        length = (1 + len(time) + len(index) + len(body)) << 1
        keep(table[length] if length < TABLED else varint(length))
        keep(table[attributes] if attributes < 128 else bytes((attributes,)))
        keep(time)
        keep(index)
        keep(body)
    return b"".join(parts)


def segments_of(offsets: Sequence[int]) -> tuple[Segment, ...]:
    """Split ascending source offsets into contiguous ranges."""
    count = len(offsets)
    if offsets[-1] - offsets[0] + 1 == count:
        return (Segment(UpstreamOffset(offsets[0]), count),)
    starts = [0, *(i for i in range(1, count) if offsets[i] != offsets[i - 1] + 1), count]
    return tuple(Segment(UpstreamOffset(offsets[start]), stop - start) for start, stop in pairwise(starts))


def rebuild(
    views: Sequence[BatchView],
    *,
    position: UpstreamOffset,
    max_batch_bytes: int,
    without: Collection[int] = (),
) -> list[ReadyBatch]:
    """Re-encode the records of consecutive batches: dense, CreateTime, source codec, timestamps kept.

    Args:
        views: Consecutive admitted batches of one partition. A control batch adds no record. Where the codec
            changes, a new batch begins.
        position: Records before this source offset are dropped.
        max_batch_bytes: The largest batch, header included.
        without: Upstream offsets of records to leave out (dead-lettered ones).

    Returns:
        Batches in order, the last one's ``upstream_next`` after the last view. Empty when no record is left:
        the frontier then moves to the last view's ``next_offset`` all the same.

    Raises:
        CorruptBatchError: a checksum does not fit: writing a new one would hide that.
        BatchError: records cannot be read.
        OversizeRecordError: one record alone is above the limit.
    """
    batches: list[ReadyBatch] = []
    for codec, group in groupby(views, key=lambda view: view.header.codec):
        records = _wanted(list(group), position, without)
        if records:
            behind = UpstreamOffset(records.offsets[-1] + 1)
            batches += _fitting(records, codec, max_batch_bytes, behind)
    return _closed(batches, views)


def _wanted(views: Sequence[BatchView], position: int, without: Collection[int]) -> RecordColumns:
    records = RecordColumns()
    for view in views:
        if view.header.is_control or view.header.is_empty:
            continue
        verify_crc(view)
        found = read_columns(view)
        whole = view.header.base_offset >= position and not without
        records.extend(found if whole else found.wanted(position, without))
    return records


def _closed(batches: list[ReadyBatch], views: Sequence[BatchView]) -> list[ReadyBatch]:
    """Set each batch's ``upstream_next`` to the next one's start, the last one's to the end of all views."""
    for batch, following in pairwise(batches):
        batch.upstream_next = following.upstream_start
    if batches:
        batches[-1].upstream_next = UpstreamOffset(views[-1].header.next_offset)
    return batches


def _fitting(
    records: RecordColumns, codec: Codec, limit: int, upstream_next: UpstreamOffset
) -> list[ReadyBatch]:
    batch = encode(records, codec, upstream_next)
    if batch.size <= limit:
        return [batch]
    if len(records) > 1:
        return _halved(records, codec, limit, upstream_next)
    plain = encode(records, Codec.NONE, upstream_next)
    if plain.size <= limit:
        return [plain]
    raise OversizeRecordError(batch.upstream_start, min(plain.size, batch.size), limit)


def _halved(
    records: RecordColumns, codec: Codec, limit: int, upstream_next: UpstreamOffset
) -> list[ReadyBatch]:
    """Encode the records in parts of about equal bytes, with at least one record in each, until all fit."""
    sums = list(accumulate(map(len, records.bodies)))
    past = next(index for index, total in enumerate(sums) if total * 2 >= sums[-1])
    cut = max(1, min(past, len(records) - 1))
    return [
        *_fitting(records.part(0, cut), codec, limit, UpstreamOffset(records.offsets[cut])),
        *_fitting(records.part(cut, len(records)), codec, limit, upstream_next),
    ]


def split(batch: ReadyBatch, *, max_batch_bytes: int) -> list[ReadyBatch]:
    """Split a batch that the broker refused with MESSAGE_TOO_LARGE into at least two unstamped batches.

    Args:
        batch: The batch that the broker refused.
        max_batch_bytes: The topic's limit now, where its configuration is known.

    Raises:
        OversizeRecordError: the batch is a single record.
    """
    if batch.record_count == 1:
        raise OversizeRecordError(batch.upstream_start, batch.size, max_batch_bytes)
    records, codec = _columns_of(batch)
    return _halved(records, codec, max_batch_bytes, batch.upstream_next)


def _columns_of(batch: ReadyBatch) -> tuple[RecordColumns, Codec]:
    """A batch's records with their source offsets, and its codec."""
    view = view_of(batch.payload)
    records = read_columns(view)
    records.offsets = [segment.upstream_start + i for segment in batch.segments for i in range(segment.count)]
    return records, view.header.codec


def at_holes(batch: ReadyBatch) -> list[ReadyBatch]:
    """Split a batch wherever two neighbours of its records are none on the source."""
    if len(batch.segments) == 1:
        return [batch]
    (records, codec), at, parts = _columns_of(batch), 0, []
    for start, count in batch.segments:
        parts.append(encode(records.part(at, at + count), codec, UpstreamOffset(start + count)))
        at += count
    return parts


def coalesce(
    views: Sequence[BatchView],
    *,
    position: UpstreamOffset,
    max_batch_bytes: int,
    target_bytes: int,
    without: Collection[int] = (),
) -> list[ReadyBatch]:
    """The batches to produce for consecutive admitted views of a partition: small ones joined, others as they are.

    A view of at least half ``target_bytes`` moves as it is where it can. The others are joined and rebuilt, as long as
    they are neighbours of one codec and fit ``target_bytes`` together. With 0, only views that must be rebuilt are.
    The other arguments, the result and the errors are those of `rebuild`.
    """
    batches: list[ReadyBatch] = []
    for group in _groups(views, target_bytes):
        if len(group) == 1 and _moves(group[0], position, max_batch_bytes, without):
            batches.append(as_is(group[0]))
        else:
            batches += rebuild(group, position=position, max_batch_bytes=max_batch_bytes, without=without)
    return _closed(batches, views)


def _moves(view: BatchView, position: int, max_batch_bytes: int, without: Collection[int]) -> bool:
    header = view.header
    return (
        rebuild_reason(view, position=position, max_batch_bytes=max_batch_bytes) is None
        and not header.is_control
        and not any(header.base_offset <= offset < header.next_offset for offset in without)
    )


def _groups(views: Sequence[BatchView], target_bytes: int) -> list[list[BatchView]]:
    groups: list[list[BatchView]] = []
    room = 0
    for view in views:
        small = view.header.size * 2 < target_bytes
        if small and view.header.size <= room and view.header.codec == groups[-1][-1].header.codec:
            groups[-1].append(view)
            room -= view.header.size
        else:
            groups.append([view])
            room = target_bytes - view.header.size if small else 0
    return groups
