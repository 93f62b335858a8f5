"""Write MirrorMaker 2's offset syncs beside the offset runs, so that MM2's own tools keep working."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.kafka.mm2.mirror_maker import syncs_place
from mmtool.kafka.remedies import remedy_of_refusal
from mmtool.kafka.state.own_records import MARK, own_batches
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import RETRY_AFTER_METADATA, Code, name_of
from mmtool.kafka.wire.produce import ProducePartition, ProduceRequest
from mmtool.replication.driver.notices import retried

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.pump.mirror import PartitionMirror
    from mmtool.replication.spark.assignment import FlowAssignment


_TIMEOUT_MS = 15_000
_CLOSING_SECONDS = 3.0


class SyncBook:
    """Writes the syncs that are due, and each second the newest one of every partition that moved.

    MM2 flushes its delayed syncs once a minute; a tick of a second only makes its translations better. As in
    MM2, a sync that cannot be written is dropped: only other tools use syncs, and mmtool relies on the offset runs. Nor
    does an unreachable cluster delay mirroring: the syncs are often written to the source.

    Attributes:
        failure: Why the last write failed, with the remedy; empty after one that succeeded.
    """

    def __init__(
        self, cluster: WireCluster, flow: FlowAssignment, mirrors: Iterable[PartitionMirror]
    ) -> None:
        self._topic = syncs_place(flow.settings)[1]
        self._cluster = cluster
        self._mirrors = [mirror for mirror in mirrors if mirror.syncs is not None]
        self._writing: asyncio.Task[None] | None = None
        self.failure = ""

    @property
    def topics(self) -> set[str]:
        """Topics whose metadata ``WireCluster.refresh`` has to read before the first flush."""
        return {self._topic} if self._mirrors else set()

    def flush(self) -> None:
        """Start to write the syncs that are due, unless the last write still waits for its answer."""
        if (self._writing is None or self._writing.done()) and (records := self._due()):
            self._writing = asyncio.create_task(self._write(records))

    async def close(self) -> None:
        """Write the remaining syncs; give up when the cluster does not answer within seconds."""
        for _ in range(2):  # what is under way, then what became due meanwhile
            self.flush()
            if self._writing is not None:
                await asyncio.wait({self._writing}, timeout=_CLOSING_SECONDS)
        if self._writing is not None:
            self._writing.cancel()

    def _due(self) -> list[tuple[bytes, bytes | None]]:
        records: list[tuple[bytes, bytes | None]] = []
        for mirror in self._mirrors:
            if mirror.syncs is not None:
                mirror.syncs.on_tick()
                if (sync := mirror.syncs.due()) is not None:
                    records.append((sync.key(), sync.value()))
        return records

    async def _write(self, records: list[tuple[bytes, bytes | None]]) -> None:
        try:
            topic_id = self._cluster.topic_id(self._topic)
            if topic_id is None:
                await self._cluster.refresh([self._topic])
                return
            for batch in own_batches(records, int(time.time() * 1000), MARK):
                request = ProduceRequest(
                    [ProducePartition(self._topic, topic_id, 0, batch.payload)], _TIMEOUT_MS
                )
                answer = await self._cluster.send_to_leader(self._topic, 0, request, purpose="syncs")
                code = answer.partitions[0].error_code
                self._note(code)
                if code in RETRY_AFTER_METADATA:
                    await self._cluster.refresh([self._topic])
        except (MmtoolError, ConnectionLostError) as error:
            self.failure = retried(error)

    def _note(self, code: int) -> None:
        """Note the broker's answer to a write.

        Raises:
            NotAuthorisedError: the cluster denies it.
        """
        self._cluster.check_denied(code, f"WRITE on topic {self._topic}")
        alias, name = self._cluster.alias, name_of(code)
        said = f"cluster {alias} refuses a write to topic {self._topic}: {name}"
        remedy = remedy_of_refusal(name, alias, f"topic {self._topic}")
        self.failure = "" if code == Code.NONE else f"{said}; {remedy}"
