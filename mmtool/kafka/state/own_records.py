"""Encode mmtool's own records as batches, for the topics that it writes over the batch wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool import __version__
from mmtool.kafka.batches import BatchError, Codec, decode
from mmtool.kafka.batches.encode import encode
from mmtool.kafka.batches.records import RecordColumns, body_of
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.kafka.batches import BatchView, ReadyBatch, Record

Headers = tuple[tuple[bytes, bytes | None], ...]

MARK: Headers = ((b"mmtool", __version__.encode()),)
"""The header of mmtool's heartbeats, offset syncs and checkpoints; MirrorMaker 2's have none (decision 16).

MM2's readers look at keys and values only."""

_BATCH_BYTES = 512 << 10  # well below the default max.message.bytes of 1 MiB


def own_batches(
    records: Iterable[tuple[bytes, bytes | None]], timestamp_ms: int, headers: Headers = ()
) -> list[ReadyBatch]:
    """Encode (key, value) pairs as batches of at most half a MiB, in order; a null value is a tombstone.

    Each record gets the same ``headers``. A single record that is larger is compressed: otherwise a broker would refuse
    the journal entry of a group with some thousand partitions.
    """
    batches: list[ReadyBatch] = []
    group: list[bytes] = []
    size = 0
    for key, value in records:
        body = body_of(key, value, headers)
        if group and size + len(body) > _BATCH_BYTES:
            batches.append(_batch(group, timestamp_ms))
            group, size = [], 0
        group.append(body)
        size += len(body)
    if group:
        batches.append(_batch(group, timestamp_ms))
    return batches


def foreign_records(views: Iterable[BatchView]) -> list[Record]:
    """The records of an MM2 topic that mmtool did not write; a batch that cannot be read is left out.

    A batch has one writer, so its first record's headers decide.
    """
    found: list[Record] = []
    for view in views:
        try:
            records = [] if view.header.is_control else list(decode(view))
        except BatchError:
            continue
        if records and MARK[0][0] not in dict(records[0].headers):
            found += records
    return found


def _batch(bodies: list[bytes], timestamp_ms: int) -> ReadyBatch:
    count = len(bodies)
    columns = RecordColumns(list(range(count)), [timestamp_ms] * count, [0] * count, bodies)
    codec = Codec.ZSTD if sum(map(len, bodies)) > _BATCH_BYTES else Codec.NONE
    return encode(columns, codec, UpstreamOffset(count))
