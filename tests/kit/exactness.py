"""The promise of the offset runs, held against the records themselves: every offset, both ways."""

from __future__ import annotations

from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.kafka.state.state_log import read_maps
from mmtool.lab.topics import end_offsets, read_topic
from mmtool.plan.records.identity import FlowIdentity
from mmtool.translation.answers import Answer, Bounded, Exact, SourceLog, TargetLog
from mmtool.translation.translate import translate, translate_back
from mmtool.translation.types import UNKNOWN, ClusterId, DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.lab.cluster import Cluster
    from mmtool.lab.topics import Record
    from mmtool.translation.partition_map import PartitionMap

_READS_AT_ONCE = 4


def most_again(answer: Answer) -> int:
    """The number of records that an answer allows to be read again."""
    if not isinstance(answer, Bounded):
        return 0
    assert answer.reread_max is not UNKNOWN
    return answer.reread_max


@dataclass(frozen=True, slots=True)
class Wrong:
    """An offset whose translation is not what the records say."""

    topic: str
    partition: int
    direction: str
    commit: int
    expected: str
    answer: str


def flow_identity(source: Cluster, target: Cluster) -> FlowIdentity:
    """The flow's identity, from what the lab knows of its clusters."""
    return FlowIdentity(ClusterId(source.cluster_id), ClusterId(target.cluster_id), source.name, target.name)


def stored_maps(flow: FlowSettings, source: Cluster, target: Cluster) -> dict[tuple[str, int], PartitionMap]:
    """The offset runs that a flow stored, by source topic and partition."""
    maps = read_maps(flow.target, flow_identity(source, target)).values()
    return {(m.about.source_topic, m.about.partition): m for m in maps}


def wrong_translations(
    flow: FlowSettings, source: Cluster, target: Cluster, topics: Sequence[str]
) -> tuple[int, list[Wrong]]:
    """How many offsets were asked, and those with a wrong answer: every commit that a group may hold.

    The truth comes from reading both topics: equal records, in order, belong together.
    """
    maps = stored_maps(flow, source, target)
    with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
        found = pool.map(lambda topic: _truths(flow, maps, source, target, topic), topics)
        truths = [truth for of_topic in found for truth in of_topic]
    asked = sum(truth.up_end + truth.down_end + 2 for truth in truths)
    return asked, [wrong for truth in truths for wrong in (*truth.wrong_forward(), *truth.wrong_back())]


def _truths(
    flow: FlowSettings,
    maps: Mapping[tuple[str, int], PartitionMap],
    source: Cluster,
    target: Cluster,
    topic: str,
) -> list[_Truth]:
    remote = flow.remote_topic(topic)
    ups, downs = read_topic(source.bootstrap, topic), read_topic(target.bootstrap, remote)
    up_ends, down_ends = end_offsets(source.bootstrap, topic), end_offsets(target.bootstrap, remote)
    return [
        _Truth(maps[topic, p], _offsets(ups, p), _offsets(downs, p), up_end, down_ends[p])
        for p, up_end in up_ends.items()
    ]


def _offsets(records: Sequence[Record], partition: int) -> list[int]:
    return [record.offset for record in records if record.partition == partition]


@dataclass(frozen=True, slots=True)
class _Truth:
    """One partition: the i-th upstream record is the i-th downstream record."""

    map: PartitionMap
    ups: list[int]
    downs: list[int]
    up_end: int
    down_end: int

    def wrong_forward(self) -> Iterator[Wrong]:
        """Commits that do not lead to the first record not yet read, or behind the last one."""
        log = TargetLog(DownstreamOffset(0), DownstreamOffset(self.down_end))
        behind = self.downs[-1] + 1 if self.downs else self.map.tail.downstream_end.position
        for commit in range(self.up_end + 1):
            index = bisect_left(self.ups, commit)
            expected = Exact(self.downs[index] if index < len(self.downs) else behind)
            answer = translate(self.map, UpstreamOffset(commit), target=log)
            if answer != expected:
                yield self._wrong("forward", commit, expected, answer)

    def wrong_back(self) -> Iterator[Wrong]:
        """The same from the target: behind the last record it is the frontier, which is the source's end."""
        target = TargetLog(DownstreamOffset(0), DownstreamOffset(self.down_end))
        source = SourceLog(UpstreamOffset(0), UpstreamOffset(self.up_end))
        target_verified_end = self.map.tail.target_verified_end
        for commit in range(self.down_end + 1):
            index = bisect_left(self.downs, commit)
            expected: Exact | Bounded = Exact(self.ups[index] if index < len(self.ups) else self.up_end)
            if (
                commit > target_verified_end
            ):  # not yet looked at: at most that many records could have been mirrored
                expected = Bounded(self.up_end, commit - target_verified_end)
            answer = translate_back(self.map, DownstreamOffset(commit), target=target, source=source)
            if answer != expected:
                yield self._wrong("back", commit, expected, answer)

    def _wrong(self, direction: str, commit: int, expected: object, answer: object) -> Wrong:
        about = self.map.about
        return Wrong(about.source_topic, about.partition, direction, commit, str(expected), str(answer))
