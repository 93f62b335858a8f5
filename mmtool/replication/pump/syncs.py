"""MirrorMaker 2's offset-syncs, written beside mmtool's own runs so that MM2's own tools keep working."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mmtool.kafka.own_records import own_batches
from mmtool.kafka.wire.codes import Code, name_of
from mmtool.kafka.wire.produce import ProducePartition
from mmtool.replication.pump.books import append

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.assignment import FlowAssignment
    from mmtool.replication.pump.mirror import PartitionMirror


class SyncBook:
    """Writes the syncs that are due, and each tick the newest of every partition that moved.

    MM2 flushes its delayed syncs once a minute; a tick of a second only makes its translations better. As in
    MM2, a sync that cannot be written is dropped: it is advice to others, and the runs are mmtool's own truth.
    """

    def __init__(
        self, cluster: WireCluster, flow: FlowAssignment, mirrors: Iterable[PartitionMirror]
    ) -> None:
        settings = flow.settings
        at_source = settings.offset_syncs_location == "source"
        other = settings.target.alias if at_source else settings.source.alias
        self._topic = settings.policy.offset_syncs_topic(other)
        self._cluster = cluster
        self._mirrors = [mirror for mirror in mirrors if mirror.syncs is not None]
        self.failure = ""

    @property
    def topics(self) -> set[str]:
        """What ``WireCluster.refresh`` must know of before the first flush."""
        return {self._topic} if self._mirrors else set()

    async def flush(self) -> None:
        records = []
        for mirror in self._mirrors:
            if mirror.syncs is None:
                continue
            mirror.syncs.on_tick()
            if (sync := mirror.syncs.due()) is not None:
                records.append((sync.key(), sync.value()))
        topic_id = self._cluster.topic_id(self._topic)
        if topic_id is None or not records:
            return
        for batch in own_batches(records, int(time.time() * 1000)):
            code = await append(self._cluster, ProducePartition(self._topic, topic_id, 0, batch.payload))
            self.failure = "" if code == Code.NONE else f"{self._topic}: {name_of(code)}"
