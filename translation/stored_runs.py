"""Offset runs as they are stored: a block of them is decoded where an offset is looked up in it.

Decoded, a run takes 24 bytes, stored about 3; a source with transactions makes one for each of its markers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np

from mmtool.translation.block_codec import decode_runs, read_head, take_varint
from mmtool.translation.blocks import Block, MirroredTo
from mmtool.translation.errors import InvariantError, UnreadableStateError
from mmtool.translation.runs import Flags, Mirrored, Offsets, Run, RunMap
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

_DECODED_BLOCKS = 1024
"""Blocks that stay decoded, of all maps together: 25 MB of those that are stored during mirroring."""


class StoredPart(NamedTuple):
    """The runs of one block, encoded: so many, at least one."""

    octets: bytes
    runs: int
    downstream_end: int


class StoredRuns(RunMap):
    """A `RunMap` whose parts are still encoded. Treat as immutable.

    Only lookups decode, and only the part that has the answer. `upstream`, `downstream` and `counts` decode all
    parts, and keep them. Every method raises `UnreadableStateError` if a part cannot be decoded; the checksum of its
    record was right, so a faulty release wrote it.

    Attributes:
        parts: The runs of each block.
        upstream_starts, downstream_starts: The first offset of each part, ascending.
    """

    __slots__ = ("_totals", "downstream_starts", "parts", "upstream_starts")

    def __init__(self, parts: tuple[StoredPart, ...], ups: Offsets, downs: Offsets) -> None:
        """Take the parts, and the first offset of each on both sides, ascending."""
        self.parts, self.upstream_starts, self.downstream_starts = parts, ups, downs
        self._totals: Offsets | None = None
        self._records_before = None

    @classmethod
    def of(cls, octets: bytes, count: int, downstream_end: int) -> Self:
        """The runs of one block. Raises ValueError or IndexError if ``octets`` ends before the first run does."""
        if not count:
            return cls((), *np.zeros((2, 0), dtype=np.int64))
        upstream, at = take_varint(octets, 0)
        downstream, _ = take_varint(octets, at)
        return cls((StoredPart(octets, count, downstream_end),), np.array([upstream]), np.array([downstream]))

    @classmethod
    def chain(cls, parts: Iterable[RunMap]) -> RunMap:
        """As `RunMap.joined`; nothing is decoded if all parts are stored."""
        maps = [part for part in parts if len(part)]
        stored = [part for part in maps if isinstance(part, StoredRuns)]
        if len(stored) < len(maps) or not stored:
            return RunMap.joined(maps)
        blocks = tuple(block for part in stored for block in part.parts)
        ups, downs = (
            np.concatenate(side)
            for side in zip(*((p.upstream_starts, p.downstream_starts) for p in stored), strict=True)
        )
        ends = np.array([block.downstream_end for block in blocks])
        for at in np.flatnonzero(ups[1:] <= ups[:-1]):
            raise InvariantError.below("source", ups[at + 1], ups[at] + 1)
        for at in np.flatnonzero(downs[1:] < ends[:-1]):
            raise InvariantError.below("target", downs[at + 1], ends[at])
        return cls(blocks, ups, downs)

    def __getattr__(self, name: str) -> Offsets:
        """Decode the columns when one of them is asked for first."""
        if name not in ("upstream", "downstream", "counts"):
            raise AttributeError(name)
        self.upstream, self.downstream, self.counts = self._decoded(range(len(self.parts))).columns
        column: Offsets = getattr(self, name)
        return column

    def _decoded(self, parts: Iterable[int]) -> RunMap:
        return RunMap.joined(map(self._part, parts))

    def _part(self, number: int) -> RunMap:
        return _decoded_part(self.parts[number])

    def __len__(self) -> int:
        return sum(part.runs for part in self.parts)

    @property
    def first(self) -> Run:
        return self._part(0)[0]

    @property
    def upstream_end(self) -> UpstreamOffset:
        return self._part(-1).upstream_end

    @property
    def downstream_end(self) -> DownstreamOffset:
        return DownstreamOffset(self.parts[-1].downstream_end)

    @property
    def records(self) -> int:
        return int(self._records_up_to()[-1])

    def _records_up_to(self) -> Offsets:
        """The records before each part, and those of all parts; each part is decoded once for it."""
        if self._totals is None:
            counts = [self._part(number).records for number in range(len(self.parts))]
            self._totals = np.cumsum([0, *counts])
        return self._totals

    def between(self, start: int, stop: int) -> RunMap:
        first = max(int(self.upstream_starts.searchsorted(start, side="right")) - 1, 0)
        last = int(self.upstream_starts.searchsorted(stop, side="left"))
        return self._decoded(range(first, last)).between(start, stop)

    def find_forward(self, offset: UpstreamOffset) -> DownstreamOffset | None:
        found = self._find(
            self.upstream_starts, self.downstream_starts, offset, lambda part: part.find_forward(offset)
        )
        return None if found is None else DownstreamOffset(found)

    def find_reverse(self, offset: DownstreamOffset) -> UpstreamOffset | None:
        found = self._find(
            self.downstream_starts, self.upstream_starts, offset, lambda part: part.find_reverse(offset)
        )
        return None if found is None else UpstreamOffset(found)

    def _find(
        self, starts: Offsets, others: Offsets, offset: int, find: Callable[[RunMap], int | None]
    ) -> int | None:
        at = max(int(starts.searchsorted(offset, side="right")) - 1, 0)
        found = find(self._part(at)) if self.parts else None
        return int(others[at + 1]) if found is None and at + 1 < len(others) else found

    def around(self, offset: UpstreamOffset) -> tuple[Mirrored | None, Mirrored | None]:
        """See `RunMap.around`: both are in the part that begins below the offset, or begin the next one."""
        at = int(self.upstream_starts.searchsorted(offset, side="left")) - 1
        before, after = self._part(at).around(offset) if at >= 0 else (None, None)
        if after is None and at + 1 < len(self.parts):
            after = Mirrored(
                UpstreamOffset(int(self.upstream_starts[at + 1])),
                DownstreamOffset(int(self.downstream_starts[at + 1])),
            )
        return before, after

    def find_forward_many(self, offsets: Offsets) -> tuple[Offsets, Flags]:
        return self._find_many(
            self.upstream_starts, self.downstream_starts, RunMap.find_forward_many, offsets
        )

    def find_reverse_many(self, offsets: Offsets) -> tuple[Offsets, Flags]:
        return self._find_many(
            self.downstream_starts, self.upstream_starts, RunMap.find_reverse_many, offsets
        )

    def _find_many(
        self,
        starts: Offsets,
        others: Offsets,
        find: Callable[[RunMap, Offsets], tuple[Offsets, Flags]],
        offsets: Offsets,
    ) -> tuple[Offsets, Flags]:
        answers, found = np.zeros(len(offsets), dtype=np.int64), np.zeros(len(offsets), dtype=np.bool_)
        for at, rows in _by_part(starts, offsets):
            answers[rows], found[rows] = find(self._part(at), offsets[rows])
            if at + 1 < len(others):
                behind = rows[~found[rows]]
                answers[behind], found[behind] = others[at + 1], True
        return answers, found

    def records_below_many(self, offsets: Offsets) -> Offsets:
        return self._count_below(self.upstream_starts, RunMap.records_below_many, offsets)

    def records_below_downstream_many(self, offsets: Offsets) -> Offsets:
        return self._count_below(self.downstream_starts, RunMap.records_below_downstream_many, offsets)

    def _count_below(
        self, starts: Offsets, count: Callable[[RunMap, Offsets], Offsets], offsets: Offsets
    ) -> Offsets:
        below = np.zeros(len(offsets), dtype=np.int64)
        for at, rows in _by_part(starts, offsets):
            below[rows] = self._records_up_to()[at] + count(self._part(at), offsets[rows])
        return below


def _by_part(starts: Offsets, offsets: Offsets) -> Iterator[tuple[int, Offsets]]:
    """The part that each of ``offsets`` is looked up in, with their places in the column."""
    if not len(starts) or not len(offsets):
        return
    parts = np.maximum(starts.searchsorted(offsets, side="right") - 1, 0)
    order = np.argsort(parts, kind="stable")
    edges = np.flatnonzero(np.diff(parts[order])) + 1
    for rows in np.split(order, edges):
        yield int(parts[rows[0]]), rows


@lru_cache(_DECODED_BLOCKS)
def _decoded_part(part: StoredPart) -> RunMap:
    runs = decode_runs(part.octets, part.runs)
    if runs.downstream_end != part.downstream_end:
        why = f"its target end is {part.downstream_end}, but its last run ends at {runs.downstream_end}"
        raise UnreadableStateError("offset-runs block", why)
    return runs


def stored_block(value: bytes) -> Block:
    """The block in the bytes of a record value, its runs still encoded.

    Raises:
        UnreadableStateError: Unknown version, wrong checksum, cut off, or runs without an end on the target.
    """
    head = read_head(value)
    end = head.tail.downstream_end
    if isinstance(end, MirroredTo) != bool(head.runs):
        raise UnreadableStateError("offset-runs block", "its end and its runs contradict each other")
    try:
        return head.block(StoredRuns.of(head.octets, head.runs, end.position))
    except (IndexError, ValueError) as broken:
        raise UnreadableStateError("offset-runs block", str(broken) or "the record is cut off") from broken
