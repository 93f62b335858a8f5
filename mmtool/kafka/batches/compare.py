"""Compare records of two logs, batch by batch: recovery checks the target's records against the source's.

Equal means what a consumer can see: timestamp, key, value, headers. Record attributes (unused by Kafka) and
the batch layout are left out: a target that recompresses rewrites both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from mmtool.kafka.batches.header import CODEC_BITS, LOG_APPEND_TIME_BIT, MAGIC, BatchView
from mmtool.kafka.batches.records import RawRecord, RecordColumns, fields_of, read_columns
from mmtool.translation.runs import Run
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

_FROM_THE_START: Final = DownstreamOffset(0)


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """The first pair of records that differ; ``field`` is timestamp, key, value or headers."""

    upstream_offset: UpstreamOffset
    downstream_offset: DownstreamOffset
    field: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        matched: The equal records as offset runs, in order.
        difference: Where they first differ; None when they agree as far as both sides go.
        wanted: Records that were to be compared.
    """

    matched: tuple[Run, ...]
    difference: RecordDifference | None
    wanted: int

    @property
    def compared(self) -> int:
        """How many records were found equal."""
        return sum(matched.count for matched in self.matched)

    @property
    def is_complete(self) -> bool:
        """Whether all records to compare existed on both sides and were equal."""
        return self.compared == self.wanted

    @property
    def upstream_end(self) -> UpstreamOffset:
        """The source offset behind the last record that was found equal; there must be one."""
        return self.matched[-1].upstream_end


def same_records(
    source_views: Iterable[BatchView],
    position: UpstreamOffset,
    target_views: Iterable[BatchView],
    count: int,
    *,
    target_position: DownstreamOffset = _FROM_THE_START,
) -> Comparison:
    """Compare ``count`` surviving records of source and target, pair by pair, up to the first difference.

    Two whole batches with the same bytes are compared as bytes; all others record by record.

    Args:
        source_views: Admitted batches of the source, in order.
        position: The first source offset to compare.
        target_views: Batches of the target, in order.
        count: How many records to compare.
        target_position: The first target offset to compare.

    Raises:
        BatchError: A batch that cannot be read.
    """
    source = BatchCursor(source_views, position)
    target = BatchCursor(target_views, target_position)
    trail: list[Run] = []
    left, difference = count, None
    while difference is None and left > 0 and source.load() and target.load():
        step = twins(source, target, left)
        if step is None:
            step, difference = in_step(source, target, left)
        for matched in step:
            extend(trail, matched)
            left -= matched.count
    return Comparison(tuple(trail), difference, count)


class BatchCursor:
    """One side of the comparison: a whole batch until its records are needed, then the rest of its records.

    Args:
        views: Batches in order. An iterator that has ended may go on later.
        position: Earlier records are passed over.
        stop: Records from there on are passed over; None is without end.
    """

    __slots__ = ("_position", "_stop", "_views", "keeps_time", "records", "view")

    def __init__(self, views: Iterable[BatchView], position: int, stop: int | None = None) -> None:
        self._views = iter(views)
        self._position = position
        self._stop = stop
        self.view: BatchView | None = None
        self.records = RecordColumns()
        self.keeps_time = True

    def load(self) -> bool:
        """Load the next batch unless records are left; False when no batch follows."""
        while not self.records and self.view is None:
            view = next(self._views, None)
            if view is None:
                return False
            if not view.header.is_control and not view.header.is_empty:
                self.view = view
                is_cut = self._stop is not None and view.header.next_offset > self._stop
                if view.header.base_offset < self._position or is_cut:
                    self.open()
        return True

    def open(self) -> RecordColumns:
        """Decode the current batch, unless it is decoded already, and return its remaining records."""
        if self.view is not None:
            self.keeps_time = not self.view.header.is_log_append_time
            records = read_columns(self.view).wanted(self._position, ())
            if self._stop is not None:
                records = records.part(0, bisect_left(records.offsets, self._stop))
            self.records = records
            self.view = None
        return self.records

    def take(self, count: int) -> RecordColumns:
        """Remove the next ``count`` records of the current batch and return them."""
        records = self.open()
        self.records = records.part(count, len(records))
        return records.part(0, count)


def twins(source: BatchCursor, target: BatchCursor, room: int) -> list[Run] | None:
    """Match the current batches of both sides as bytes, where both are whole and dense; None where they differ."""
    ours, theirs = source.view, target.view
    if ours is None or theirs is None:
        return None
    one, two = ours.header, theirs.header
    same = (
        one.record_count == two.record_count <= room
        and one.last_offset_delta + 1 == one.record_count
        and two.last_offset_delta + 1 == two.record_count
        and one.base_timestamp == two.base_timestamp
        and one.attributes & CODEC_BITS == two.attributes & CODEC_BITS
        and not (one.attributes | two.attributes) & LOG_APPEND_TIME_BIT
        and one.magic == two.magic == MAGIC
        and bytes(ours.records) == bytes(theirs.records)
    )
    if not same:
        return None
    source.view = target.view = None
    start = UpstreamOffset(one.base_offset), DownstreamOffset(two.base_offset)
    return [Run(*start, one.record_count)]


def in_step(source: BatchCursor, target: BatchCursor, room: int) -> tuple[list[Run], RecordDifference | None]:
    """Match at most ``room`` remaining records pair by pair; return the equal ones, and the first difference."""
    count = min(len(source.open()), len(target.open()), room)
    ours, theirs = source.take(count), target.take(count)
    timed = target.keeps_time
    if ours.bodies == theirs.bodies and (not timed or ours.timestamps == theirs.timestamps):
        return _ranges(ours.offsets, theirs.offsets), None
    for at, (one, two) in enumerate(zip(ours.rows(), theirs.rows(), strict=True)):
        name = _first_difference(one, two, timed=timed)
        if name is not None:
            found = RecordDifference(UpstreamOffset(one.offset), DownstreamOffset(two.offset), name)
            return _ranges(ours.offsets[:at], theirs.offsets[:at]), found
    return _ranges(ours.offsets, theirs.offsets), None


def _ranges(ours: list[int], theirs: list[int]) -> list[Run]:
    """Join pairs of offsets into ranges that are contiguous on both sides."""
    count = len(ours)
    if count == 0:
        return []
    holes = [] if ours[-1] - ours[0] == theirs[-1] - theirs[0] == count - 1 else range(1, count)
    starts = [at for at in holes if ours[at] != ours[at - 1] + 1 or theirs[at] != theirs[at - 1] + 1]
    return [
        Run(UpstreamOffset(ours[start]), DownstreamOffset(theirs[start]), stop - start)
        for start, stop in pairwise([0, *starts, count])
    ]


def _first_difference(one: RawRecord, two: RawRecord, *, timed: bool) -> str | None:
    if timed and one.timestamp != two.timestamp:
        return "timestamp"
    if one.body == two.body:
        return None
    pairs = zip(("key", "value", "headers"), fields_of(one.body), fields_of(two.body), strict=True)
    return next((name for name, ours, theirs in pairs if ours != theirs), None)


def extend(trail: list[Run], more: Run) -> None:
    """Append a range to matched ranges, joined with the last one where both sides are contiguous."""
    last = trail[-1] if trail else None
    if (
        last is not None
        and last.upstream_start + last.count == more.upstream_start
        and last.downstream_start + last.count == more.downstream_start
    ):
        trail[-1] = Run(last.upstream_start, last.downstream_start, last.count + more.count)
    else:
        trail.append(more)
