"""Answers by MirrorMaker 2's topics, held against the records themselves: every offset, both ways."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Self

from kit.exactness import most_again
from mmtool.lab.topics import end_offsets, read_topic
from mmtool.translation.answers import Refused, SourceLog, TargetLog
from mmtool.translation.sync_map import translate_back_by_syncs, translate_by_syncs
from mmtool.translation.types import UNKNOWN, DownstreamOffset, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Mapping

    from mmtool.lab.cluster import Cluster
    from mmtool.lab.topics import Isolation, Record
    from mmtool.translation.answers import Answer
    from mmtool.translation.sync_map import SyncMap

Place = tuple[str, int]
"""A partition, by its topic's name on the source."""


@dataclass(frozen=True)
class CopiedPartition:
    """One partition on both sides: the offsets of its records, and of their copies upstream.

    Attributes:
        source: Records that a group on the source may read.
        at: Where copies are on the target.
        copies: Of each of them the offset of the record on the source that it is a copy of.
        serves: Up to which place on the target a group still meets a record: its last copy, or in a compacted log the
            last one of its key that is as new. Records that were not copied have none.
    """

    source: list[int]
    at: list[int]
    copies: list[int]
    serves: Mapping[int, int]
    source_end: int
    target_end: int

    @property
    def lost(self) -> list[int]:
        """Records that a group on the target meets nowhere."""
        return [record for record in self.source if record not in self.serves]

    def read_again(self, commit: int, offset: int) -> int:
        """How many records below a commit on the source a group reads again that goes on at ``offset``."""
        first = bisect_left(self.at, offset)
        if self._is_ascending:
            return max(0, bisect_left(self.copies, commit) - first)
        return sum(record < commit for record in self.copies[first:])

    def skipped(self, commit: int, offset: int) -> list[int]:
        """Records that a group with this commit misses where it goes on at ``offset``, though they were copied."""
        first = bisect_left(self.source, commit)
        if self._all_served_to[first] >= offset:
            return []
        return [record for record in self.source[first:] if self.serves.get(record, offset) < offset]

    @cached_property
    def _is_ascending(self) -> bool:
        return sorted(self.copies) == self.copies

    @cached_property
    def _all_served_to(self) -> list[int]:
        """For each record, and behind the last, the furthest place from which on it and all later ones are met."""
        served = [self.serves.get(record, self.target_end) for record in reversed(self.source)]
        return list(accumulate(served, min, initial=self.target_end))[::-1]

    def wrong_forward(self, known: SyncMap | None, step: int = 1) -> Iterator[str]:
        """Answers that skip a record or have more read again than they say, whether the source answers or not."""
        target = TargetLog(DownstreamOffset(0), DownstreamOffset(self.target_end))
        alive = SourceLog(UpstreamOffset(0), UpstreamOffset(self.source_end))
        for source in (UNKNOWN, alive):
            for commit in range(0, self.source_end + 1, step):
                answer = translate_by_syncs(known, UpstreamOffset(commit), target=target, source=source)
                yield from self._judged(commit, answer, source)

    def _judged(self, commit: int, answer: Answer, source: SourceLog | Unknown) -> Iterator[str]:
        if isinstance(answer, Refused):
            return
        skipped, again = self.skipped(commit, answer.offset), self.read_again(commit, answer.offset)
        if skipped or again > most_again(answer):
            yield f"{commit} ({source}): {answer} skips {skipped[:3]}, re-reads {again}"

    def wrong_back(self, known: SyncMap | None, step: int = 1) -> Iterator[str]:
        """The same from the target, of every record that ever was there."""
        target = TargetLog(DownstreamOffset(0), DownstreamOffset(self.target_end))
        for commit, read in self._readings(step):
            answer = translate_back_by_syncs(known, DownstreamOffset(commit), target=target)
            if isinstance(answer, Refused):
                continue
            skipped = bisect_left(self.source, answer.offset) - bisect_left(read, answer.offset)
            again = len(read) - bisect_left(read, answer.offset)
            if skipped or again > most_again(answer):
                yield f"back {commit}: {answer} skips {skipped}, re-reads {again}"

    def _readings(self, step: int) -> Iterator[tuple[int, list[int]]]:
        """Commits on the target, and which records a group has read by then, in the source's order."""
        read: list[int] = []
        copies = 0
        for commit in range(0, self.target_end + 1, step):
            while copies < len(self.at) and self.at[copies] < commit:
                record = self.copies[copies]
                where = bisect_left(read, record)
                if read[where : where + 1] != [record]:
                    read.insert(where, record)
                copies += 1
            yield commit, read


