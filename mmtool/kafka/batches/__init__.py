"""Record batches: parsed in place, passed on with a new header, and rebuilt only where they must be.

Pure: no sockets, no clock. See docs/concepts/record-batches.md.
"""

from __future__ import annotations

from mmtool.kafka.batches.checksum import verify_crc
from mmtool.kafka.batches.compare import Comparison, RecordDifference, same_records
from mmtool.kafka.batches.header import (
    NO_PRODUCER_ID,
    SEQUENCES,
    BatchError,
    BatchHeader,
    BatchView,
    Codec,
    CorruptBatchError,
    OversizeRecordError,
    producer_ids,
    view_of,
)
from mmtool.kafka.batches.ready import ReadyBatch, Segment, as_is
from mmtool.kafka.batches.rebuild import RebuildReason, at_holes, coalesce, rebuild, rebuild_reason, split
from mmtool.kafka.batches.records import (
    NO_TIMESTAMP,
    AbortedFilter,
    Record,
    decode,
    iter_batches,
    raw_records,
)

__all__ = [
    "NO_PRODUCER_ID",
    "NO_TIMESTAMP",
    "SEQUENCES",
    "AbortedFilter",
    "BatchError",
    "BatchHeader",
    "BatchView",
    "Codec",
    "Comparison",
    "CorruptBatchError",
    "OversizeRecordError",
    "ReadyBatch",
    "RebuildReason",
    "Record",
    "RecordDifference",
    "Segment",
    "as_is",
    "at_holes",
    "coalesce",
    "decode",
    "iter_batches",
    "producer_ids",
    "raw_records",
    "rebuild",
    "rebuild_reason",
    "same_records",
    "split",
    "verify_crc",
    "view_of",
]
