"""Match the records of two logs: find the source record of each record in the mirror.

A mirror copies the source's records in order, so equal records in equal order belong together. Records are compared by
fingerprints (timestamp, key, value, headers). `derive` has nothing but the two logs. It goes from their ends to their
beginnings:

1. a target record that equals exactly one source record is a copy of it, its origin
2. the record before it on the target is a copy of the one before it on the source, when they are equal, even if other
   source records equal them too
3. an origin that is not before the last one found shows that the mirror started again there: the target's records
   before it are earlier copies
4. a record whose origin is gone, or cannot be distinguished from equal records, is left out
5. a source record that was not mirrored yet when the target's log was already longer is no origin: it only equals one
   that is gone

Surviving source records between two matched ones cannot be distinguished from records that were skipped, so they are a
gap: commits there are refused, and never translated past a record.

`match_remains` has the records behind the stored runs of a dead owner on the target, and those behind their frontier on
the source. They are what is left of one sequence of records, each with holes where compaction removed some. The
target's batches have sequence numbers, so it is known how many records there were, and mostly where:

E  explained: between two matched records, a log holds a record without a match only if an offset is gone from the
   other log for it; and where the source holds such records, as many were appended there as it may have held. Logs that
   break this are not what is left of one sequence
F  the frontier is behind the last record that was appended, and before the first one that was not: where both may be
   among records without a match, it is known where the source has no holes, by the batches' sequence numbers
P  a removed record keeps the offset that it had, where the numbers on both sides give it
W  down to twins: of records equal in timestamp, key, value and headers, one that is left stands for a removed one
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mmtool.translation.runs import Offsets, RunBuilder, RunMap
from mmtool.translation.types import UNKNOWN, DownstreamOffset, Unknown, UpstreamOffset

_NOWHERE, _MANY = -1, -2


@dataclass(frozen=True, slots=True, eq=False)
class Logged:
    """The records of one log in their order, as two columns of equal length.

    Attributes:
        offsets: Ascending.
        prints: A fingerprint of each record, equal for equal records.
    """

    offsets: Offsets
    prints: Offsets

    def within(self, start: int, stop: int) -> Offsets:
        """The offsets of the records from ``start`` up to ``stop``."""
        return within(self.offsets, start, stop)

    def first_at(self, position: int) -> int | None:
        """The offset of the first record at or after ``position``; None without one."""
        index = int(np.searchsorted(self.offsets, position))
        return int(self.offsets[index]) if index < len(self.offsets) else None


def within(offsets: Offsets, start: int, stop: int) -> Offsets:
    """Those of ascending offsets that lie from ``start`` up to ``stop``."""
    low, high = np.searchsorted(offsets, (start, stop))
    return offsets[low:high]


class KnownOffsets(NamedTuple):
    """The mirror's position at some time: no record at or behind ``upstream`` is below ``downstream``."""

    upstream: int
    downstream: int


NOTHING_TOLD = KnownOffsets(0, 0)


class AmbiguousError(Exception):
    """Records at the mirror's end match in more than one place, so it is unknown where the mirror continues."""


def derive(source: Logged, target: Logged, told: KnownOffsets = NOTHING_TOLD) -> RunMap:
    """The offset runs since the mirror last started again, as far as both logs still hold its records.

    Args:
        source: All surviving records of the source partition.
        target: The surviving records of this flow on the target partition, and no others.
        told: The last position that the mirror reported.

    Returns:
        Runs that obey A to D; none where no record can be matched.

    Raises:
        AmbiguousError: the newest records of the target match in more than one place.
    """
    pairs = _ascending(source, target, told)
    return runs_of((int(source.offsets[at]), int(target.offsets[to])) for at, to in pairs)


def runs_of(pairs: Iterable[tuple[int, int]]) -> RunMap:
    """The runs of records that are given by their offsets on both sides."""
    builder = RunBuilder()
    for up, down in pairs:
        builder.append(UpstreamOffset(up), DownstreamOffset(down), 1)
    return builder.snapshot()


def gaps_between(source: Logged, runs: RunMap) -> list[UpstreamOffset]:
    """The upstream starts of the runs that follow surviving source records which no run maps."""
    return [
        after.upstream_start
        for before, after in pairwise(runs)
        if len(source.within(before.upstream_end, after.upstream_start))
    ]


def next_record(source: Logged, position: UpstreamOffset, end: UpstreamOffset) -> UpstreamOffset:
    """The offset of the source's next surviving record at or after ``position``.

    Without one, ``end``, up to which the source was read, or ``position`` if that is higher.
    """
    found = source.first_at(position)
    return max(position, end) if found is None else UpstreamOffset(found)


def _ascending(source: Logged, target: Logged, told: KnownOffsets) -> list[tuple[int, int]]:
    early = int(np.searchsorted(target.offsets, told.downstream))  # so many on the target are copies ...
    known = int(np.searchsorted(source.offsets, told.upstream))  # ... of so many on the source
    origins = np.concatenate(
        [
            _origins(source.prints[:known], target.prints[:early]),
            _origins(source.prints, target.prints[early:]),
        ]
    )
    pairs: list[tuple[int, int]] = []
    bound = len(source.prints)
    for to in range(len(target.prints) - 1, -1, -1):
        at = int(origins[to])
        may_be_before = pairs and bound and (to >= early or bound <= known)
        if may_be_before and source.prints[bound - 1] == target.prints[to]:
            at = bound - 1
        if at < 0:
            continue
        if at >= bound:
            break
        pairs.append((at, to))
        bound = at
    pairs.reverse()
    ends = np.where(np.arange(len(target.prints)) < early, known, len(source.prints))
    return _to_the_end(source, target, pairs, origins, ends)


def _to_the_end(
    source: Logged, target: Logged, pairs: list[tuple[int, int]], origins: Offsets, ends: Offsets
) -> list[tuple[int, int]]:
    """Match the records after the last match: each with the next source record.

    Raises:
        AmbiguousError: a record that has equals on the source does not equal the next one.
    """
    at, to = pairs[-1] if pairs else (-1, -1)
    for behind in range(to + 1, len(target.prints)):
        if origins[behind] == _NOWHERE:
            continue
        at += 1
        if not pairs or at >= ends[behind] or source.prints[at] != target.prints[behind]:
            raise AmbiguousError
        pairs.append((at, behind))
    return pairs


def _origins(source: Offsets, target: Offsets) -> Offsets:
    """For each fingerprint of the target the index of its only equal on the source, `_NOWHERE` or `_MANY`."""
    order = np.argsort(source, kind="stable")
    ordered = source[order]
    low = np.searchsorted(ordered, target, side="left")
    high = np.searchsorted(ordered, target, side="right")
    likes = high - low
    origins = np.full(len(target), _NOWHERE, dtype=np.int64)
    origins[likes > 1] = _MANY
    origins[likes == 1] = order[low[likes == 1]]
    return origins


# --- what compaction has left of a tail ------------------------------------------------------------------


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