class Sighted:
    """Topics of one cluster, each time that somebody looked: what compaction takes away later is not forgotten."""

    def __init__(
        self, cluster: Cluster, topics: Collection[str], isolation: Isolation = "read_committed"
    ) -> None:
        self._bootstrap, self._topics, self._isolation = cluster.bootstrap, topics, isolation
        self.seen: dict[Place, dict[int, Record]] = defaultdict(dict)
        self.now: dict[Place, dict[int, Record]] = {}
        self.ends: dict[Place, int] = {}

    def look(self, *topics: str) -> Self:
        """Reads these, or all of them."""
        for topic in topics or self._topics:
            ends = end_offsets(self._bootstrap, topic)
            self.ends |= {(topic, partition): end for partition, end in ends.items()}
            self.now |= {(topic, partition): {} for partition in ends}
            for record in read_topic(self._bootstrap, topic, isolation=self._isolation):
                self.now[topic, record.partition][record.offset] = record
        for place, records in self.now.items():
            self.seen[place] |= records
        return self


def copied_partitions(
    source: Sighted, target: Sighted, topics: Mapping[str, str]
) -> dict[Place, CopiedPartition]:
    """Every partition of some topics, by their names on both sides: each copy that ever was on the target."""
    return {
        (topic, n): _copied(source, (topic, n), target, (remote, n), target.seen[remote, n])
        for topic, remote in topics.items()
        for n in _partitions(source, topic)
    }


def surviving_partitions(
    source: Sighted, target: Sighted, topics: Mapping[str, str]
) -> dict[Place, CopiedPartition]:
    """Of compacted topics, what was left on both sides when they were looked at last."""
    return {
        (topic, n): _copied(source, (topic, n), target, (remote, n), target.now[remote, n], compacted=True)
        for topic, remote in topics.items()
        for n in _partitions(source, topic)
    }


def _partitions(of: Sighted, topic: str) -> list[int]:
    return sorted(partition for name, partition in of.ends if name == topic)


def _copied(
    source: Sighted,
    here: Place,
    target: Sighted,
    there: Place,
    copied: Mapping[int, Record],
    *,
    compacted: bool = False,
) -> CopiedPartition:
    number = _numbers(source.seen[here])
    at = sorted(copied)
    copies = [number[_content(copied[place])] for place in at]
    readable = {*source.now[here]} if compacted else {*source.now[here], *copies}
    same = {r: source.seen[here][r].key if compacted else r for r in {*readable, *copies}}
    return CopiedPartition(
        sorted(readable), at, copies, _serves(at, copies, same), source.ends[here], target.ends[there]
    )


def _numbers(records: Mapping[int, Record]) -> dict[tuple[bytes | None, bytes | None, int], int]:
    """By what is in them, as offsets differ; two that are alike nobody could tell apart."""
    number = {_content(record): offset for offset, record in records.items()}
    assert len(number) == len(records), Counter(map(_content, records.values())).most_common(1)
    return number


def _serves(at: list[int], copies: list[int], same: Mapping[int, Hashable]) -> dict[int, int]:
    """The last place of a copy that is as new, for each record; ``same`` tells which records replace each other."""
    copied = defaultdict(list)
    for place, record in zip(at, copies, strict=True):
        copied[same[record]].append((record, place))
    found = {
        record: [place for newer, place in copied[which] if newer >= record] for record, which in same.items()
    }
    return {record: max(places) for record, places in found.items() if places}


def _content(record: Record) -> tuple[bytes | None, bytes | None, int]:
    return record.key, record.value, record.timestamp_ms
