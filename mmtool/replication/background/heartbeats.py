"""Write MirrorMaker 2's heartbeats, by which tools see that a flow is alive and which clusters are upstream."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.state.own_log import append_records
from mmtool.kafka.state.own_records import MARK
from mmtool.replication.ownership.internal_topics import mm2_topic
from mmtool.runtime.threads import in_thread
from mmtool.translation.mm2_records import Heartbeat

if TYPE_CHECKING:
    from mmtool.config import FlowSettings
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.background import ExtraTurn


@dataclass(slots=True)
class Heartbeats:
    """Writes one record per interval into ``heartbeats`` on the target of a pair of clusters.

    Attributes:
        pair: The flow, or a reverse flow.
        target: The pair's target.
    """

    pair: FlowSettings
    target: WireCluster
    name: str = "heartbeats"
    extra: ExtraTurn = "first"
    _is_there: bool = False

    @property
    def seconds(self) -> float:
        return float(self.pair.emit_heartbeats_interval_seconds)

    async def perform(self) -> None:
        topic = self.pair.policy.heartbeats_topic()
        try:
            if not self._is_there:
                await in_thread(self._create, topic)
                await self.target.refresh([topic])
            aliases = self.pair.topic_aliases
            beat = Heartbeat(aliases.source, aliases.target, int(time.time() * 1000))
            await append_records(self.target, topic, [(beat.key(), beat.value())], MARK)
        except BaseException:
            self._is_there = False  # deleted, perhaps: the next turn makes it again
            raise
        self._is_there = True

    def _create(self, topic: str) -> None:
        factor = self.pair.heartbeats_replication_factor
        TopicAdmin(self.pair.target).create_internal([mm2_topic(topic, factor)])
