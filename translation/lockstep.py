"""Translate a commit between two syncs of MirrorMaker 2 by comparing the records of both logs.

MM2 copies in order. From one of its syncs to the next the target holds copies of the source's records in the source's
order, each once, unless the next sync shows that some were copied again in between. Records may have been removed
since, on either side, and some may be equal. So two bounds are kept of where the source record of each target record
is: it is not after the last source record of equal content that MM2 can have reached by then (each copy takes an
offset), and not before the first one after the source record of the previous copy. The upper bound shows that a group
may continue behind the record, the lower one that the group has not read it.

N  never skips: every record that the answer passes is certain to be a copy of a record below the commit
R  an exact answer: every record at or after it is certain not to be one, down to twins: of records equal in key, value,
   headers and timestamp, one that is left stands for a removed one
M  monotone: a later commit never gets an earlier answer
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from mmtool.translation.answers import Answer, Bounded, Exact, Reason, Refused
from mmtool.translation.types import UNKNOWN, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.translation.sync_map import SyncMap


class Seen(NamedTuple):
    """One record of a log.

    Attributes:
        digest: SHA-256 of key, value and headers.
        timestamp_ms: The producer's; UNKNOWN where it gave none, or where the log has replaced it by its own.
    """

    offset: int
    digest: bytes
    timestamp_ms: int | Unknown


class Copied(NamedTuple):
    """A record on the source and its copy on the target."""

    upstream: Seen
    downstream: Seen


class Proof(NamedTuple):
    """The records around an answer, on both sides; None where no record is on both.

    Attributes:
        before: The last one that the group has read.
        after: The first one that it will read.
    """

    before: Copied | None
    after: Copied | None


class Placed(NamedTuple):
    """The translation of a commit, with its proof."""

    answer: Answer
    proof: Proof


NO_PROOF = Proof(None, None)


@dataclass(frozen=True, slots=True)
class Stretch:
    """The ranges of both logs that have to be read to translate a commit: from one sync to the next.

    Attributes:
        upstream: Source offsets, from the sync's own record on.
        downstream: Target offsets, likewise; up to the next sync's record, including it where that continues in order.
        closed: Whether the next sync continues in order, so that the commit is certain to be in this range.
        repeats: Whether a restart copied some records again, so that the order is broken somewhere.
        repeated: How many records below the commit may have second copies on the target behind it.
        from_sync: Whether the first offsets on both sides are those of a sync; else they are the logs' start offsets,
            and records are matched by their content alone.
    """

    upstream: range
    downstream: range
    closed: bool
    repeats: bool
    repeated: int
    from_sync: bool = True

    @property
    def most(self) -> int:
        """How many source records are enough to be read: the target's range cannot hold copies of more."""
        return len(self.downstream) + 1 if self.from_sync else len(self.upstream)

    @property
    def longest(self) -> int:
        """The largest number of records that either side can hold."""
        return len(self.downstream) if self.from_sync else max(len(self.upstream), len(self.downstream))

    @property
    def everything(self) -> Bounded:
        """The answer for a group that would read the whole stretch again."""
        return Bounded(self.downstream.start, len(self.downstream) + self.repeated)


def stretch_of(
    known: SyncMap, commit: UpstreamOffset, told: Bounded, *, source_end: int, target_end: int
) -> Stretch | None:
    """The ranges of both logs to read for a commit that is not below the first sync.

    Args:
        known: The partition's syncs.
        commit: Next offset to read on the source.
        told: The answer by the syncs alone.
        source_end: The source log's end, read after the target's.
        target_end: The target log's end.

    Returns:
        None where the answer rests on a checkpoint and on no sync: then nothing says where the ranges begin.
    """
    here, following = known.around(told.offset)
    if here is None or here.upstream > commit or not (here.settled or commit >= here.reach):
        return None
    if following is None:
        upstream, downstream = range(here.upstream, source_end), range(here.downstream, target_end)
        return Stretch(upstream, downstream, closed=False, repeats=False, repeated=0)
    closed = not following.begins
    return Stretch(
        range(here.upstream, following.upstream + 1 if closed else source_end),
        range(here.downstream, following.downstream + (1 if closed else 0)),
        closed,
        following.begins,
        known.repeated_below(commit, following.downstream),
    )


def stretch_before(
    known: SyncMap, commit: UpstreamOffset, *, source_start: int, target_start: int
) -> Stretch | None:
    """The ranges of both logs to read for a commit below the first sync: from their starts to that sync.

    Returns:
        None where no sync is left, or the commit is not below the first one.
    """
    if not known.copies or commit >= known.copies[0].upstream:
        return None
    first = known.copies[0]
    return Stretch(
        range(source_start, first.upstream + 1),
        range(target_start, first.downstream + 1),
        closed=True,
        repeats=False,
        repeated=known.repeated_below(commit, first.downstream),
        from_sync=False,
    )


@dataclass(frozen=True, slots=True)
class _Label:
    """A record on the target: of which records of the source (by their number) it is a copy, at least and at most."""

    record: Seen
    least: int
    most: int


