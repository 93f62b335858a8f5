"""Record the offset map of one partition while it is mirrored."""

from __future__ import annotations

from dataclasses import replace

from mmtool.translation.blocks import (
    MAX_RUNS,
    Block,
    Follows,
    Gap,
    MadeFrom,
    MirroredPartition,
    MirroredTo,
    MirrorStart,
    NothingMirrored,
    SeenOffset,
    Tail,
    WriterState,
)
from mmtool.translation.errors import InvariantError
from mmtool.translation.runs import RunBuilder
from mmtool.translation.types import UNKNOWN, DownstreamOffset, Unknown, UpstreamOffset

OPEN_RUNS = 1024
"""Runs of a block during mirroring: an open block is rewritten whole in each second in which it changes."""


class MapRecorder:
    """Mutable, one per partition, not thread-safe. Created by `begin` or `resume`.

    ``max_runs`` seals earlier than `MAX_RUNS`: an open block is rewritten whole on each change, so a
    partition with thousands of holes a second writes less with smaller blocks.
    """

    def __init__(self, block: Block, *, changed: bool, max_runs: int) -> None:
        """Continue ``block``; use `begin` or `resume`."""
        self.about = block.about
        self.mirror_start = block.mirror_start
        self._block_start = block.block_start
        self._previous = block.previous
        self._builder = RunBuilder(block.runs)
        self._sealed: list[Block] = []
        self._gaps = block.gaps
        self.made = block.made
        self._changed = changed
        self._max_runs = max_runs
        self._frontier = block.tail.upstream_frontier
        self._downstream_end = block.tail.downstream_end.position
        self._target_verified_end = block.tail.target_verified_end
        self._source_end = block.tail.source_end
        self._source_log_start = block.tail.source_log_start
        self._writer = block.tail.writer
        self._leader_epoch = block.tail.source_leader_epoch
        self.same_offsets = block.tail.same_offsets

    @classmethod
    def begin(cls, about: MirroredPartition, start: MirrorStart, *, max_runs: int = MAX_RUNS) -> MapRecorder:
        """A recorder for a partition that this flow has never mirrored; `take` has a block to store at once."""
        tail = Tail(start.upstream, NothingMirrored(start.downstream), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
        empty = RunBuilder().snapshot()
        block = Block(about, start.upstream, start, None, empty, tail, sealed=False)
        return cls(block, changed=True, max_runs=max_runs)

    @classmethod
    def resume(cls, block: Block, *, max_runs: int = MAX_RUNS) -> MapRecorder:
        """A recorder that continues the partition's newest stored block; a full one is followed by the next."""
        return cls(block, changed=False, max_runs=max_runs)

    def appended(
        self,
        upstream_start: UpstreamOffset,
        downstream_start: DownstreamOffset,
        count: int,
        *,
        writer: WriterState,
    ) -> None:
        """Record a produce answer: ``count`` records of the source, from ``upstream_start`` on without a hole.

        Args:
            upstream_start: Offset of the first record on the source.
            downstream_start: Base offset that the target answered.
            count: Records in the batch.
            writer: Producer state after this batch.

        Raises:
            InvariantError: A, B or C as `RunBuilder.append`, across blocks and the mirror's start as well.
        """
        if downstream_start < self._target_verified_end:
            raise InvariantError(
                "C",
                f"target offset {downstream_start} is below {self._target_verified_end}, the target's verified end",
            )
        if len(self._builder) >= self._max_runs and not self._builder.extends(
            upstream_start, downstream_start
        ):
            self._seal(upstream_start)
        self._builder.append(upstream_start, downstream_start, count)
        self._downstream_end = self._target_verified_end = DownstreamOffset(downstream_start + count)
        self._frontier = UpstreamOffset(max(self._frontier, upstream_start + count))
        self._writer = writer
        self._leader_epoch = UNKNOWN
        self._changed = True

    def passed(self, upstream_frontier: UpstreamOffset, leader_epoch: int | Unknown = UNKNOWN) -> None:
        """Move the frontier: everything below was appended and answered, or is known to be absent. It never moves back.

        Args:
            upstream_frontier: Next offset to fetch.
            leader_epoch: The source's leader epoch of the batch right below; only this shows later whether the source
                still holds that batch.
        """
        if upstream_frontier >= self._frontier:
            self._changed |= (upstream_frontier, leader_epoch) != (self._frontier, self._leader_epoch)
            self._frontier, self._leader_epoch = upstream_frontier, leader_epoch

    def skip_to(self, position: UpstreamOffset) -> None:
        """Record a gap up to ``position``: by an operator's choice its records are never mirrored.

        It begins after the last mirrored record, and includes an earlier gap if no record was mirrored since.
        """
        if position > self._frontier:
            mapped = self._builder.upstream_end if len(self._builder) else self._block_start
            kept = tuple(gap for gap in self._gaps if gap.end <= mapped)
            self._gaps = (*kept, Gap(UpstreamOffset(mapped), position))
            self.passed(position)

    def checked(self, log_end: DownstreamOffset) -> None:
        """Note that every record of the flow below ``log_end`` of the target's log is recorded.

        The log was read up to there after fencing, or while no batch was in flight.
        """
        if log_end > self._target_verified_end:
            self._target_verified_end = log_end
            self._changed = True

    def cut(self, at: DownstreamOffset, log_end: DownstreamOffset) -> bool:
        """Go back to where a mirror that keeps the source's offsets was cut; False where that is in a sealed block.

        Args:
            at: The offset behind the last record that is left, which the source's record has as well.
            log_end: Of the target, where at most markers follow.
        """
        if not self.same_offsets or at < self._block_start or self._sealed:
            return False
        kept = [
            replace(run, count=min(run.count, at - run.upstream_start))
            for run in self._builder.snapshot()
            if run.upstream_start < at
        ]
        self._builder = RunBuilder(kept)
        self._gaps = tuple(gap for gap in self._gaps if gap.end <= at)
        version = self.made[-1].version if self.made else ""
        self.made = tuple(one for one in self.made if one.start < at)
        self._downstream_end = kept[-1].downstream_end if kept else at
        self._frontier, self._target_verified_end = UpstreamOffset(at), log_end
        self._leader_epoch, self._changed = UNKNOWN, True
        self.made_by(version)
        return True

    def claimed(self, writer: WriterState) -> None:
        """Set the producer state with which the next batch will be written."""
        self._changed = self._changed or writer != self._writer
        self._writer = writer

    def made_by(self, version: str) -> None:
        """Note the version of the transform by which records from the frontier on are mirrored; empty without one."""
        if version != (self.made[-1].version if self.made else ""):
            kept = tuple(one for one in self.made if one.start < self._frontier)
            self.made = (*kept, MadeFrom(self._frontier, version))
            self._changed = True

    def saw_source(self, end: SeenOffset, log_start: SeenOffset) -> None:
        """Note the source's log bounds from a fetch answer; only a moved bound counts as a change."""
        moved = _moved(self._source_end, end) or _moved(self._source_log_start, log_start)
        self._changed = self._changed or moved
        self._source_end, self._source_log_start = end, log_start

    @property
    def target_verified_end(self) -> DownstreamOffset:
        """The target offset below which every mirrored record is recorded, as of `tail`."""
        return self._target_verified_end

    @property
    def tail(self) -> Tail:
        """The mirror's position now."""
        return Tail(
            upstream_frontier=self._frontier,
            downstream_end=(MirroredTo if len(self._builder) else NothingMirrored)(self._downstream_end),
            source_end=self._source_end,
            source_log_start=self._source_log_start,
            writer=self._writer,
            source_leader_epoch=self._leader_epoch,
            checked_to=self._target_verified_end
            if self._target_verified_end > self._downstream_end
            else UNKNOWN,
            same_offsets=self.same_offsets,
        )

    @property
    def changed(self) -> bool:
        """Whether `take` would return anything."""
        return self._changed

    def take(self) -> list[Block]:
        """The blocks to store now, oldest first; empty when nothing changed since the last call."""
        if not self._changed:
            return []
        blocks = [*self._sealed, self._block(sealed=False)]
        self._sealed, self._changed = [], False
        return blocks

    def _block(self, *, sealed: bool) -> Block:
        return Block(
            self.about,
            self._block_start,
            self.mirror_start,
            self._previous,
            self._builder.snapshot(),
            self.tail,
            sealed=sealed,
            gaps=self._gaps,
            made=self.made,
        )

    def _seal(self, next_start: UpstreamOffset) -> None:
        block = self._block(sealed=True)
        before = block.runs.upstream_end
        if next_start < before:
            raise InvariantError.below("source", next_start, before)
        self._sealed.append(block)
        self._previous = Follows(block.block_start, before)
        self._block_start = next_start
        self._builder, self._gaps, self.made = RunBuilder(), (), self.made[-1:]


def _moved(before: SeenOffset | Unknown, now: SeenOffset) -> bool:
    return before is UNKNOWN or before.offset != now.offset
