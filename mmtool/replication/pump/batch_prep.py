"""Batches on their way to the target: joined, passed on unchanged or split, then in flight until acknowledged."""

from __future__ import annotations

import math
from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING

from mmtool.kafka.batches import (
    SEQUENCES,
    AbortedFilter,
    BatchError,
    BatchView,
    OversizeRecordError,
    ReadyBatch,
    coalesce,
    iter_batches,
    rebuild,
    split,
)
from mmtool.kafka.batches.header import OTHER_LEADER, CorruptBatchError, LargeBatchError
from mmtool.kafka.errors import remedy_of_refusal
from mmtool.kafka.wire.codes import DENIED, Code, name_of
from mmtool.plan.flow.moves import seek_to
from mmtool.plan.topics.configs import RAISE
from mmtool.plan.topics.facts import missing_right
from mmtool.translation.types import UNKNOWN, DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mmtool.kafka.wire.produce import ProducedPartition
    from mmtool.replication.spark.assignment import PartitionAssignment


_COALESCED_BYTES = 64 << 10
_FEW_RECORDS = 16
_ANY_SIZE = (1 << 31) - 1


class DeadLetter(ReadyBatch):
    """One record too large for the target in any batch: it keeps its place in the queue and is never sent."""

    __slots__ = ()

    @classmethod
    def of(cls, batch: ReadyBatch) -> DeadLetter:
        """A dead letter made of a batch of one record."""
        return cls(batch.payload, batch.record_count, batch.segments, batch.upstream_next)


class Fill:
    """Consecutive offsets without a record, from ``upstream_start`` on, in the queue of batches.

    Attributes:
        left: How many markers are still to be written.
        upstream_next: As of a batch.
    """

    __slots__ = ("left", "upstream_next", "upstream_start")
    size = record_count = 0

    def __init__(self, upstream_start: UpstreamOffset, upstream_next: UpstreamOffset) -> None:
        self.upstream_start = upstream_start
        self.upstream_next = upstream_next
        self.left = upstream_next - upstream_start

    def extend(self, upstream_next: UpstreamOffset) -> None:
        """Reach further; only before its first marker is written."""
        self.left += upstream_next - self.upstream_next
        self.upstream_next = upstream_next

    def split(self, count: int) -> Fill:
        """Its first ``count`` offsets, which it does not have any more."""
        first = Fill(self.upstream_start, UpstreamOffset(self.upstream_start + count))
        self.upstream_start, self.left = first.upstream_next, self.left - count
        return first


class Unsent(deque[ReadyBatch | Fill]):
    """The batches to send, in order; in a mirror with the source's own offsets also the fills between them.

    A. Behind a dead letter nothing is sent before the stored offset runs have passed it: a recovery that compares
       unrecorded records would find a record on the source that the target does not have. Nor is a record with
       another offset than on the source before they say that there are such ones, by which a recovery knows whom to
       fence.

    Attributes:
        letters_to: The source offset up to which dead letters were written, or records got the source's own offsets.
        stored_to: The source offset up to which offset runs are stored on the target.
    """

    letters_to = stored_to = 0

    @property
    def awaits_books(self) -> bool:
        """Whether sending waits until the stored offset runs have passed the last dead letter (A)."""
        return self.letters_to > self.stored_to

    @property
    def goes(self) -> bool:
        """Whether the next batch may be sent now: it is no dead letter, and A does not hold it back."""
        return bool(self) and not isinstance(self[0], (DeadLetter, Fill)) and not self.awaits_books

    def drop(self) -> int:
        """Discard all batches, and return their size in bytes."""
        freed = sum(batch.size for batch in self)
        self.clear()
        return freed

    @property
    def letter(self) -> DeadLetter | None:
        """The next batch if it is a dead letter, else None."""
        return self[0] if self and isinstance(self[0], DeadLetter) else None

    @property
    def fill(self) -> Fill | None:
        """What is next if it is a fill that may be written, else None."""
        return self[0] if self and isinstance(self[0], Fill) and not self.awaits_books else None


def judge(
    records: memoryview, aborted: Iterable[tuple[int, int]]
) -> tuple[list[tuple[BatchView, bool]], BatchError | None]:
    """The batches of a fetch answer, each with whether it is data, and the error that ended reading, if any.

    Batches that were read before are judged too: two connections may bring the same batches, and a batch that was read
    before may be the marker that ends an abort.
    """
    admitted = AbortedFilter(aborted)
    judged: list[tuple[BatchView, bool]] = []
    try:
        judged.extend((view, admitted.admits(view)) for view in iter_batches(records))
    except BatchError as error:
        return judged, error
    return judged, None


