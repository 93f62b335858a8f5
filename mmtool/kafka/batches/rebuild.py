"""Rebuild batches that cannot, or should not, be passed on unchanged: decode, join, split, encode densely."""

from __future__ import annotations

from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING

from mmtool.kafka.batches.encode import encode
from mmtool.kafka.batches.errors import OversizeRecordError
from mmtool.kafka.batches.header import Codec, view_of
from mmtool.kafka.batches.integrity import verify_crc
from mmtool.kafka.batches.ready import ReadyBatch, as_is
from mmtool.kafka.batches.reasons import rebuild_reason
from mmtool.kafka.batches.records import RecordColumns, read_columns
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mmtool.kafka.batches.header import BatchView


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
    if len(records) == 1:
        return [_alone(records, batch, limit)]
    return _halved(records, codec, limit, upstream_next)


def _halved(
    records: RecordColumns, codec: Codec, limit: int, upstream_next: UpstreamOffset
) -> list[ReadyBatch]:
    cut = _middle(records)
    return [
        *_fitting(records.part(0, cut), codec, limit, UpstreamOffset(records.offsets[cut])),
        *_fitting(records.part(cut, len(records)), codec, limit, upstream_next),
    ]


def _alone(records: RecordColumns, batch: ReadyBatch, limit: int) -> ReadyBatch:
    """Encode a single record without compression; raise `OversizeRecordError` if it is still too large."""
    plain = encode(records, Codec.NONE, batch.upstream_next)
    if plain.size <= limit:
        return plain
    raise OversizeRecordError(batch.upstream_start, min(plain.size, batch.size), limit)


def _middle(records: RecordColumns) -> int:
    """The index that splits the records into halves of about equal bytes, with at least one record in each."""
    sums = list(accumulate(map(len, records.bodies)))
    past = next(index for index, total in enumerate(sums) if total * 2 >= sums[-1])
    return max(1, min(past, len(records) - 1))


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
