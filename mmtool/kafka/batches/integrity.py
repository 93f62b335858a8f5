"""Verify a batch's checksum where mmtool writes its records into another batch or file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.batches.checksum import crc32c
from mmtool.kafka.batches.errors import CorruptBatchError
from mmtool.kafka.batches.header import CHECKED_FROM, MAGIC
from mmtool.kafka.batches.legacy import legacy_crc_fits

if TYPE_CHECKING:
    from mmtool.kafka.batches.header import BatchView


def verify_crc(view: BatchView) -> None:
    """Check a batch's records against its own checksum.

    A batch that is copied as it is does not need it: `ReadyBatch.stamp` carries the checksum over, and the target's
    broker checks it. A batch that is rebuilt or exported gets a new checksum, which would hide the damage.

    Raises:
        CorruptBatchError: the checksum does not fit; the message names the offsets.
    """
    header = view.header
    current = header.magic == MAGIC
    if not (header.crc == crc32c(bytes(view.memory[CHECKED_FROM:])) if current else legacy_crc_fits(view)):
        raise CorruptBatchError(
            f"offsets {header.base_offset} to {header.last_offset}: the checksum of the batch is wrong",
            header.next_offset,
        )
