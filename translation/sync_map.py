"""Translate committed offsets by MirrorMaker 2's offset syncs and checkpoints of one partition.

MM2 itself keeps 64 syncs of a partition, and on average far fewer distinct ones; this map uses every sync that is still
in its topic, and the checkpoints of all groups beside them, because an offset that MM2 translated for one group is
valid for each. An answer is therefore never before the one that MM2 gives from the same topics.

A sync says that the *record* ``u`` was written at ``d``: MM2 copies in order, so records below ``u`` are below ``d``,
and those after it after ``d``. In offsets to commit: ``u`` is at ``d`` and ``u + 1`` at ``d + 1`` (KAFKA-12468's rule,
which adds one and never interpolates). A restart copies some records again, to higher offsets; its first sync may be of
a later one of them, as a task of MM2 sends ten at a time for all of its partitions and drops a delayed sync for a newer
one. The later copies are used once they reach as far as the ones before: MM2 itself uses them at once, and a group
would skip the records that were not copied again if MM2 or its source failed then. A recreated target topic shows as a
downstream offset that is not above the one before: all earlier syncs are about a log that is gone.

One sync can come after later ones of its partition: of MM2's two threads that send, one takes a sync, and the other
takes and sends the next ones before it (4.3.1). In the topic that looks like a recreated target topic.

N  never skips: each surviving record at or after the commit is at or after the answer
R  at most ``reread_max`` records below the commit are at or after the answer; an exact answer re-reads none
M  monotone: a later commit never gets an earlier answer
W  never worse than MM2: at or after what its `OffsetSyncStore` answers from the same topic, where that skips nothing
   and each restart's first record has a sync
O  overtaken: a sync that goes back on the target leaves the syncs below it valid only where it lies between its two
   neighbours on both sides with room for each record once, the next sync is not between it and the furthest one, and
   it came within 10 minutes of the one before. The syncs that overtook it are left out: had the target's log been
   truncated there, they would be wrong. In any other case the topic was recreated, and all syncs before are left out
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, groupby, pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from mmtool.translation.answers import (
    Answer,
    Bounded,
    Exact,
    Knowledge,
    Reason,
    Refused,
    SourceLog,
    TargetLog,
)
from mmtool.translation.types import UNKNOWN, DownstreamOffset, Unknown, UpstreamOffset


class OffsetPair(NamedTuple):
    """A pair of offsets that MM2 wrote: of one record in a sync, of the next offsets to read in a checkpoint.

    Attributes:
        timestamp_ms: When it was written, since the epoch.
    """

    upstream: UpstreamOffset
    downstream: DownstreamOffset
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class _Stairs:
    """For each position on one side the furthest one on the other that belongs to it or to one before it."""

    at: list[int]
    to: list[int]
    furthest: list[int]

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> _Stairs:
        ordered = sorted(pairs)
        to = [to for _, to in ordered]
        return cls([at for at, _ in ordered], to, list(accumulate(to, max)))

    def up_to(self, position: int) -> int | None:
        """The furthest value of all positions up to ``position``; None before the first of them."""
        step = bisect_right(self.at, position)
        return self.furthest[step - 1] if step else None

    def last(self, position: int) -> int | None:
        """The value of the last position up to ``position``, however far others are; None before the first."""
        step = bisect_right(self.at, position)
        return self.to[step - 1] if step else None

    def first_at(self, furthest: int) -> int:
        """The first position that reached the value ``furthest``."""
        return self.at[bisect_left(self.furthest, furthest)]


class _Copy(NamedTuple):
    """A synced record where it was copied to.

    Attributes:
        reach: How far upstream records may have been copied before it (an exclusive end).
        begins: Whether a restart copied it, or some before it, for the second time.
        settled: Whether the copies from here on reach as far as the ones before.
        since: Behind the synced record before it.
    """

    upstream: int
    downstream: int
    reach: int
    begins: bool
    settled: bool
    since: int

    def positions(self) -> Iterator[tuple[int, int]]:
        """The offsets on both sides to commit for the record, and for the one after it.

        While a repetition is not complete, its target offsets count for source offsets that were never copied before.
        """
        for more in (0, 1):
            upstream = self.upstream + more
            yield upstream if self.settled else max(upstream, self.reach), self.downstream + more


@dataclass(frozen=True, slots=True)
class SyncMap:
    """One partition's syncs and checkpoints: syncs of one target log, ascending on the target (law O).

    Attributes:
        forward: Source offsets to target offsets (next to read), of syncs and checkpoints.
        back: Target offsets to source offsets (next to read), of syncs alone: a checkpoint says which records are not
            before an offset, and not which are.
        copies: The synced records with their offsets on both sides, in the order of the target's log.
        told: Their source offsets, ascending.
        begun: Those that a restart copied a second time, or after records that it copied again; seldom any.
        first: The one with the lowest source offset; None when no sync is left.
        from_start: No sync is gone, and MM2 began at the source's beginning: the target's records below the first sync
            are copies of the source's records below it, and where there is room for more, later ones that MM2 copied
            again after a restart. MM2 sends ten syncs at a time, for all partitions of a task: on a busy one the first
            sync of a partition is seldom of its first record.
    """

    forward: _Stairs
    back: _Stairs
    copies: list[_Copy]
    told: list[int]
    begun: list[_Copy]
    first: _Copy | None
    from_start: bool = False

    @classmethod
    def of(
        cls,
        syncs: Iterable[OffsetPair],
        checkpoints: Iterable[OffsetPair] = (),
        *,
        exactly_once: bool = False,
        from_start: bool = False,
    ) -> SyncMap | None:
        """The map of a partition's syncs and checkpoints; None when nothing is known.

        Args:
            syncs: In the order of their topic.
            checkpoints: Of any group, in any order.
            exactly_once: MM2 runs with ``exactly.once.source.support``: a restart copies nothing twice, and offsets
                between the copies of a stretch are transaction markers.
            from_start: The syncs are all that MM2 ever sent of the partition, and it began at the source's beginning.
        """
        log = _of_this_log(syncs, exactly_once=exactly_once)
        from_start = from_start and not log.since_ms
        copies = _copies(log, exactly_once=exactly_once, from_start=from_start)
        held = [
            (c.upstream, c.downstream)
            for c in checkpoints
            if c.timestamp_ms >= log.since_ms and _adds(c, log.syncs)
        ]
        if not copies and not held:
            return None
        forward = [position for copy in copies for position in copy.positions()] + held
        back = [(copy.downstream + more, copy.upstream + more) for copy in copies for more in (0, 1)]
        return cls(
            _Stairs.of(forward),
            _Stairs.of(back),
            copies,
            sorted({copy.upstream for copy in copies}),
            [copy for copy in copies if copy.begins],
            min(copies, default=None),
            from_start and bool(copies),
        )

    @property
    def knowledge(self) -> Knowledge:
        return Knowledge.OFFSET_SYNCS if self.copies else Knowledge.CHECKPOINTS

    def around(self, downstream: int) -> tuple[_Copy | None, _Copy | None]:
        """The last synced record at or before a position of the target's log, and the one after that."""
        step = bisect_right(self.copies, downstream, key=_place)
        return (
            self.copies[step - 1] if step else None,
            self.copies[step] if step < len(self.copies) else None,
        )

    def repeated_below(self, commit: int, downstream: int) -> int:
        """How many records below ``commit`` may be copied again at or after ``downstream``, at most."""
        return sum(
            # of an incomplete repetition also those from this record on
            self.hidden_below(commit, copy, downstream)
            + (0 if copy.settled else max(0, commit - copy.upstream))
            for copy in self.begun
            if copy.downstream >= downstream
        )

    def begun_from(self, downstream: int) -> int:
        """How many restarts may have copied records again at or after ``downstream``."""
        return sum(copy.downstream >= downstream for copy in self.begun)

    def hidden_below(self, commit: int, copy: _Copy, downstream: int) -> int:
        """How many records below ``commit`` a restart may have copied again before the first of them that was synced.

        At most as many as fit before ``copy`` from ``downstream`` on, less the synced records from the commit up to it.
        """
        if not copy.begins:
            return 0
        room = copy.downstream - max(copy.since, downstream)
        others = bisect_left(self.told, copy.upstream) - bisect_left(self.told, commit)
        return max(0, room - max(0, others))

    def reach_at(self, downstream: int) -> int:
        """The exclusive end of the source offsets that may have been copied below ``downstream``."""
        before, _ = self.around(downstream)
        return 0 if before is None else before.reach


