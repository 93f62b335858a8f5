"""The state machine of one partition's mirror: fetched, in flight, acknowledged. It does no IO."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mmtool.kafka.batches import BatchError, BatchHeader, BatchView, ReadyBatch
from mmtool.kafka.wire.codes import FENCED, RETRIABLE, Code, name_of
from mmtool.plan.flow.moves import rebuild
from mmtool.plan.records.documents import State
from mmtool.replication.pump.batch_prep import (
    NO_TIME,
    NOBODY_KNOWS,
    PERHAPS_APPENDED,
    BatchState,
    DeadLetter,
    FencedError,
    Fill,
    InDoubtError,
    InFlightBatch,
    Unsent,
    judge,
    prepared,
    refusal,
    shrunk,
    why,
)
from mmtool.replication.pump.log_changes import Foreign, Gaps, LeaderEpochs, source_cut, target_cut
from mmtool.runtime.latency import Latency, LatencyCounter
from mmtool.translation.blocks import Block, SeenOffset, WriterState
from mmtool.translation.errors import InvariantError
from mmtool.translation.recorder import OPEN_RUNS, MapRecorder
from mmtool.translation.runs import Mirrored
from mmtool.translation.types import UNKNOWN, DownstreamOffset, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from mmtool.kafka.wire.fetch import FetchedPartition
    from mmtool.kafka.wire.produce import ProducedPartition
    from mmtool.replication.pump.budget import RoundTrips
    from mmtool.replication.spark.assignment import PartitionAssignment, ShardAssignment

IN_FLIGHT = 5
"""Brokers remember five batches of a producer per partition; up to five may be retried without harm (KIP-98)."""

_REMEMBERED_MS = 3_600_000
"""For how long after a batch's newest timestamp a partition surely remembers our producer id (it is a day by default).

