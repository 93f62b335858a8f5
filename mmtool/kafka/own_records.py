"""mmtool's own records as batches, for the topics that it writes over the batch wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.batches import Codec, RawRecord
from mmtool.kafka.batches.encode import encode
from mmtool.kafka.batches.records import body_of
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.kafka.batches import ReadyBatch

_BATCH_BYTES = 512 << 10  # well below the default max.message.bytes of 1 MiB


def own_batches(records: Iterable[tuple[bytes, bytes | None]], timestamp_ms: int) -> list[ReadyBatch]:
    """(key, value) pairs as batches of at most half a MiB, in order; a null value is a tombstone."""
    batches: list[ReadyBatch] = []
    group: list[RawRecord] = []
    size = 0
    for key, value in records:
        body = body_of(key, value)
        if group and size + len(body) > _BATCH_BYTES:
            batches.append(_batch(group))
            group, size = [], 0
        group.append(RawRecord(len(group), timestamp_ms, 0, body))
        size += len(body)
    if group:
        batches.append(_batch(group))
    return batches


def _batch(records: list[RawRecord]) -> ReadyBatch:
    return encode(records, Codec.NONE, UpstreamOffset(len(records)))
