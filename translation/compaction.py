"""Match a dead owner's unrecorded records on both logs after compaction removed some of them.

A mirror copies in order and leaves nothing out. So the records behind the stored runs on the target, and those behind
their frontier on the source, are what is left of one sequence of records, each with holes where compaction removed
some. The target's batches have sequence numbers, so it is known how many records there were, and mostly where:

E  explained: between two matched records, a log holds a record without a match only if an offset is gone from the
   other log for it; and where the source holds such records, as many were appended there as it may have held. Logs that
   break this are not what is left of one sequence
F  the frontier is behind the last record that was appended, and before the first one that was not: where both may be
   among records without a match, it is known where the source has no holes, by the batches' sequence numbers
P  a removed record keeps the offset that it had, where the numbers on both sides give it
W  down to twins: of records equal in timestamp, key, value and headers, one that is left stands for a removed one
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mmtool.translation.derive import AmbiguousError, derive, runs_of, within
from mmtool.translation.types import UNKNOWN, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.translation.derive import Logged
    from mmtool.translation.runs import Offsets, RunMap


@dataclass(frozen=True, slots=True, eq=False)
class Remains:
    """The surviving records of one log behind the stored offset runs.

    Attributes:
        start, end: The range of offsets that was read.
        records: On the target those of the flow, on the source those that the flow mirrors; 16 bytes each.
        present: Offsets of all records in the range, of any producer, ascending.
    """

    start: int
    end: int
    records: Logged
    present: Offsets

    def unlike(self, start: int, stop: int) -> int:
        """How many of ``records`` are at offsets from ``start`` up to ``stop``."""
        return len(self.records.within(start, stop))

    def gone(self, start: int, stop: int) -> int:
        """How many offsets from ``start`` up to ``stop`` hold no record of any producer."""
        return stop - start - len(within(self.present, start, stop))

    def candidates(self, start: int, stop: int) -> Offsets:
        """Offsets from ``start`` up to ``stop`` that hold one of ``records``, or may have held one."""
        others = np.setdiff1d(within(self.present, start, stop), self.records.offsets, assume_unique=True)
        return np.setdiff1d(np.arange(start, stop, dtype=np.int64), others, assume_unique=True)

    def next_record(self, offset: int) -> int:
        """The offset of the first of ``records`` at or after ``offset``; ``end`` without any."""
        found = self.records.first_at(offset)
        return self.end if found is None else found


class Appended(NamedTuple):
    """All records that were appended behind the stored runs, in order, removed ones included.

    Attributes:
        places: The offset of each record; UNKNOWN where its whole batch is gone.
        doubts: The numbers of records before which there may have been more, an unknown number of them.
    """

    places: Sequence[int | Unknown]
    doubts: Sequence[int]


class FoundTail(NamedTuple):
    """The matched records, and the next offset to mirror."""

    runs: RunMap
    frontier: UpstreamOffset


class _NoRemainsError(Exception):
    """The two logs are not what is left of one sequence, or their records cannot be matched."""


def match_remains(source: Remains, target: Remains, appended: Appended) -> FoundTail | None:
    """The runs after the stored ones, and their frontier; None where E or F does not hold.

    Args:
        source: What remains on the source from the stored frontier on.
        target: What remains on the target from the end of the stored runs on.
        appended: The records that were appended, by the target's batches.
    """
    try:
        runs = derive(source.records, target.records)
        return _Match(source, target, appended).found(runs)
    except (AmbiguousError, _NoRemainsError):
        return None


@dataclass(frozen=True, slots=True)
class _Match:
    source: Remains
    target: Remains
    appended: Appended

    def found(self, runs: RunMap) -> FoundTail:
        numbers = {at: number for number, at in enumerate(self.appended.places) if at is not UNKNOWN}
        pairs: list[tuple[int, int]] = []
        up, down, number = self.source.start, self.target.start, 0
        for run in runs:
            first = numbers[run.downstream_start]
            pairs += self._between(
                (up, run.upstream_start), (down, run.downstream_start), range(number, first)
            )
            pairs += ((run.upstream_start + i, run.downstream_start + i) for i in range(run.count))
            up, down, number = run.upstream_end, run.downstream_end, first + run.count
        behind, frontier = self._behind(up, down, number)
        return FoundTail(runs_of(pairs + behind), UpstreamOffset(frontier))

    def _between(self, up: tuple[int, int], down: tuple[int, int], numbers: range) -> list[tuple[int, int]]:
        """Offset pairs of the unmatched records between two matched ones, where their numbers give both."""
        passed = self.source.unlike(*up)
        if self.target.unlike(*down) > self.source.gone(*up) or passed > self.target.gone(*down):
            raise _NoRemainsError
        doubted = any(numbers.start <= doubt <= numbers.stop for doubt in self.appended.doubts)
        found = None if doubted else self._by_number(self.source.candidates(*up), numbers)
        if passed and found is None:
            raise _NoRemainsError
        return found or []

    def _behind(self, up: int, down: int, number: int) -> tuple[list[tuple[int, int]], int]:
        """Offset pairs of the unmatched records after the last matched one, and the frontier."""
        numbers = range(number, len(self.appended.places))
        if self.target.unlike(down, self.target.end) > self.source.gone(up, self.source.end):
            raise _NoRemainsError
        if not self.target.gone(down, self.target.end):  # what the source holds there was not appended
            origins = self.source.candidates(up, self.source.next_record(up))
            found = self._by_number(origins, numbers)
            return (found, int(origins[-1]) + 1) if found else ([], up)
        origins = self.source.records.offsets[: numbers.stop]
        if self.appended.doubts or not len(origins) == numbers.stop > 0:
            raise _NoRemainsError
        end = int(origins[-1]) + 1
        if end < up or self.source.gone(self.source.start, end):
            raise _NoRemainsError
        return self._by_number(origins[number:], numbers) or [], end

    def _by_number(self, origins: Offsets, numbers: range) -> list[tuple[int, int]] | None:
        """Pairs of each source offset and its record's target offset, in order; None unless there are equally many.

        Records whose target offset is unknown are left out.
        """
        if len(origins) != len(numbers):
            return None
        places = [self.appended.places[number] for number in numbers]
        return [(int(up), down) for up, down in zip(origins, places, strict=True) if down is not UNKNOWN]
