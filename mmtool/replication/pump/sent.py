"""One batch on its way to the target, and what became of it."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from mmtool.kafka.batches import SEQUENCES
from mmtool.kafka.wire.codes import Code
from mmtool.translation.types import DownstreamOffset

if TYPE_CHECKING:
    from mmtool.kafka.batches import ReadyBatch


NOBODY_KNOWS = (Code.DUPLICATE_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID)
"""The batch is there, or was, and the broker has forgotten where."""

PERHAPS_APPENDED = (Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""The leader has it, and followers may not: it may stay or go."""


class Fate(Enum):
    """What became of one produce request."""

    PENDING = auto()
    APPENDED = auto()
    MISSING = auto()  # no answer, or one that says no, or later
    AGAIN = auto()  # missing, and every other answer is in: may be sent again


class Sent:
    """A batch with its sequence, from the first try until the target acknowledged it."""

    __slots__ = ("base_offset", "batch", "fate", "sequence", "unsure")

    def __init__(self, batch: ReadyBatch, sequence: int) -> None:
        self.batch = batch
        self.sequence = sequence
        self.fate = Fate.PENDING
        self.unsure = False  # whether it may be on the target without our knowing
        self.base_offset = DownstreamOffset(0)

    @property
    def next_sequence(self) -> int:
        """Of the batch behind this one; it wraps as the broker's does."""
        return (self.sequence + self.batch.record_count) % SEQUENCES
