"""All blocks of one partition joined into one map, for translation and for recovery."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from mmtool.translation.blocks import (
    Block,
    Follows,
    Gap,
    MadeFrom,
    MirroredPartition,
    MirrorStart,
    NothingMirrored,
    Tail,
    describe,
)
from mmtool.translation.errors import InvariantError, UnreadableStateError
from mmtool.translation.runs import RunMap
from mmtool.translation.stored_runs import StoredRuns
from mmtool.translation.types import DownstreamOffset, UpstreamOffset


@dataclass(frozen=True, slots=True)
class PartitionMap:
    """The stored offset map of one mirrored partition.

    Attributes:
        known_from: Upstream offset from which the runs are known: the mirror's start, or, where older blocks
            were dropped because the target deleted their records, the end of the last dropped run.
        last_block_start: Start of the newest block, which the next owner continues.
        gaps: Offsets that an operator chose not to mirror, ascending.
        made: By which versions of a transform its records were mirrored, ascending; before the first, as they are.
    """

    about: MirroredPartition
    mirror_start: MirrorStart
    known_from: UpstreamOffset
    last_block_start: UpstreamOffset
    runs: RunMap
    tail: Tail
    gaps: tuple[Gap, ...] = ()
    made: tuple[MadeFrom, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the map reaches back to where the mirror began: no block was dropped."""
        return self.known_from == self.mirror_start.upstream

    @property
    def same_offsets(self) -> bool:
        """Whether each record has its source's offset on the target."""
        return self.tail.same_offsets

    def version_at(self, offset: int) -> tuple[str, int]:
        """The version of the transform at an offset, empty without one; and the offset up to which it is the same."""
        version, stop = "", max(int(self.upstream_frontier), offset + 1)
        for one in self.made:
            if one.start > offset:
                return version, min(one.start, stop)
            version = one.version
        return version, stop

    @property
    def upstream_frontier(self) -> UpstreamOffset:
        """Next offset to fetch; everything below is mapped or known to be absent."""
        return self.tail.upstream_frontier

    def gap_at(self, offset: UpstreamOffset) -> Gap | None:
        """The gap that contains ``offset``; None where none does."""
        for gap in self.gaps:
            if gap.start <= offset < gap.end:
                return gap
        return None

    def gap_around(self, offset: DownstreamOffset) -> Gap | None:
        """The gap between the mirrored records on either side of an offset of the target; None inside a run.

        A map derived from both logs leaves records out: the target may hold copies of the gap's records there.
        """
        record = self.runs.find_reverse(offset)
        if record is None or self.runs.find_forward(record) == offset:
            return None
        before, _ = self.runs.around(record)
        behind = -1 if before is None else before.upstream
        return next((gap for gap in self.gaps if behind < gap.start and gap.end <= record), None)

    @classmethod
    def empty(cls, about: MirroredPartition, start: MirrorStart, tail: Tail) -> PartitionMap:
        """The map of a mirror that has begun and has no record yet."""
        return cls(about, start, start.upstream, start.upstream, RunMap.from_runs(()), tail)


def join_blocks(blocks: Iterable[Block]) -> PartitionMap:
    """The map that these blocks make up, given in any order, one per key (the log's last record wins).

    Raises:
        UnreadableStateError: No block at all, blocks of different partitions or flows, a block missing
            between two others, or runs that overlap: state that is never guessed.
    """
    chain = sorted(blocks, key=lambda block: block.key)
    if not chain:
        raise UnreadableStateError("offset-runs blocks", "there are none to join")
    for before, after in pairwise(chain):
        _check_link(before, after)
    first, last = chain[0], chain[-1]
    known_from = first.block_start if first.previous is None else first.previous.upstream_end
    try:
        runs = StoredRuns.chain(block.runs for block in chain)
    except InvariantError as broken:
        raise UnreadableStateError(describe(last.key), f"blocks overlap: {broken}") from broken
    gaps = tuple(gap for block in chain for gap in block.gaps)
    made = tuple(dict.fromkeys(one for block in chain for one in block.made))
    return PartitionMap(
        first.about, first.mirror_start, known_from, last.block_start, runs, last.tail, gaps, made
    )


def _check_link(before: Block, after: Block) -> None:
    what = describe(after.key)
    if after.about != before.about:
        raise UnreadableStateError(what, "it belongs to another partition or flow than the block before it")
    if after.mirror_start != before.mirror_start:
        raise UnreadableStateError(what, "it names another start of the mirror than the block before it")
    if after.previous is None or isinstance(before.tail.downstream_end, NothingMirrored):
        raise UnreadableStateError(what, "it claims to be the first block, but follows another one")
    # stored runs are not decoded for this: their end is taken as the next block names it
    is_stored = isinstance(before.runs, StoredRuns) and after.previous.upstream_end <= after.block_start
    end = after.previous.upstream_end if is_stored else before.runs.upstream_end
    if after.previous != Follows(before.block_start, end):
        raise UnreadableStateError(what, f"it does not follow {describe(before.key)}: a block is missing")