_place = attrgetter("downstream")

_LATEST_MS: Final = 600_000
"""How long after the sync before it an overtaken one may have been sent; in practice it is moments.

MM2 recreates a deleted target topic at its next refresh of topics, every 10 minutes."""


@dataclass(slots=True)
class _Log:
    """The syncs of the target's current log.

    Attributes:
        syncs: Ascending on the target.
        overtakers: Those that are left out, by the target offset of the sync that they overtook: how far MM2 had come
            they tell all the same.
        since_ms: Since when it is that log; 0: always.
        highest: The furthest target offset of all.
    """

    syncs: list[OffsetPair] = field(default_factory=list)
    overtakers: dict[int, list[OffsetPair]] = field(default_factory=dict)
    since_ms: int = 0
    highest: int = -1

    def cut(self, at: int, downstream: int) -> None:
        """Leave out the syncs from index ``at`` on: they overtook the sync of target offset ``downstream``."""
        before = [self.overtakers.pop(place) for place in list(self.overtakers) if place >= downstream]
        self.overtakers[downstream] = [*self.syncs[at:], *chain.from_iterable(before)]
        del self.syncs[at:]

    def add(self, sync: OffsetPair) -> None:
        self.syncs.append(sync)
        self.highest = max(self.highest, sync.downstream)