Brokers forget a producer id whose last batch in a partition has a newest timestamp older than
``producer.id.expiration.ms``, at their next check or restart, however recently they appended the batch.
"""

_ENDS = 120
"""Ends of the source that are remembered: of more, every second one is forgotten."""


class PartitionMirror:
    """The state of one partition's mirror.

    A. Batches are sent in upstream order, numbered without gaps, at most five unanswered; only one while the partition
       may not remember our producer id: such a partition takes any first number, and would append the second batch when
       the first was refused. It remembers us by the batch that it appended last, see `_REMEMBERED_MS`.
    B. While any answer is a retriable error or missing, nothing new is sent; once all are in, what is missing
       is sent again with the same bytes and numbers. A batch that may be on the target, and by which the partition does
       not remember us, is not sent again: the partition could append it twice.
    C. A record reaches the offset runs once, in order, and only with the offset that the target answered.
    D. ``held_bytes`` is the size of all batches fetched and not yet acknowledged.
    """

    def __init__(
        self,
        assignment: PartitionAssignment,
        shard: ShardAssignment,
        *,
        read_committed: bool,
        left_out: Container[int] = (),
        round_trips: RoundTrips | None = None,
        with_letters: bool = False,
        foreign: Foreign | None = None,
    ) -> None:
        self.assignment = assignment
        self._left_out = left_out
        self._with_letters = with_letters
        self.foreign = foreign
        self._round_trips = round_trips
        self.shard = shard
        self.unsynced: Mirrored | None = None  # the last record, unless an offset sync of it was taken
        same = assignment.same
        self._writes_as = (
            (shard.producer_id, shard.epoch) if same is None else (same.data_producer, same.epoch)
        )
        self._unsent: Unsent = Unsent()
        self._in_flight: deque[InFlightBatch] = deque()
        self.open_block = assignment.block
        self.sequence = assignment.next_sequence
        # a mirror that keeps offsets shows by this first write that its claim still holds
        is_new = same is not None or not assignment.stored
        self._recorder = MapRecorder(assignment.block, changed=is_new, max_runs=OPEN_RUNS)
        if same is not None and not assignment.block.runs:
            self._recorder.same_offsets = True
        if self.was_same:
            self._unsent.letters_to = assignment.block.tail.upstream_frontier
            self._unsent.stored_to = self._unsent.letters_to - 1
        transform = assignment.transform
        if not assignment.halted and (transform is None or not transform.problem):
            self._recorder.made_by("" if transform is None else transform.version)
        if assignment.block.tail.writer is UNKNOWN:
            self._recorder.claimed(self.writer)
        self.frontier: UpstreamOffset = assignment.block.tail.upstream_frontier
        self.downstream_end: DownstreamOffset = assignment.block.tail.downstream_end.position
        self.fetch_position: UpstreamOffset = self.frontier
        self._epochs = LeaderEpochs(self.frontier, assignment.block.tail.source_leader_epoch)
        self.state = State.HALTED if assignment.halted else State.STARTING
        self.reason, self.for_good = assignment.halted, assignment.for_good
        self.held_bytes, self.queued, self.dirty = 0, False, True
        self.records, self.bytes, self.dead_letters, *_ = assignment.tally
        self.gaps = Gaps.of(assignment.tally.gaps, assignment.tally.gaps_end)
        self.latencies = LatencyCounter(Latency(assignment.tally.latency, assignment.tally.latency_ms))
        self.source_end = self.log_start = self.high_watermark = self._seen_ms = 0
        self.behind_since_ms, self.at_end_ms = assignment.behind_since_ms, assignment.at_end_ms
        self._ends = deque[SeenOffset]()  # of the source, above the frontier, with the last time of each
        self._acknowledged_ms, self._now_ms, self._renumbered = NO_TIME, 0, set[InFlightBatch]()
        self.waits = False  # for something else than its batches: nothing is sent
        self.is_held = False  # by stored offset runs, until it is woken
        self.begun = True  # before, nothing is read
        self.then_halt = ""  # once all that came before it is on the target
        self._heard, self._read_committed = False, read_committed
        self.unreadable = assignment.tally.unreadable
        self.changed_since: float | None = None  # monotonic, while its transform has its records

    # --- fetched ------------------------------------------------------------------------------------------

    def to_change(self, fetched: FetchedPartition) -> list[BatchView]:
        """The batches of a fetch answer with records that are mirrored, and so are changed by a transform first."""
        judged, _ = judge(fetched.records, fetched.aborted if self._read_committed else ())
        return [
            view
            for view, is_data in judged
            if is_data and view.header.next_offset > self.fetch_position and self._wants(view.header)
        ]

    def offer(self, fetched: FetchedPartition, now_ms: int) -> int:
        """Take one fetch answer; return by how many bytes ``held_bytes`` has grown.

        A batch that cannot be mirrored halts the partition, and ``reason`` says why.
        """
        if self.state == State.HALTED or self.then_halt:
            return 0
        before = self.held_bytes
        if fetched.diverging is not None:
            a = self.assignment
            self.halt(
                source_cut(fetched.diverging, self.frontier, self.fetch_position, a.place, a.flow_options)
            )
            return self.held_bytes - before
        self.hear(fetched, now_ms)
        try:
            self._take(fetched)
        except BatchError as error:
            self.halt_behind(why(error, self.assignment))
        self.note_lag(now_ms)
        return self.held_bytes - before

    def hear(self, fetched: FetchedPartition, now_ms: int) -> None:
        """Note the bounds of the source's log from a fetch answer."""
        self._heard, self._seen_ms = True, now_ms
        self.log_start = fetched.log_start_offset
        self.high_watermark = fetched.high_watermark
        self.source_end = fetched.last_stable_offset if self._read_committed else fetched.high_watermark
        end, start = UpstreamOffset(self.source_end), UpstreamOffset(self.log_start)
        self._recorder.saw_source(SeenOffset(end, now_ms), SeenOffset(start, now_ms))
        self._now_ms = now_ms

    def _take(self, fetched: FetchedPartition) -> None:
        judged, unreadable = judge(fetched.records, fetched.aborted if self._read_committed else ())
        new = [(view, is_data) for view, is_data in judged if view.header.next_offset > self.fetch_position]
        self._epochs.coming((view.header.base_offset, view.header.leader_epoch) for view, _ in new)
        if new:
            self._queue_wanted(new)
        if unreadable is not None:
            raise BatchError(f"at source offset {self.fetch_position}: {unreadable.message}")

    def _queue_wanted(self, judged: Sequence[tuple[BatchView, bool]]) -> None:
        wanted = [view for view, is_data in judged if is_data and self._wants(view.header)]
        if wanted:
            self._queue(self._prepared(wanted))
        self._pass_over(UpstreamOffset(judged[-1][0].header.next_offset))

    def _wants(self, header: BatchHeader) -> bool:
        """Whether a batch has records, and an origin that this flow mirrors."""
        return header.record_count > 0 and header.producer_id not in self._left_out

    def _prepared(self, views: Sequence[BatchView]) -> Iterator[ReadyBatch]:
        return prepared(
            views,
            position=self.fetch_position,
            max_batch_bytes=self.assignment.max_batch_bytes,
            goal_bytes=0 if self._round_trips is None else self._round_trips.goal_bytes,
            dead_letters=self._with_letters,
        )

    def _queue(self, batches: Iterable[ReadyBatch]) -> None:
        # not before: of a partition at rest the last batch's number tells whether a log was cut that has grown again
        self._recorder.claimed(self.writer)
        if self.was_same:
            self._recorder.same_offsets = False
            self.is_held |= self.awaits_books
        for batch in batches:
            self._unsent.append(batch)
            self.held_bytes += batch.size
            self._pass_over(batch.upstream_next)

    def _pass_over(self, position: UpstreamOffset) -> None:
        """Move the fetch position: everything below ``position`` is held or absent.

        The last held batch carries the frontier with it.
        """
        self.fetch_position = max(self.fetch_position, position)
        self._epochs.read_to(position)
        if self._unsent:
            self._unsent[-1].upstream_next = self.fetch_position
        elif self._in_flight:
            self._in_flight[-1].batch.upstream_next = self.fetch_position
        else:
            self._advance(self.fetch_position)

    def _advance(self, frontier: UpstreamOffset) -> None:
        if frontier > self.frontier:
            if self.was_same:  # what is passed over gets no marker
                self._recorder.same_offsets = False
            self.frontier = frontier
            self._recorder.passed(frontier, self._epochs.at(frontier))
            self.dirty = True

    def skip_to(self, position: UpstreamOffset) -> None:
        """Continue at ``position``: the source deleted the records below before they were read."""
        self._epochs.coming([(position - 1, UNKNOWN)])
        self._pass_over(position)

    def end_seen_ms(self, heard_ms: int) -> int:
        """When ``source_end`` was last known, in ms since 1970; 0 before the first answer.

        ``heard_ms`` for a partition that is being fetched at its end: an answer tells of every new record.
        """
        at_end = self._heard and not self.held_bytes and self.fetch_position >= self.source_end
        return heard_ms if at_end else min(heard_ms, self._seen_ms)

    def note_lag(self, now_ms: int) -> None:
        """Update the state, and up to when the mirror has everything that the source had."""
        if not self._heard:
            return
        if self._ends and self._ends[-1].offset == self.source_end:
            self._ends.pop()
        self._ends.append(SeenOffset(UpstreamOffset(self.source_end), now_ms))
        while self._ends and self._ends[0].offset <= self.frontier:
            self.at_end_ms = self._ends.popleft().at_ms
        if len(self._ends) > _ENDS:
            self._ends = deque(list(self._ends)[::2])
        behind = self.frontier < self.source_end
        self.behind_since_ms = (self.behind_since_ms or now_ms) if behind else 0
        if self.state in (State.STARTING, State.RUNNING, State.CAUGHT_UP):
            state = State.RUNNING if behind else State.CAUGHT_UP
            self.dirty |= state != self.state
            self.state = state

    # --- sending ------------------------------------------------------------------------------------------

    @property
    def sendable(self) -> bool:
        """Whether ``next_to_send`` has a batch to return."""
        fates = [sent.fate for sent in self._in_flight]
        if self.state == State.HALTED or self.waits or BatchState.MISSING in fates:
            return False
        if BatchState.AGAIN in fates:
            return True
        times = (self._acknowledged_ms, *(sent.newest_ms for sent in self._in_flight))
        limit = IN_FLIGHT if self._is_remembered_by(min(times)) else 1
        return self._unsent.goes and len(fates) < limit

    def _is_remembered_by(self, newest_ms: float) -> bool:
        """Whether a partition surely remembers our producer id by a batch with this newest timestamp."""
        return newest_ms > self._now_ms - _REMEMBERED_MS

    @property
    def letter(self) -> DeadLetter | None:
        """The dead letter to write now; None without one, while batches before it are unanswered, and when halted.

        Nothing after a dead letter is in flight.
        """
        return self._unsent.letter if self._is_free else None

    @property
    def _is_free(self) -> bool:
        """Whether something else than a batch may be written."""
        return not (self._in_flight or self._renumbered or self.waits or self.state == State.HALTED)

    @property
    def fillable(self) -> bool:
        """Whether markers are to be written now, by a mirror that keeps the source's offsets."""
        return False

    def posted(self, letter: DeadLetter) -> None:
        """Move the frontier past a dead letter that was written, unless the mirror dropped it meanwhile.

        Later batches then wait for stored offset runs, see `Unsent` A.
        """
        if self.letter is letter:
            self._unsent.popleft()
            self.held_bytes -= letter.size
            self._advance(letter.upstream_next)
            self._unsent.letters_to, self.is_held = self.frontier, True
            self.dead_letters += 1
            self._settle()

    @property
    def read_epoch(self) -> int | Unknown:
        """The source's leader epoch of the batch read right below ``fetch_position``."""
        return self._epochs.last

    @property
    def untouched(self) -> bool:
        """Whether the partition was neither read nor stored yet.

        Records that the source deletes now are older than the mirror, and no data loss.
        """
        return not (self._heard or self.assignment.stored)

    @property
    def mark(self) -> int | None:
        """The next sequence number while no batch is in flight; None while one is.

        The same mark at a later time means that no batch was sent in between.
        """
        return None if self._in_flight or self.waits else self.sequence

    def looked(self, mark: int | None, log_end: DownstreamOffset) -> None:
        """Check a log end of the target that was read while no batch was in flight, since ``mark`` was taken.

        Every record of the flow below ``log_end`` is recorded, unless the log ends too early: then the mirror halts.
        """
        if mark is None or mark != self.mark or self.state == State.HALTED:
            return
        if log_end < self._recorder.target_verified_end:
            self._was_cut(log_end)
        else:
            self._checked(log_end)

    def _was_cut(self, log_end: DownstreamOffset) -> None:
        verified, flow = self._recorder.target_verified_end, self.assignment.flow_options
        self.halt(target_cut(self.open_block.about, log_end, verified, flow), for_good=True)

    def _checked(self, log_end: DownstreamOffset) -> None:
        if self.foreign is None:
            self._recorder.checked(log_end)
        elif self.foreign.reached(log_end):
            self.dirty = True

    @property
    def settled(self) -> bool:
        """Whether it is known which batches the target holds: none is without a clear answer.

        The target may have refused batches, or deferred them.
        """
        unknown = (sent for sent in self._in_flight if sent.fate is BatchState.PENDING or sent.unsure)
        return not self._renumbered and next(unknown, None) is None

    def next_to_send(self) -> InFlightBatch:
        """The next batch to send, with its sequence number stamped; call it only when ``sendable``."""
        again = next((sent for sent in self._in_flight if sent.fate is BatchState.AGAIN), None)
        if again is not None:
            again.fate = BatchState.PENDING
            return again
        batch = self._unsent.popleft()
        assert isinstance(batch, ReadyBatch)
        sent = InFlightBatch(batch, self.sequence)
        self.sequence = sent.next_sequence
        batch.stamp(*self._writes_as, sent.sequence)
        self._in_flight.append(sent)
        return sent

    def lost(self, sent: InFlightBatch) -> None:
        """Note that no answer to a batch came: the batch may or may not be on the target.

        Raises:
            InDoubtError: other records have the batch's sequence number by now, or it cannot be sent again (B).
        """
        if sent in self._renumbered:
            raise InDoubtError(
                f"{self.name}: the target did not acknowledge a batch, and other records have its sequence number now"
            )
        if sent not in self._in_flight:
            return  # numbered anew meanwhile, because one before it was refused
        sent.fate, sent.unsure = BatchState.MISSING, True
        self._settle()

    def answered(self, sent: InFlightBatch, answer: ProducedPartition) -> None:
        """Take the target's answer to one batch.

        Raises:
            FencedError: another owner claimed the shard.
            InDoubtError: the batch is or may be on the target, at an unknown offset.
        """
        if sent not in self._in_flight:
            self._renumbered.discard(sent)
            return  # numbered anew meanwhile, because one before it was refused
        is_oldest = self._in_flight[0] is sent  # so a number out of order will be so for ever
        code = answer.error_code
        too_large = code in (Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE)
        if too_large and any(one.unsure for one in self._in_flight):
            raise InDoubtError(
                f"{self.name}: the target refuses a batch as too large, and may have appended it before"
            )
        sent.unsure |= code in PERHAPS_APPENDED
        if code == Code.NONE:
            sent.fate, sent.unsure = BatchState.APPENDED, False
            sent.base_offset = DownstreamOffset(answer.base_offset)
        elif code in FENCED:
            raise FencedError(f"shard {self.shard.shard}: {name_of(code)}")
        elif code in NOBODY_KNOWS or (code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER and is_oldest):
            raise InDoubtError(f"{self.name}: {name_of(code)}")
        elif code in RETRIABLE or code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
            sent.fate = BatchState.MISSING
        elif too_large:
            self._shrink(sent)
        else:
            sent.fate = BatchState.MISSING
            reason, transform = refusal(sent, answer, self.assignment.target_topic), self.assignment.transform
            self.halt(reason if transform is None else f"{transform.name} changes its records, and {reason}")
        self._settle()

    def _shrink(self, sent: InFlightBatch) -> None:
        """Queue a batch again in smaller pieces, under the same sequence numbers.

        The target's limit is lower than it reported.
        """
        sent.fate = BatchState.MISSING
        try:
            pieces = shrunk(sent.batch, self.assignment.max_batch_bytes, dead_letters=self._with_letters)
        except BatchError as error:
            self.halt(why(error, self.assignment))
            return
        # nothing behind a refused batch was appended, so the pieces and all behind them are numbered anew
        while (last := self._in_flight.pop()) is not sent:
            self._unsent.appendleft(last.batch)
            if last.fate is BatchState.PENDING:
                self._renumbered.add(last)  # a letter among the pieces takes no number: others get theirs
        self._unsent.extendleft(reversed(self._with_fills(pieces)))
        self.held_bytes += sum(piece.size for piece in pieces) - sent.batch.size
        self.sequence = sent.sequence

    def _with_fills(self, pieces: Sequence[ReadyBatch]) -> Sequence[ReadyBatch | Fill]:
        return pieces

    def _settle(self) -> None:
        """Record acknowledged batches in order.

        Once every answer is in, batches that are missing on the target may be sent again.

        Raises:
            InDoubtError: one of them cannot (B).
        """
        while not self.for_good and self._in_flight and self._in_flight[0].fate is BatchState.APPENDED:
            self._book(self._in_flight[0])
        if self.then_halt and not self._unsent and not self._in_flight and self.state != State.HALTED:
            self.halt(self.then_halt)
        fates = [sent.fate for sent in self._in_flight]
        if BatchState.MISSING in fates and BatchState.PENDING not in fates:
            for sent in self._in_flight:
                if sent.unsure and not self._is_remembered_by(sent.newest_ms):
                    raise InDoubtError(
                        f"{self.name}: a batch is unacknowledged whose records are so old that the target may not"
                        " recognise it when it is sent again"
                    )
                if sent.fate is BatchState.MISSING:
                    sent.fate = BatchState.AGAIN

    def _book(self, sent: InFlightBatch) -> None:
        batch, downstream = sent.batch, sent.base_offset
        writer = WriterState(*self._writes_as, sent.next_sequence)
        try:
            for segment in batch.segments:
                self._recorder.appended(segment.upstream_start, downstream, segment.count, writer=writer)
                downstream = DownstreamOffset(downstream + segment.count)
        except InvariantError as broken:
            got = f"new records got offset {sent.base_offset} on the target"
            why_not = (
                f"diverged: {got}, which contradicts the stored map of source offsets to target offsets"
                f" ({broken.sentence}): {rebuild(self.assignment.topic, self.assignment.flow_options)}"
            )
            self.halt(why_not, for_good=True)  # nothing behind it is booked: the frontier stays before it
            return
        self._in_flight.popleft()
        last = batch.segments[-1]
        self.unsynced = Mirrored(
            UpstreamOffset(last.upstream_start + last.count - 1), DownstreamOffset(downstream - 1)
        )
        if self.foreign is not None:
            self.foreign.appended(sent.base_offset, downstream)
        # a broker with message.timestamp.type=LogAppendTime has its own time
        self._acknowledged_ms = min(sent.newest_ms, self._now_ms)
        self.downstream_end = downstream
        self._advance(batch.upstream_next)
        self.held_bytes -= batch.size
        self.records += batch.record_count
        self.bytes += batch.size
        self.dirty = True

    def take_blocks(self) -> list[Block]:
        """The blocks of offset runs that changed since the last call, oldest first, to be stored."""
        blocks = self._recorder.take()
        if blocks:
            self.open_block = blocks[-1]
        return blocks

    @property
    def awaits_books(self) -> bool:
        """Whether batches wait for `stored`: those after the last dead letter, or with other offsets than before."""
        return self._unsent.awaits_books

    def stored(self) -> None:
        """Note that the blocks of the last `take_blocks` are stored on the target."""
        if not (self.was_same and self.open_block.tail.same_offsets):
            self._unsent.stored_to = self.open_block.tail.upstream_frontier

    @property
    def was_same(self) -> bool:
        """Whether records had the source's own offsets in the mirror until now, and new ones have the target's."""
        return self.assignment.same is None and self.assignment.block.tail.same_offsets

    @property
    def name(self) -> str:
        return str(self.assignment.place)

    @property
    def writer(self) -> WriterState:
        """The producer state after the last recorded batch."""
        next_sequence = self._in_flight[0].sequence if self._in_flight else self.sequence
        return WriterState(*self._writes_as, next_sequence)

    def halt(self, reason: str, *, for_good: bool = False) -> None:
        """Stop mirroring the partition, and drop what was fetched and never sent.

        ``for_good``: the partition stays halted as long as this owner runs.
        """
        self.drop_unsent()
        self.state, self.reason, self.dirty = State.HALTED, reason, True
        self.for_good |= for_good

    def halt_behind(self, reason: str) -> None:
        """Stop mirroring the partition once all batches read before are on the target.

        The source may not hold those records any more.
        """
        self.then_halt = reason
        self._settle()

    def drop_unsent(self) -> int:
        """Discard what was fetched and never sent, and return the bytes freed."""
        freed = self._unsent.drop()
        self.held_bytes -= freed
        return freed
