"""Record up to which offset the target's log is known to hold no unrecorded record of the flow.

The offset runs end with the flow's last record. Foreign records behind it could hide a record of the flow that is not
yet recorded, as far as a reader of the runs knows. So the worker reads the log's end while it has nothing in flight,
and stores that offset. Where no other producer may write, the foreign records are reported.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import offsets_now
from mmtool.runtime.threads import within
from mmtool.translation.types import DownstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.pump.mirror import PartitionMirror

_PATIENCE_SECONDS = 2.0
_PARTITIONS_A_SECOND = 500  # more are looked at less often than each second


class TargetEnds:
    """Reads the log ends of partitions that have nothing in flight.

    Args:
        cluster: The target.
        mirrors: Whose logs.
        every_seconds: How often, at the most.
        freed: Called with the bytes that a mirror held whose log was cut.
    """

    def __init__(
        self,
        cluster: WireCluster,
        mirrors: Iterable[PartitionMirror],
        every_seconds: float,
        freed: Callable[[int], None],
    ) -> None:
        self._cluster = cluster
        self._mirrors = list(mirrors)
        self._every = every_seconds
        self._freed = freed
        self._next = 0.0

    async def look(self) -> None:
        """Read the log ends of all partitions with nothing in flight, and hand them to their mirrors.

        Does nothing if the last call was too recent. A partition whose leader does not answer soon is left to a later
        call.
        """
        now = time.monotonic()
        if now < self._next:
            return
        resting = {
            m.assignment.block.about.downstream: (m, mark)
            for m in self._mirrors
            if (mark := m.mark) is not None
        }
        self._next = now + max(self._every, len(resting) / _PARTITIONS_A_SECOND)
        ends = await offsets_now(self._cluster, dict.fromkeys(resting, LATEST), _PATIENCE_SECONDS)
        unclear = {
            place.topic
            for place, (mirror, _) in resting.items()
            if place not in ends or ends[place] < mirror.downstream_end
        }
        if unclear:
            await self._look_up(unclear)
        for place, end in ends.items():
            mirror, mark = resting[place]
            if self._cluster.topic_id(place.topic) == mirror.assignment.target_topic_id:
                before = mirror.held_bytes
                mirror.looked(mark, DownstreamOffset(end))
                if mirror.held_bytes < before:
                    self._freed(before - mirror.held_bytes)

    async def _look_up(self, topics: Iterable[str]) -> None:
        """Refresh the leaders and topic ids of ``topics``.

        No batch is sent to a partition at rest, so no produce answer would show that its leader or its topic changed.
        """
        with suppress(ConnectionLostError, TimeoutError):
            await within(_PATIENCE_SECONDS, self._cluster.refresh(topics))