def _copies(log: _Log, *, exactly_once: bool, from_start: bool) -> list[_Copy]:
    """The synced records of the target's current log.

    Without exactly-once each offset between two syncs holds a record, which may have been copied again later.
    """
    syncs = log.syncs
    ends, since = [0], [s.downstream + 1 for s in syncs]
    if from_start and not exactly_once and syncs and syncs[0].downstream > syncs[0].upstream:
        # with more copies before it on the target than the source has offsets, MM2 copied some again before it sent a
        # sync; it began at the synced record at the latest, where retention had deleted all records before that one
        ends = [syncs[0].upstream + syncs[0].downstream]
    for sync, after in pairwise(syncs):
        told = (sync, *log.overtakers.get(sync.downstream, ()))
        ends.append(max(s.upstream + (1 if exactly_once else after.downstream - s.downstream) for s in told))
    reaches = accumulate(ends, max)
    furthest = list(accumulate((sync.upstream for sync in reversed(syncs)), max))[::-1]
    return [
        _Copy(*sync[:2], reach, begins=sync.upstream < end, settled=newest + 1 >= reach, since=behind)
        for sync, end, reach, newest, behind in zip(syncs, ends, reaches, furthest, [0, *since], strict=False)
    ]


def _adds(checkpoint: OffsetPair, syncs: Sequence[OffsetPair]) -> bool:
    """Whether a checkpoint can say more than the syncs: the sync from which MM2 made it is gone from its topic.

    Other checkpoints repeat a sync's answer, or are of a log that was deleted, which MM2's store does not notice.
    """
    if not syncs:
        return True
    first = syncs[0]
    return checkpoint.upstream <= first.upstream and checkpoint.downstream <= first.downstream


class _Turn(NamedTuple):
    """A sync that goes back on the target, and the syncs around it.

    Attributes:
        below, above: Its neighbours by target offset, among the syncs that were read before it.
        previous, following: Its neighbours in the topic.
        highest: The furthest target offset that was read before it.
    """

    sync: OffsetPair
    below: OffsetPair | None
    above: OffsetPair
    previous: OffsetPair
    following: OffsetPair | None
    highest: int

    def was_overtaken(self, *, exactly_once: bool) -> bool:
        """Whether the sync is of the same target log as its neighbours (law O), and not of a recreated one."""
        if self.below is None:
            return False
        in_order = _is_before(self.below, self.sync) and (
            _is_before(self.sync, self.above) or self.sync[:2] == self.above[:2]
        )
        steps = (self.below, self.sync), (self.sync, self.above)
        # each target offset between two syncs can hold a record between them, each copied once
        fits = exactly_once or all(
            other.downstream - one.downstream <= other.upstream - one.upstream for one, other in steps
        )
        goes_on = self.following is None or not (
            self.sync.downstream < self.following.downstream <= self.highest
        )
        late_ms = self.sync.timestamp_ms - self.previous.timestamp_ms
        return in_order and fits and goes_on and abs(late_ms) <= _LATEST_MS


def _is_before(one: OffsetPair, other: OffsetPair) -> bool:
    return one.upstream < other.upstream and one.downstream < other.downstream


def _of_this_log(syncs: Iterable[OffsetPair], *, exactly_once: bool) -> _Log:
    told = [next(same) for _, same in groupby(syncs, key=lambda sync: sync[:2])]
    log = _Log()
    for index, sync in enumerate(told):
        if sync.downstream <= log.highest:
            at = bisect_left(log.syncs, sync.downstream, key=_place)
            below = log.syncs[at - 1] if at else None
            following = told[index + 1] if index + 1 < len(told) else None
            turn = _Turn(sync, below, log.syncs[at], told[index - 1], following, log.highest)
            if turn.was_overtaken(exactly_once=exactly_once):
                log.cut(at, sync.downstream)
            else:
                log = _Log(since_ms=sync.timestamp_ms)
        log.add(sync)
    return log


