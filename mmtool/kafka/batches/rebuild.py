"""Batches that cannot, or should not, move as they are: decoded, joined, split, written densely."""

from __future__ import annotations

from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING

from mmtool.kafka.batches.encode import encode
from mmtool.kafka.batches.errors import OversizeRecordError
from mmtool.kafka.batches.header import Codec, view_of
from mmtool.kafka.batches.integrity import verify_crc
from mmtool.kafka.batches.ready import ReadyBatch, as_is
from mmtool.kafka.batches.reasons import rebuild_reason
from mmtool.kafka.batches.records import raw_records
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mmtool.kafka.batches.header import BatchView
    from mmtool.kafka.batches.records import RawRecord


def rebuild(
    views: Sequence[BatchView],
    *,
    position: UpstreamOffset,
    max_batch_bytes: int,
    without: Collection[int] = (),
) -> list[ReadyBatch]:
    """Write the records of consecutive views anew: dense, CreateTime, source codec, timestamps kept.

    Args:
        views: Consecutive admitted batches of one partition. A control batch adds no record. Where the codec
            changes, a new batch begins.
        position: Records below are dropped.
        max_batch_bytes: No batch is larger; header included.
        without: Upstream offsets of records to leave out (dead-lettered ones).

    Returns:
        Batches in order, the last one's ``upstream_next`` behind the last view. Empty when no record is left:
        the frontier then moves to the last view's ``next_offset`` all the same.

    Raises:
        CorruptBatchError: A checksum does not fit: writing a new one would hide that.
        BatchError: Records that cannot be read.
        OversizeRecordError: One record alone is above the limit.
    """
    batches: list[ReadyBatch] = []
    for codec, group in groupby(views, key=lambda view: view.header.codec):
        records = _wanted(list(group), position, without)
        if records:
            behind = UpstreamOffset(records[-1].offset + 1)
            batches += _fitting(records, codec, max_batch_bytes, behind)
    return _closed(batches, views)


def _wanted(views: Sequence[BatchView], position: int, without: Collection[int]) -> list[RawRecord]:
    records: list[RawRecord] = []
    for view in views:
        if view.header.is_control or view.header.is_empty:
            continue
        verify_crc(view)
        found = raw_records(view)
        if view.header.base_offset < position or without:
            found = [raw for raw in found if raw.offset >= position and raw.offset not in without]
        records += found
    return records


def _closed(batches: list[ReadyBatch], views: Sequence[BatchView]) -> list[ReadyBatch]:
    """Each batch ends where the next begins, the last one behind all views: what lies between is absent."""
    for batch, following in pairwise(batches):
        batch.upstream_next = following.upstream_start
    if batches:
        batches[-1].upstream_next = UpstreamOffset(views[-1].header.next_offset)
    return batches


def _fitting(
    records: Sequence[RawRecord], codec: Codec, limit: int, upstream_next: UpstreamOffset
) -> list[ReadyBatch]:
    batch = encode(records, codec, upstream_next)
    if batch.size <= limit:
        return [batch]
    if len(records) == 1:
        return [_alone(records, batch, limit)]
    cut = _middle(records)
    behind_first = UpstreamOffset(records[cut].offset)
    return [
        *_fitting(records[:cut], codec, limit, behind_first),
        *_fitting(records[cut:], codec, limit, upstream_next),
    ]


def _alone(records: Sequence[RawRecord], batch: ReadyBatch, limit: int) -> ReadyBatch:
    """A record that no codec can shrink may still fit as it is."""
    plain = encode(records, Codec.NONE, batch.upstream_next)
    if plain.size <= limit:
        return plain
    raise OversizeRecordError(batch.upstream_start, min(plain.size, batch.size), limit)


def _middle(records: Sequence[RawRecord]) -> int:
    """Where half of the bytes lie before; at least one record on both sides."""
    sums = list(accumulate(len(record.body) for record in records))
    past = next(index for index, total in enumerate(sums) if total * 2 >= sums[-1])
    return max(1, min(past, len(records) - 1))


def split(batch: ReadyBatch, *, max_batch_bytes: int) -> list[ReadyBatch]:
    """Answer to MESSAGE_TOO_LARGE: the same records in at least two unstamped batches.

    Args:
        batch: What the broker refused.
        max_batch_bytes: What it takes now, when known from the topic's configuration.

    Raises:
        OversizeRecordError: The batch is a single record.
    """
    if batch.record_count == 1:
        raise OversizeRecordError(batch.upstream_start, batch.size, max_batch_bytes)
    view = view_of(batch.payload)
    places = (segment.upstream_start + i for segment in batch.segments for i in range(segment.count))
    records = [record._replace(offset=place) for record, place in zip(raw_records(view), places, strict=True)]
    cut = _middle(records)
    return [
        *_fitting(records[:cut], view.header.codec, max_batch_bytes, UpstreamOffset(records[cut].offset)),
        *_fitting(records[cut:], view.header.codec, max_batch_bytes, batch.upstream_next),
    ]


def coalesce(
    views: Sequence[BatchView],
    *,
    position: UpstreamOffset,
    max_batch_bytes: int,
    target_bytes: int,
) -> list[ReadyBatch]:
    """The batches to produce for consecutive admitted views of one partition, none smaller than need be.

    A view of at least half ``target_bytes`` that can move as it is does; the others are joined, as long as
    they are neighbours of one codec and fit ``target_bytes`` together, and rebuilt. With 0, only what must
    be rebuilt is. Returns and raises as `rebuild`.
    """
    batches: list[ReadyBatch] = []
    for group in _groups(views, target_bytes):
        whole = len(group) == 1 and _moves(group[0], position, max_batch_bytes)
        batches += (
            [as_is(group[0])] if whole else rebuild(group, position=position, max_batch_bytes=max_batch_bytes)
        )
    return _closed(batches, views)


def _moves(view: BatchView, position: int, max_batch_bytes: int) -> bool:
    reason = rebuild_reason(view, position=position, max_batch_bytes=max_batch_bytes)
    return reason is None and not view.header.is_control


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