def prepared(
    views: Sequence[BatchView],
    *,
    position: UpstreamOffset,
    max_batch_bytes: int,
    goal_bytes: int,
    dead_letters: bool,
) -> Iterator[ReadyBatch]:
    """Yield the batches to send for ``views``, in order: joined, unchanged or split.

    Args:
        views: Consecutive batches.
        position: Records below are dropped.
        max_batch_bytes: The largest batch that the target accepts.
        goal_bytes: The batch size that fills a long link; 0 on a short one, where small batches are not joined for it.
        dead_letters: Whether a record that is too large becomes a dead letter, in its place.

    Raises:
        BatchError: The next record cannot be sent; every batch before it was yielded.
    """
    try:
        batches = _joined(views, position, max_batch_bytes, goal_bytes)
    except BatchError:
        for view in views:
            yield from _taken_apart(view, position, max_batch_bytes, dead_letters=dead_letters)
            position = UpstreamOffset(max(position, view.header.next_offset))
    else:
        yield from batches


def shrunk(batch: ReadyBatch, max_batch_bytes: int, *, dead_letters: bool) -> list[ReadyBatch]:
    """Split a batch for a target whose limit is lower than it reported; raises as `split`.

    A batch of one record becomes a dead letter if ``dead_letters``.
    """
    if batch.record_count == 1 and dead_letters:
        return [DeadLetter.of(batch)]
    return split(batch, max_batch_bytes=max_batch_bytes)


def why(error: BatchError, partition: PartitionAssignment) -> str:
    """The reason why a batch of a partition cannot be mirrored, and the remedy, in one sentence for the operator."""
    if isinstance(error, OversizeRecordError):
        return f"{error.message}: {error.remedy}, or set mmtool.on.oversize = dead-letter"
    if isinstance(error, LargeBatchError):
        return f"{error.message}, and must decode this one to split or cut it: {_left_out(partition, error)}"
    return f"{error.message}: {damaged(partition, error)}"


def _left_out(partition: PartitionAssignment, error: LargeBatchError) -> str:
    """The remedy for an intact batch that cannot be decoded: it has to be only where it must be split or cut."""
    return (
        f"if the batch is larger than max.message.bytes of {partition.target_topic} on the target, raise that limit,"
        " and the running `mmtool replicate` copies the batch whole at its next retry; otherwise leave its records out"
        f" of the mirror: {seek_to(partition.place, error.next_offset, partition.flow_options)}"
    )


def damaged(partition: PartitionAssignment, error: BatchError | None = None) -> str:
    """The remedy for a batch of the source that cannot be read; ``error`` may know where the batch ends."""
    behind, where = "OFFSET", "; OFFSET is the first offset after the batch, which kafka-dump-log.sh shows"
    if isinstance(error, CorruptBatchError):
        behind, where = str(error.next_offset), ""
    return (
        f"{OTHER_LEADER}; if every replica has the same bytes, skip the batch:"
        f" {seek_to(partition.place, behind, partition.flow_options)}{where}"
    )


def _joined(views: Sequence[BatchView], position: UpstreamOffset, limit: int, goal: int) -> list[ReadyBatch]:
    """Join batches where that pays.

    A batch of a few records costs more to send than to join with its neighbour.
    """
    few = sum(view.header.record_count for view in views) <= _FEW_RECORDS * len(views)
    target = max(goal, _COALESCED_BYTES if few else 0) if len(views) > 1 else 0
    return coalesce(views, position=position, max_batch_bytes=limit, target_bytes=target)


def _taken_apart(
    view: BatchView, position: UpstreamOffset, limit: int, *, dead_letters: bool
) -> Iterator[ReadyBatch]:
    while position < view.header.next_offset:
        try:
            yield from coalesce([view], position=position, max_batch_bytes=limit, target_bytes=0)
        except OversizeRecordError as error:
            yield from _part(view, position, error.upstream_offset, limit)
            if not dead_letters:
                raise
            behind = UpstreamOffset(error.upstream_offset + 1)
            (alone,) = _part(view, error.upstream_offset, behind, _ANY_SIZE)
            yield DeadLetter.of(alone)
            position = behind
        else:
            return


def _part(view: BatchView, start: UpstreamOffset, stop: UpstreamOffset, limit: int) -> list[ReadyBatch]:
    """Batches of the records of ``view`` from ``start`` up to ``stop``."""
    rest = range(stop, view.header.next_offset)
    batches = rebuild([view], position=start, max_batch_bytes=limit, without=rest)
    if batches:
        batches[-1].upstream_next = stop
    return batches


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