def translate_by_syncs(
    known: SyncMap | None,
    commit: UpstreamOffset,
    *,
    target: TargetLog,
    source: SourceLog | Unknown = UNKNOWN,
) -> Answer:
    """Where a group that committed ``commit`` on the source continues on the target, by MM2's syncs and checkpoints.

    Args:
        known: The partition's syncs and checkpoints; None when MM2's topics have none.
        commit: Next offset to read on the source.
        target: The target log's bounds, read *after* MM2's topics were read.
        source: The source log's bounds, when the source answers.

    Returns:
        A downstream offset, `Exact` where no record can be read again, else `Bounded`; or `Refused`: never_ran;
        beyond_source_end; partition_missing when the log is shorter than MM2's topics say; target_log_start_passed;
        not_mirrored below the first record that was mirrored; ambiguous below the first sync that is left, unless
        that is the first one that MM2 ever sent and the target holds all that was mirrored.
    """
    if known is None:
        return Refused(Reason.NEVER_RAN)
    if source is not UNKNOWN and commit > source.log_end:
        return Refused(Reason.BEYOND_SOURCE_END)
    answer = known.forward.up_to(commit)
    if answer is None:
        return _before_the_first(known, commit, target, source)
    if answer > target.log_end:
        return Refused(Reason.PARTITION_MISSING)
    if answer < target.log_start:
        return Refused(Reason.TARGET_LOG_START_PASSED)
    reread = _read_again(known, commit, answer, target, source)
    return Bounded(answer, reread) if reread else Exact(answer)


def _before_the_first(
    known: SyncMap, commit: UpstreamOffset, target: TargetLog, source: SourceLog | Unknown
) -> Answer:
    """The answer for a commit below the first sync, or inside a repetition that is not complete."""
    first = known.first
    if known.from_start and target.log_start == 0 < known.copies[0].downstream < target.log_end:
        synced = known.copies[0].downstream
        return Bounded(0, synced + known.repeated_below(commit, synced))
    if first is None or target.log_start < first.downstream:
        return Refused(Reason.AMBIGUOUS)
    if target.log_start > first.downstream:
        return Refused(Reason.TARGET_LOG_START_PASSED)
    below = commit <= known.copies[0].upstream
    if below and source is not UNKNOWN and source.log_start >= first.upstream:
        return Exact(first.downstream)
    return Refused(Reason.NOT_MIRRORED if first.downstream == 0 else Reason.TARGET_LOG_START_PASSED)


def _read_again(
    known: SyncMap, commit: UpstreamOffset, answer: int, target: TargetLog, source: SourceLog | Unknown
) -> int:
    """How many records below the commit are at or after the answer, at most: the lowest known bound."""
    below, following = known.back.last(answer), known.around(answer - 1)[1]
    once = commit - below if below is not None and below <= commit else commit
    repeated = known.repeated_below(commit, answer)
    again = once + repeated
    if following is not None:
        # what the group has read is before the next synced record, which it has not read
        room = following.downstream - answer - known.hidden_below(commit, following, answer)
        again = min(again, room + repeated)
    if source is UNKNOWN:  # nothing arrives any more
        return min(again, target.log_end - answer)
    return again


def translate_back_by_syncs(
    known: SyncMap | None,
    commit: DownstreamOffset,
    *,
    target: TargetLog,
    source: SourceLog | Unknown = UNKNOWN,
) -> Answer:
    """Where a group that committed ``commit`` on the target continues on the source, by MM2's syncs.

    Returns:
        An upstream offset, or `Refused`: never_ran; beyond_source_end when the commit is past the target's end or the
        answer past the source's; target_log_start_passed when the source has deleted records that the group may not
        have read; ambiguous below the first sync that is left.
    """
    if known is None:
        return Refused(Reason.NEVER_RAN)
    if commit > target.log_end:
        return Refused(Reason.BEYOND_SOURCE_END)
    answer = known.back.up_to(commit)
    if answer is None:
        return Refused(Reason.AMBIGUOUS)
    if source is not UNKNOWN and answer > source.log_end:
        return Refused(Reason.BEYOND_SOURCE_END)
    if source is not UNKNOWN and answer < source.log_start:
        return Refused(Reason.TARGET_LOG_START_PASSED)
    since = known.back.first_at(answer)
    reread = commit - since + max(0, known.reach_at(since) - answer)
    return Bounded(answer, reread) if reread else Exact(answer)
