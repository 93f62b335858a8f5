"""Two clusters in memory with topics of one name, between which groups went away, and whose source is back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kit.batches import data
from kit.maps import about_of, map_of
from kit.there_and_back import ThereAndBack
from mmtool.insight.flow_now import FlowClusters
from mmtool.kafka.batches import decode, view_of
from mmtool.kafka.ports import Bounds
from mmtool.plan.groups.facts import Commit
from mmtool.plan.records.identity import FlowIdentity
from mmtool.translation.types import TopicId, TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

    from kit.clusters import FakeCluster
    from mmtool.kafka.batches import ReadyBatch, Record

ORDERS = TopicPartition("orders", 0)
AT_HOME = {"app": {ORDERS: Commit(19)}, "late": {ORDERS: Commit(17)}}
"""Where its groups go on at home: both at a record that was born away and that they have not read."""
_PROPERTIES = """\
replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy
west->east.topics = orders.*
"""
_BACK = 72
"""Under which producer id the way back writes at home."""


@dataclass
class LogAppender:
    """An `AppendPort` into a cluster in memory, whose logs outlive it, and which tells by numbers what is there.

    Attributes:
        ours: What was appended, by partition, with its offset there.
        lives: After how many batches each process dies.
        dies: How.
    """

    cluster: FakeCluster
    ours: dict[TopicPartition, list[Record]] = field(default_factory=dict)
    lives: list[int] = field(default_factory=list)
    dies: BaseException | None = None
    _claims: int = 0
    _numbers: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)
    _next: dict[TopicPartition, int] = field(default_factory=dict)

    def appended(self, place: TopicPartition, since: int) -> int:
        """As `mmtool.kafka.logs.sequence_append.numbered`: each claim's last number counts."""
        numbered = zip(self.ours.get(place, []), self._numbers.get(place, []), strict=True)
        return sum(dict(number for record, number in numbered if record.offset >= since).values())

    def begin_again(self) -> None:
        """As a process that claims anew: its numbers begin at 0."""
        self._claims += 1
        self._next.clear()

    def append(self, place: TopicPartition, batch: ReadyBatch) -> None:
        if self.lives:
            self.lives[0] -= 1
            if self.lives[0] < 0:
                self.lives.pop(0)
                assert self.dies is not None
                raise self.dies
        end = self.cluster.logs[place].log_end
        records = list(decode(view_of(batch.payload)))
        placed = [record._replace(offset=end + n) for n, record in enumerate(records)]
        self.ours.setdefault(place, []).extend(placed)
        before = self._next.get(place, 0)
        self._next[place] = before + len(records)
        numbers = [(self._claims, before + n) for n in range(1, len(records) + 1)]
        self._numbers.setdefault(place, []).extend(numbers)
        self.cluster.logs[place] = Bounds(self.cluster.logs[place].log_start, end + len(records))

    def values(self, place: TopicPartition) -> list[bytes | None]:
        """What was appended there."""
        return [record.value for record in self.ours.get(place, [])]


class OneName(ThereAndBack):
    """Ten of fifteen records of ``orders`` went from east to west before east was lost; six were born on west.

    They are records 10 to 15 there, and 15 to 20 once they are at home. ``app`` had read 8 at home; away it read all
    ten, and four of the six. ``late`` read two of them.
    """

    def __init__(self, directory: Path, extra: str = "") -> None:
        super().__init__(directory, _PROPERTIES + extra)
        self.target.groups.committed.clear()
        self.target.add_topic("orders", "id-remote-orders", 16)
        self.home.logs[ORDERS] = data(0, 10) + data(10, 2) + data(12, 3)
        self.home.registered[_BACK] = "west-id"
        self.source.add_topic("salvage", "id-salvage", 3)
        self.commits("app", "orders", 14, cluster=self.target)
        self.commits("late", "orders", 12, cluster=self.target)
        self.writer = LogAppender(self.source)

    @property
    def clusters(self) -> FlowClusters:
        return FlowClusters(self.settings, self.source, self.target, self.state, self.back_state, self.mm2)

    def writer_for(self, words: str) -> LogAppender | None:
        """As `mmtool.failover.service.group_move` makes one, for the words of ``--diverged``."""
        if words == "file":
            return None
        self.writer.begin_again()
        return self.writer

    @property
    def frontier(self) -> int:
        """How far the flow away has come at home, in the partition."""
        return self.state.stored[TopicId(self.source.ids["orders"]), 0].upstream_frontier

    def _bring_home(self, place: TopicPartition, end: int) -> None:
        born = end - 10
        if self.source.logs[place].log_end < 15 + born:
            there = self.source.logs[place].log_end
            self.home.logs[place] += data(there, 15 + born - there, pid=_BACK)
            self.source.logs[place] = Bounds(0, 15 + born)
        identity = FlowIdentity(self.target.cluster_id, self.source.cluster_id, "west", "east")
        ids = self.target.ids[place.topic], self.source.ids[place.topic]
        about = about_of(identity, ids[0], place, place.topic, ids[1])
        runs, start = [(10, 15, born)], (0, 0)
        self.back_state.stored[TopicId(ids[0]), place.partition] = map_of(about, runs, end, start=start)
