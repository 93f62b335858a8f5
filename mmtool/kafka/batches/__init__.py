"""Record batches: read where they lie, re-addressed as they are, rebuilt where they must be.

Pure: no sockets, no clock. See docs/concepts/record-batches.md.
"""

from __future__ import annotations

from mmtool.kafka.batches.errors import BatchError, CorruptBatchError, OversizeRecordError
from mmtool.kafka.batches.header import BatchHeader, BatchView, Codec, iter_batches, view_of
from mmtool.kafka.batches.integrity import verify_crc
from mmtool.kafka.batches.ready import ReadyBatch, Segment, as_is
from mmtool.kafka.batches.reasons import RebuildReason, rebuild_reason

__all__ = [
    "BatchError",
    "BatchHeader",
    "BatchView",
    "Codec",
    "CorruptBatchError",
    "OversizeRecordError",
    "ReadyBatch",
    "RebuildReason",
    "Segment",
    "as_is",
    "iter_batches",
    "rebuild_reason",
    "verify_crc",
    "view_of",
]
