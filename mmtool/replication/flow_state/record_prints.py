"""Fingerprints of a log's records, by which records of two logs are matched."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from mmtool.kafka.batches.records import read_columns
from mmtool.translation.derive import Logged

if TYPE_CHECKING:
    from mmtool.kafka.batches import BatchView

_SPREAD = np.int64(0x9E3779B97F4A7C15 - (1 << 64))


@dataclass(slots=True)
class RecordPrints:
    """Surviving records by column: 24 bytes each.

    Attributes:
        keeps_time: Every batch has its producers' timestamps (CreateTime), none its broker's (LogAppendTime).
    """

    offsets: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))
    bodies: array[int] = field(default_factory=lambda: array("q"))
    keeps_time: bool = True

    def take(self, view: BatchView, position: int = 0) -> None:
        """Add a batch's records from offset ``position`` on.

        Raises:
            BatchError: The batch cannot be read.
        """
        records = read_columns(view)
        if view.header.base_offset < position:
            records = records.wanted(position, ())
        self.offsets.extend(records.offsets)
        self.times.extend(records.timestamps)
        self.bodies.extend(map(hash, map(bytes, records.bodies)))
        self.keeps_time &= not view.header.is_log_append_time

    def logged(self, *, timed: bool) -> Logged:
        """The records with fingerprints of 64 bits, which include the timestamps if ``timed``."""
        prints = np.array(self.bodies, dtype=np.int64)
        if timed:
            prints ^= np.array(self.times, dtype=np.int64) * _SPREAD
        return Logged(np.array(self.offsets, dtype=np.int64), prints)
