"""Two clusters in memory between which groups went away in an emergency, and whose source is back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.batches import data
from kit.clusters import FakeFlowState
from kit.maps import about_of, map_of
from kit.memory_logs import FakeBatches
from kit.scene import Scene
from mmtool.config import load_settings
from mmtool.failover.modes.failback import look_both_ways
from mmtool.insight.flow_now import FlowClusters
from mmtool.kafka.ports import Bounds
from mmtool.plan.groups.facts import Commit
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.records.marks import FailedOverRecord, MovedGroupRecord
from mmtool.translation.types import TopicId, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mmtool.config import FlowSettings
    from mmtool.failover.modes.failback_steps import BothWays

ORDERS = TopicPartition("orders", 0)
AWAY = TopicPartition("east.orders", 0)
HOME = TopicPartition("west.orders", 0)
"""What was born away, once it is at home."""


class ThereAndBack(Scene):
    """Ten of fifteen records of ``orders`` went from east to west before east was lost; six were born on west.

    ``app`` had read 8 at home; away it read all ten, and four of the six. ``late`` read seven of the ten.
    Others may be called by other names.
    """

    def __init__(self, directory: Path, extra: str = "", groups: tuple[str, str] = ("app", "late")) -> None:
        super().__init__(directory, extra)
        app, late = groups
        self.back_settings = load_settings(self.config, {}).one("west", "east")
        self.back_state = FakeFlowState()
        self.home, self.away = FakeBatches(), FakeBatches()
        self.has("orders", 15)
        self.mirrored("orders", 0, [(0, 0, 10)], 10, source_end=10)
        self.home.logs[ORDERS] = data(0, 10) + data(10, 5)
        self.target.add_topic("orders", "id-born", 6)
        self.state.marked(
            FailedOverRecord("orders", True, "op-away", "ann@host-1", 0),
            *(MovedGroupRecord(group, True, "op-away", "ann@host-1", 0) for group in groups),
        )
        self.commits(app, "orders", 8)
        self.commits(app, "east.orders", 10, cluster=self.target)
        self.commits(app, "orders", 4, cluster=self.target)
        self.commits(late, "east.orders", 7, cluster=self.target)

    def configure(self, extra: str) -> None:
        super().configure(extra)
        self.back_settings = load_settings(self.config, {}).one("west", "east")

    @property
    def both(self) -> BothWays:
        """Both flows, asked now."""
        back = FlowClusters(self.back_settings, self.target, self.source, self.back_state)
        return look_both_ways(self.clusters, back, self.home, self.away)

    def drain(
        self,
        flow: FlowSettings,
        until: Mapping[TopicPartition, UpstreamOffset],
        timeout_seconds: float | None,
    ) -> None:
        """A `DrainPort` in both directions."""
        if flow.source.alias == "east":
            super().drain(flow, until, timeout_seconds)
            return
        if self.draining is not None:
            raise self._late(timeout_seconds)
        self.drained.append(dict(until))
        for place, offset in until.items():
            self._bring_home(place, int(offset))

    def _bring_home(self, place: TopicPartition, end: int) -> None:
        home = TopicPartition(f"west.{place.topic}", place.partition)
        self.source.add_topic(home.topic, f"id-{home.topic}", end)
        self.source.logs[home] = Bounds(0, end)
        identity = FlowIdentity(self.target.cluster_id, self.source.cluster_id, "west", "east")
        ids = self.target.ids[place.topic], self.source.ids[home.topic]
        about = about_of(identity, ids[0], place, home.topic, ids[1])
        self.back_state.stored[TopicId(ids[0]), place.partition] = map_of(about, [(0, 0, end)], end)


AT_HOME = {"app": {ORDERS: Commit(15), HOME: Commit(4)}, "late": {ORDERS: Commit(7)}}
"""Where its groups go on at home: ``app`` behind the tail, ``late`` before it."""
