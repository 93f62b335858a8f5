"""Derive offset runs from nothing but the two logs: find the source record of each record in the mirror.

A mirror copies the source's records in order, so equal records in equal order belong together. Records are compared by
fingerprints (timestamp, key, value, headers). The matching goes from the end to the beginning:

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
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mmtool.translation.runs import RunBuilder, RunMap
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.translation.runs import Offsets

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
