"""A partition's mirror in which every record has its source's own offset. It does no IO."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from mmtool.kafka.batches import BatchHeader, BatchView, ReadyBatch, at_holes
from mmtool.plain_text import duration
from mmtool.plan.flow.moves import START_AGAIN
from mmtool.plan.topics.facts import HaltReason
from mmtool.replication.pump.batch_prep import DeadLetter, Fill, InDoubtError, InFlightBatch
from mmtool.replication.pump.mirror import PartitionMirror
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mmtool.replication.spark.assignment import PartitionAssignment, ShardAssignment
    from mmtool.translation.blocks import MirroredPartition


MOST_FILLED = 1_000_000
"""Offsets that one fill may have: at 3,000 to 8,000 markers a second into a partition, minutes."""

FILLED_AT_ONCE = 3_000
"""Offsets of a fill that are written before a round may end: about a second."""


def neighbours(views: Sequence[BatchView]) -> list[Sequence[BatchView]]:
    """Batches of the source between which no offset is missing, together; what is joined then has no hole between."""
    cuts = [
        0,
        *(n for n, (a, b) in enumerate(pairwise(views), 1) if a.header.next_offset != b.header.base_offset),
    ]
    return [views[start:stop] for start, stop in pairwise([*cuts, len(views)])]


def offsets_differ(
    about: MirroredPartition, source: int, target: int, flow: str, *, translated: bool = False
) -> HaltReason:
    """Why a partition's mirror cannot keep the source's offsets.

    Args:
        about: The partition.
        source: The offset that the next record has on the source.
        target: The offset that the target gives it, or has given it.
        flow: The options that select the flow in a command.
        translated: Whether the mirror had translated offsets until now: only then the two may be the same number.
    """
    cause = (
        f"{about.upstream} was mirrored with translated offsets, up to {source} on the source and {target} on the"
        " target"
        if translated
        else f"the next record of {about.upstream} has offset {source} on the source, and would have {target} on the"
        f" target: another producer wrote to {about.target_topic}, or it was not empty when its mirror began"
    )
    return HaltReason(
        f"offsets_differ: {cause}",
        f"stop `mmtool replicate`, delete topic {about.target_topic} on the target, run `mmtool flow forget {flow}"
        f" --topic {about.source_topic} --execute`, {START_AGAIN}, which mirrors it from `mmtool.start`; or leave it as"
        " it is",
    )


class SameOffsetsMirror(PartitionMirror):
    """A mirror with the source's own offsets, of an assignment with ``same``.

    E. Each batch is answered with its source's offset, or the partition halts.
    F. Where the source has no record, markers are written: when all before them is acknowledged; and nothing is sent
       before they are.
    G. What the other direction's flow wrote on the source came from the target and is there, at the same offsets.
       Nothing else is taken for granted: a record of the source at an offset that the target has given away halts the
       partition.
    """

    def __init__(self, assignment: PartitionAssignment, shard: ShardAssignment, **options: Any) -> None:
        super().__init__(assignment, shard, **options)
        assert assignment.same is not None
        self.writers = assignment.same
        self.downstream_end = assignment.block.tail.target_verified_end
        # of the target's log, once all that is queued is written
        self._end = UpstreamOffset(self.downstream_end)
        self._is_filling = self._is_closed = False
        self.begun, self.waits = False, True

    def begin(self, log_end: DownstreamOffset, sequence: int, *, is_empty: bool) -> None:
        """Continue the target's log; the mirror halts if the log holds anything else.

        Args:
            log_end: Of the target's leader, with all replicas in sync.
            sequence: That the leader expects.
            is_empty: Whether the log of a new mirror holds no record.

        Raises:
            InDoubtError: the log has another end than the mirror.
        """
        self.begun, self.waits = True, False
        if self.reason:
            return
        has_grown = log_end > self.downstream_end
        if (
            self.assignment.stored
            and log_end != self.downstream_end
            and not (self.writers.shared and has_grown)
        ):
            raise InDoubtError(
                f"{self.name}: the target's log ends at {log_end}, not at {self.downstream_end}"
            )
        is_taken = not is_empty or (log_end > self.frontier and not self.assignment.stored)
        translated = not self._recorder.same_offsets
        if translated or (is_taken and not self.writers.shared):
            self._differ(self.frontier, log_end, translated=translated)
            return
        self.downstream_end, self._end = log_end, UpstreamOffset(log_end)
        self.sequence = sequence
        self._fill_up()

    # --- fetched ------------------------------------------------------------------------------------------

    def _queue_wanted(self, judged: Sequence[tuple[BatchView, bool]]) -> None:
        for is_there, some in groupby(judged, lambda one: self._is_there(one[0].header)):
            if is_there:
                end = UpstreamOffset([view for view, _ in some][-1].header.next_offset)
                self._end = max(self._end, end)
                self._pass_over(end)
            else:
                super()._queue_wanted(list(some))

    def _is_there(self, header: BatchHeader) -> bool:
        """Whether the target has a batch (G); the marker of a promotion, which alone has an epoch, it has not."""
        is_promotion = header.is_control and header.producer_epoch > 0
        return self.writers.shared and header.producer_id in self._left_out and not is_promotion

    def _prepared(self, views: Sequence[BatchView]) -> Iterator[ReadyBatch]:
        for some in neighbours(views):
            for batch in super()._prepared(some):
                yield from at_holes(batch)

    def _queue(self, batches: Iterable[ReadyBatch]) -> None:
        self._recorder.claimed(self.writer)
        for batch in batches:
            behind = batch.upstream_next
            self._pass_over(batch.upstream_start)
            batch.upstream_next = UpstreamOffset(batch.upstream_start + batch.record_count)
            if batch.upstream_start < self._end:
                self._differ(batch.upstream_start, self._end)
            if self.reason or self.then_halt:
                return
            self._unsent.append(batch)
            self.held_bytes += batch.size
            if not isinstance(batch, DeadLetter):  # whose offset a marker takes
                self._end = batch.upstream_next
            self._pass_over(behind)

    def _pass_over(self, position: UpstreamOffset) -> None:
        self.fetch_position = max(self.fetch_position, position)
        self._epochs.read_to(position)
        self._fill_up()

    def _fill_up(self) -> None:
        """Queue a fill up to the fetch position, behind what is queued (F)."""
        if self.reason or self.then_halt:
            return
        if self._end < self.fetch_position:
            last = self._unsent[-1] if self._unsent else None
            if isinstance(last, Fill):
                last.extend(self.fetch_position)
            else:
                last = Fill(self._end, self.fetch_position)
                self._unsent.append(last)
            self._end = self.fetch_position
            if last.left > MOST_FILLED:
                self._unsent.pop()
                self.halt_behind(
                    f"the source has no record at the {last.left} offsets before {self._end}, for which mmtool would"
                    f" write markers for about {duration(last.left / FILLED_AT_ONCE)}: it writes at most {MOST_FILLED}"
                    " in a row; mirror this topic with mmtool.offsets = translated"
                )
                return
        self._catch_up()

    def _catch_up(self) -> None:
        """Move the frontier to the fetch position once all is written."""
        is_written = not (self._unsent or self._in_flight or self.waits or self._is_closed)
        if is_written and not self.then_halt:
            self.downstream_end = DownstreamOffset(self._end)
            self._recorder.checked(self.downstream_end)
            self._advance(self.fetch_position)

    # --- sent ---------------------------------------------------------------------------------------------

    @property
    def fillable(self) -> bool:
        return self._is_free and self._unsent.fill is not None

    def next_fill(self) -> Fill:
        """The fill to write now, or the first of it, taken from the queue; call it only when ``fillable``."""
        fill = self._unsent.fill
        assert fill is not None
        self.waits = self._is_filling = True
        if fill.left > FILLED_AT_ONCE:
            return fill.split(FILLED_AT_ONCE)
        self._unsent.popleft()
        return fill

    def filled(self, fill: Fill) -> None:
        """Move the frontier past a fill that was written."""
        self.waits = self._is_filling = False
        self.downstream_end = DownstreamOffset(fill.upstream_next)
        self._recorder.checked(self.downstream_end)
        self._advance(fill.upstream_next)
        self._settle()

    @property
    def mark(self) -> int | None:
        return None if super().mark is None else self.downstream_end

    @property
    def settled(self) -> bool:
        return super().settled and not self._is_filling

    def _was_cut(self, log_end: DownstreamOffset) -> None:
        if self.writers.shared:  # the other direction's records do not come again
            super()._was_cut(log_end)
            return
        raise InDoubtError(f"{self.name}: the target's log ends at {log_end}, before {self.downstream_end}")

    def _checked(self, log_end: DownstreamOffset) -> None:
        if log_end != self.downstream_end and (self._unsent or not self.writers.shared):
            self._differ(self.frontier, log_end)
            return
        self._end = max(self._end, UpstreamOffset(log_end))
        self._catch_up()

    def _with_fills(self, pieces: Sequence[ReadyBatch]) -> Sequence[ReadyBatch | Fill]:
        found: list[ReadyBatch | Fill] = []
        for piece in pieces:
            found.append(piece)
            if isinstance(piece, DeadLetter):
                found.append(Fill(piece.upstream_start, piece.upstream_next))
        return found

    def _settle(self) -> None:
        super()._settle()
        self._catch_up()

    def _book(self, sent: InFlightBatch) -> None:
        start = sent.batch.upstream_start
        if int(sent.base_offset) != start:
            self._differ(start, sent.base_offset)
            return
        super()._book(sent)

    def _differ(self, source: int, target: int, *, translated: bool = False) -> None:
        about, flow = self.open_block.about, self.assignment.flow_options
        self.halt(offsets_differ(about, source, target, flow, translated=translated), for_good=True)

    def drop_unsent(self) -> int:
        self._is_closed = True
        return super().drop_unsent()
