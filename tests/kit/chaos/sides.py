"""Both sides of a seed's topics, read to their ends."""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from kit.chaos.anomalies import BothLogs, Seen
from mmtool.errors import UnreachableError
from mmtool.lab.records import numbered
from mmtool.lab.topics import end_offsets, read_topic
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from mmtool.lab.topics import Isolation, Record


class Sides:
    """What is read is kept until its end moves: a look at topics that stand still costs no read.

    Args:
        source: Bootstrap servers.
        target: The same.
        remotes: The target's topics by the source's.
    """

    def __init__(self, source: str, target: str, remotes: Mapping[str, str]) -> None:
        self._source, self._target, self._remotes = source, target, remotes
        self._kept: dict[tuple[str, str, Isolation], tuple[Mapping[int, int], Sequence[Record]]] = {}

    def logs(self) -> dict[TopicPartition, BothLogs]:
        """Every partition of the source, without what the mirror claims.

        Raises:
            UnreachableError: The source does not say where one of the topics ends: of none there is nothing wrong.
        """
        return {place: one for topic in self._remotes for place, one in self._of(topic).items()}

    def source_ends(self) -> dict[TopicPartition, int]:
        """As they were at the last look, markers included."""
        return {
            TopicPartition(topic, p): end
            for topic in self._remotes
            for p, end in self._kept[self._source, topic, "read_uncommitted"][0].items()
        }

    def _of(self, topic: str) -> dict[TopicPartition, BothLogs]:
        home = partial(self._read, self._source, topic)
        committed, everything = home("read_committed"), home("read_uncommitted")
        if not self._kept[self._source, topic, "read_uncommitted"][0]:
            raise UnreachableError(f"nobody tells where {topic} ends")
        there = self._read(self._target, self._remotes[topic], "read_uncommitted")
        return {
            TopicPartition(topic, p): BothLogs(
                TopicPartition(topic, p),
                _seen(committed, p),
                frozenset(_identities(everything, p) - _identities(committed, p)),
                _seen(there, p),
            )
            for p in self._kept[self._source, topic, "read_uncommitted"][0]
        }

    def _read(self, bootstrap: str, topic: str, isolation: Isolation) -> Sequence[Record]:
        key, ends = (bootstrap, topic, isolation), end_offsets(bootstrap, topic, isolation=isolation)
        if key not in self._kept or self._kept[key][0] != ends:
            self._kept[key] = ends, read_topic(bootstrap, topic, isolation=isolation) if ends else []
        return self._kept[key][1]


def first_unread(logs: BothLogs, upstream: int) -> int:
    """Where a commit of the source leads: the first record that was not read, or behind the last one."""
    at = {one.identity: one.offset for one in logs.target}
    unread = next((one for one in logs.source if one.offset >= upstream), None)
    if unread is not None and unread.identity in at:
        return at[unread.identity]
    return logs.target[-1].offset + 1 if logs.target else 0


def records_below(logs: BothLogs, downstream: int) -> int:
    """How many records of the target a group with that commit has behind it."""
    return bisect_left(logs.target, downstream, key=attrgetter("offset"))


def _seen(records: Sequence[Record], partition: int) -> list[Seen]:
    return [
        Seen(r.offset, _identity(r), (r.key, r.value, r.headers, r.timestamp_ms))
        for r in records
        if r.partition == partition
    ]


def _identities(records: Sequence[Record], partition: int) -> set[Hashable]:
    return {_identity(record) for record in records if record.partition == partition}


def _identity(record: Record) -> Hashable:
    """Its number; of what no writer of the lab wrote like that its value, which the other side does not have."""
    try:
        return numbered(record.value or b"")
    except ValueError:
        return record.value
