"""mmtool's own records as batches, for the topics that it writes over the batch wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.batches import Codec
from mmtool.kafka.batches.encode import encode
from mmtool.kafka.batches.records import RecordColumns, body_of
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.kafka.batches import ReadyBatch

_BATCH_BYTES = 512 << 10  # well below the default max.message.bytes of 1 MiB


def own_batches(records: Iterable[tuple[bytes, bytes | None]], timestamp_ms: int) -> list[ReadyBatch]:
    """(key, value) pairs as batches of at most half a MiB, in order; a null value is a tombstone."""
    batches: list[ReadyBatch] = []
    group: list[bytes] = []
    size = 0
    for key, value in records:
        body = body_of(key, value)
        if group and size + len(body) > _BATCH_BYTES:
            batches.append(_batch(group, timestamp_ms))
            group, size = [], 0
        group.append(body)
        size += len(body)
    if group:
        batches.append(_batch(group, timestamp_ms))
    return batches


def _batch(bodies: list[bytes], timestamp_ms: int) -> ReadyBatch:
    count = len(bodies)
    columns = RecordColumns(list(range(count)), [timestamp_ms] * count, [0] * count, bodies)
    return encode(columns, Codec.NONE, UpstreamOffset(count))