@dataclass(frozen=True)
class StretchRecords:
    """The records of a stretch, in order; one that is gone is left out.

    Attributes:
        source: The first `Stretch.most` of them.
        target: All of them.
    """

    stretch: Stretch
    source: list[Seen]
    target: list[Seen]

    def place(self, commit: UpstreamOffset, told: Bounded | None) -> Placed:
        """Translate ``commit`` by the records, to an offset at or after ``told``.

        ``told`` is the answer by the syncs alone; None where they have none. The result is ``ambiguous`` when the
        sync's own records differ: the sync is of other logs than the present ones; and where ``told`` is None and
        nothing proves that the first unread record, or one before it, was copied.
        """
        if self._contradict():
            return Placed(Refused(Reason.AMBIGUOUS), NO_PROOF)
        if told is None:
            return self._walk(commit, self.stretch.everything, Refused(Reason.AMBIGUOUS))
        return self._walk(commit, told, told)

    def _walk(self, commit: UpstreamOffset, told: Bounded, unproven: Bounded | Refused) -> Placed:
        unread = bisect_left(self.source, commit, key=_upstream)
        passed: _Label | None = None
        following: _Label | None = None
        certain = unsure = 0
        for record, label in self._labels():
            if following is not None:
                unsure += self._may_be_read(label, unread)
            elif label is None:
                unsure += record.offset >= told.offset
            elif label.most < unread:
                certain += record.offset >= told.offset
                passed, unsure = label, 0
            elif label.least >= unread:
                following = label
                unsure += self._may_be_read(label, unread)
            elif self._proves(passed, None, unread):
                return self._placed(told, passed, _counted(told) - certain, None)
            else:
                break
        if not self._proves(passed, following, unread):
            return Placed(unproven, NO_PROOF)
        missing = 0
        if (
            not self.stretch.closed and following is None
        ):  # below the commit, not on the target yet, read again once so
            seen_to = self.source[-1].offset + 1 if self.source else self.stretch.upstream.start
            not_looked_at = commit - seen_to if len(self.source) >= self.stretch.most else 0
            missing = max(0, not_looked_at) + unread - (0 if passed is None else passed.least + 1)
        return self._placed(told, passed, unsure + self.stretch.repeated + missing, following)

    def _may_be_read(self, label: _Label | None, unread: int) -> bool:
        """Whether a record after the answer may be one below the commit that a restart copied again."""
        if self.stretch.repeats:  # it may come from before the stretch: its content alone does not tell
            return True
        return not self.stretch.from_sync if label is None else label.least < unread

    def _proves(self, passed: _Label | None, following: _Label | None, unread: int) -> bool:
        """Whether the target is known to hold the group's next record, as it does after a sync."""
        if self.stretch.from_sync or passed is not None:
            return True
        return following is not None and following.least == following.most == unread

    def _placed(self, told: Bounded, passed: _Label | None, again: int, following: _Label | None) -> Placed:
        offset = told.offset if passed is None else max(told.offset, passed.record.offset + 1)
        again = min(again, _counted(told))
        proof = Proof(self._copied(passed), self._copied(following))
        return Placed(Bounded(offset, again) if again else Exact(offset), proof)

    def _copied(self, label: _Label | None) -> Copied | None:
        if label is None or label.least != label.most:
            return None
        return Copied(self.source[label.least], label.record)

    def _labels(self) -> Iterator[tuple[Seen, _Label | None]]:
        """Each record of the target with its label; None if it is gone from the source, or of another producer."""
        floor = ceiling = 0
        expected = self.stretch.downstream.start
        if not self._has_sync:
            expected += 1
        for record in self.target:
            ceiling += max(0, record.offset - expected)  # as many more may have been copied, and be gone
            expected = record.offset + 1
            numbers = self._numbers[self._content(record)]
            first, end = bisect_left(numbers, floor), bisect_right(numbers, ceiling)
            if not self.stretch.from_sync:
                first, end = 0, len(numbers)
            if not end:
                yield record, None
            elif first == end:  # nothing that comes next: it was copied again
                yield record, _Label(record, numbers[0], numbers[end - 1])
            else:
                label = _Label(record, numbers[first], numbers[end - 1])
                floor, ceiling = (0 if self.stretch.repeats else label.least + 1), label.most + 1
                yield record, label

    @property
    def _has_sync(self) -> bool:
        return bool(self.source) and self.source[0].offset == self.stretch.upstream.start

    def _contradict(self) -> bool:
        if (
            not self.stretch.from_sync
            or not self._has_sync
            or not self.target
            or self.target[0].offset != self.stretch.downstream.start
        ):
            return False
        return self._content(self.source[0]) != self._content(self.target[0])

    @cached_property
    def _numbers(self) -> defaultdict[tuple[object, ...], list[int]]:
        found: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for number, record in enumerate(self.source):
            found[self._content(record)].append(number)
        return found

    @cached_property
    def _timed(self) -> bool:
        return all(record.timestamp_ms is not UNKNOWN for record in (*self.source, *self.target))

    def _content(self, record: Seen) -> tuple[object, ...]:
        return (record.digest, record.timestamp_ms) if self._timed else (record.digest,)


def _upstream(record: Seen) -> UpstreamOffset:
    return UpstreamOffset(record.offset)


def _counted(told: Bounded) -> int:
    """The bound of an answer by offset syncs, which is always a number."""
    assert told.reread_max is not UNKNOWN
    return told.reread_max
