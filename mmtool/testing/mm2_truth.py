"""Answers by MirrorMaker 2's topics, held against the records themselves: every offset, both ways."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mmtool.lab.topics import end_offsets, read_topic
from mmtool.translation.answers import Bounded, Refused, SourceLog, TargetLog
from mmtool.translation.known import UNKNOWN, Unknown
from mmtool.translation.sync_map import translate_back_by_syncs, translate_by_syncs
from mmtool.translation.types import DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mmtool.lab.cluster import Cluster
    from mmtool.lab.topics import Record
    from mmtool.translation.answers import Answer
    from mmtool.translation.sync_map import SyncMap


@dataclass(frozen=True)
class CopiedPartition:
    """One partition on both sides: the offsets of its records, and of their copies upstream.

    Attributes:
        copies: Of each record on the target the offset of the one on the source that it is a copy of.
        at: Where those copies are.
    """

    source: list[int]
    at: list[int]
    copies: list[int]
    source_end: int
    target_end: int

    def read_again(self, commit: int, offset: int) -> int:
        """How many records below a commit on the source a group reads again that goes on at ``offset``."""
        return sum(record < commit for record in self.copies[bisect_left(self.at, offset) :])

    def skipped(self, commit: int, offset: int) -> list[int]:
        """Records that a group with this commit misses where it goes on at ``offset``, though they were copied."""
        there = set(self.copies[bisect_left(self.at, offset) :])
        needed = self.source[bisect_left(self.source, commit) :]
        return [record for record in needed if record in self._copied and record not in there]

    @cached_property
    def _copied(self) -> frozenset[int]:
        return frozenset(self.copies)

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
        if skipped or again > (answer.reread_max if isinstance(answer, Bounded) else 0):
            yield f"{commit} ({source}): {answer} skips {skipped[:3]}, re-reads {again}"

    def wrong_back(self, known: SyncMap | None, step: int = 1) -> Iterator[str]:
        """The same from the target."""
        target = TargetLog(DownstreamOffset(0), DownstreamOffset(self.target_end))
        for commit in range(0, self.target_end + 1, step):
            answer = translate_back_by_syncs(known, DownstreamOffset(commit), target=target)
            if isinstance(answer, Refused):
                continue
            read = set(self.copies[: bisect_left(self.at, commit)])
            newest = max(read, default=-1)
            skipped = {r for r in self.source if r < answer.offset and r <= newest} - read
            again = sum(record >= answer.offset for record in read)
            if skipped or again > (answer.reread_max if isinstance(answer, Bounded) else 0):
                yield f"back {commit}: {answer} skips {sorted(skipped)[:3]}, re-reads {again}"


def copied_partitions(
    source: Cluster, target: Cluster, topics: Mapping[str, str]
) -> dict[tuple[str, int], CopiedPartition]:
    """Every partition of some topics, by their names on both sides.

    Raises:
        AssertionError: Two records of a partition are alike, so that nobody can tell them apart.
    """
    found = {}
    for topic, remote in topics.items():
        here, there = read_topic(source.bootstrap, topic), read_topic(target.bootstrap, remote)
        ends = end_offsets(target.bootstrap, remote)
        for partition, end in end_offsets(source.bootstrap, topic).items():
            ours, theirs = ([r for r in side if r.partition == partition] for side in (here, there))
            found[topic, partition] = _copied(ours, theirs, end, ends[partition])
    return found


def _copied(ours: list[Record], theirs: list[Record], source_end: int, target_end: int) -> CopiedPartition:
    number = {_content(record): record.offset for record in ours}
    assert len(number) == len(ours), Counter(map(_content, ours)).most_common(1)
    return CopiedPartition(
        [record.offset for record in ours],
        [record.offset for record in theirs],
        [number[_content(record)] for record in theirs],
        source_end,
        target_end,
    )


def _content(record: Record) -> tuple[bytes | None, bytes | None, int]:
    return record.key, record.value, record.timestamp_ms
