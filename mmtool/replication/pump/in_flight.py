"""A batch in flight to the target, the state of its produce request, and the signals that stop a worker's copier."""

from __future__ import annotations

import math
from enum import Enum, auto
from typing import TYPE_CHECKING

from mmtool.kafka.batches import SEQUENCES
from mmtool.kafka.errors import remedy_of_refusal
from mmtool.kafka.wire.codes import DENIED, Code, name_of
from mmtool.plan.topics.facts import missing_right
from mmtool.replication.topics.target_limits import RAISE
from mmtool.translation.types import UNKNOWN, DownstreamOffset

if TYPE_CHECKING:
    from mmtool.kafka.batches import ReadyBatch
    from mmtool.kafka.wire.produce import ProducedPartition


class FencedError(Exception):
    """Another owner claimed the shard: this worker must stop, and leave all that it still holds to that owner."""


class InDoubtError(Exception):
    """The target's answers do not say what it holds: recover by reading its log."""


NOBODY_KNOWS = (Code.DUPLICATE_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID)
"""Errors for a batch that is or was on the target, at an offset that the broker has forgotten."""

_OF_A_BATCH: dict[int, str] = {Code.CORRUPT_MESSAGE: "INVALID_RECORD"}
"""A broker's error for a batch whose bytes were checked here: it also stands for a record without a key."""

PERHAPS_APPENDED = (
    Code.REQUEST_TIMED_OUT,
    Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.KAFKA_STORAGE_ERROR,
)
"""Errors for a batch that the leader may have appended and followers may not: it may stay or be truncated.

A leader that appended it, and loses leadership or its disk while it waits for followers, answers the same as one that
never appended it."""


def refusal(sent: InFlightBatch, answer: ProducedPartition, topic: str) -> str:
    """The reason why target topic ``topic`` refused a batch, with the remedy where one is known."""
    if answer.error_code in DENIED:
        return missing_right(f"WRITE on target topic {topic}")
    where = f"the target refuses the batch at source offset {sent.batch.upstream_start}"
    why = f"{where}: {name_of(answer.error_code)} {answer.message}".rstrip()
    cause = _OF_A_BATCH.get(answer.error_code) or name_of(answer.error_code)
    way_on = remedy_of_refusal(cause, "the target", f"topic {topic}")
    return f"{why}: {way_on}" + (f", or set {RAISE}" if answer.error_code == Code.INVALID_TIMESTAMP else "")


NO_TIME = -math.inf
"""The time of records without timestamps, and of a batch that there is not: brokers have forgotten it already."""


class BatchState(Enum):
    """The state of one produce request."""

    PENDING = auto()
    APPENDED = auto()
    MISSING = auto()  # no answer, or one that says no, or later
    AGAIN = auto()  # missing, and every other answer is in: may be sent again


class InFlightBatch:
    """A batch with its sequence, from the first try until the target acknowledged it."""

    __slots__ = ("base_offset", "batch", "fate", "newest_ms", "sequence", "unsure")

    def __init__(self, batch: ReadyBatch, sequence: int) -> None:
        self.batch = batch
        self.newest_ms = NO_TIME if (newest := batch.max_timestamp_ms) is UNKNOWN else newest
        self.sequence = sequence
        self.fate = BatchState.PENDING
        self.unsure = False  # whether it may be on the target without our knowing
        self.base_offset = DownstreamOffset(0)

    @property
    def next_sequence(self) -> int:
        """The sequence number of the next batch after this one; it wraps as the broker's does."""
        return (self.sequence + self.batch.record_count) % SEQUENCES
