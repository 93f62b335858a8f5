"""Store a worker's state on the target each second: offset runs under claims, positions, MM2's offset syncs."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.kafka.errors import remedy_of_refusal
from mmtool.kafka.mirror_maker import syncs_place
from mmtool.kafka.state.own_log import MARK, append, own_batches, refused
from mmtool.kafka.wire.cluster import ConnectionLostError, WireCluster
from mmtool.kafka.wire.codes import FENCED, RETRY_AFTER_METADATA, Code, name_of
from mmtool.kafka.wire.produce import ProducePartition, ProduceRequest
from mmtool.plan.failover.risks import REPORT_SECONDS
from mmtool.plan.records.documents import PositionRecord
from mmtool.plan.records.identity import FlowIdentity, runs_partition_of
from mmtool.plan.words import retried
from mmtool.replication.pump.batch_prep import FencedError, InDoubtError
from mmtool.replication.spark.assignment import FlowAssignment, ShardAssignment, Tally
from mmtool.replication.spark.log import executor_name
from mmtool.transforms.process import MOST_SECONDS
from mmtool.translation.block_codec import encode_block, encode_key
from mmtool.translation.mm2_records import OffsetSync

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.kafka.batches import ReadyBatch
    from mmtool.replication.driver.context import FlowContext, OwnedState
    from mmtool.replication.pump.budget import Pace
    from mmtool.replication.pump.log_changes import Gaps
    from mmtool.replication.pump.mirror import PartitionMirror
    from mmtool.translation.blocks import Block, BlockKey


_TIMEOUT_MS = 15_000
_CLOSING_SECONDS = 3.0


class SyncBook:
    """Writes each second a sync of the last record of every partition that moved.

    MM2 writes more between its flushes, which are a minute apart. As in MM2, a sync that cannot be written is dropped:
    only other tools use syncs, and mmtool relies on the offset runs. Nor does an unreachable cluster delay mirroring:
    the syncs are often written to the source.

    Attributes:
        failure: Why the last write failed, with the remedy; empty after one that succeeded.
    """

    def __init__(
        self, cluster: WireCluster, flow: FlowAssignment, mirrors: Iterable[PartitionMirror]
    ) -> None:
        self._topic = syncs_place(flow.settings)[1]
        self._cluster = cluster
        self._mirrors = list(mirrors) if flow.settings.emit_offset_syncs else []
        self._writing: asyncio.Task[None] | None = None
        self.failure = ""

    @property
    def topics(self) -> set[str]:
        """Topics whose metadata ``WireCluster.refresh`` has to read before the first flush."""
        return {self._topic} if self._mirrors else set()

    def flush(self) -> None:
        """Start to write the next syncs, unless the last write still waits for its answer."""
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
            last, mirror.unsynced = mirror.unsynced, None
            if last is not None:
                sync = OffsetSync(mirror.assignment.place, *last)
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


_PATIENCE_SECONDS = 45.0
"""How long a write is retried, which is longer than one request waits.

A leader that hangs has a successor by then, and where a quota has silenced a connection for minutes, a new connection
gets answers."""


class OffsetRunWriter:
    """Stores the blocks of one flow's partitions on its offset-runs topic.

    Each shard's blocks are written under the shard's own claim, so an owner that was replaced can no more
    overwrite them than it can append records.

    A. Blocks of a shard are stored in the order in which they were taken, or the worker stops.
    B. No write follows one that failed or was cut off in the middle. It is unknown what that one left: its blocks could
       be missing, and the next write, with the same sequence number, would pass for its repetition.
    """

    def __init__(
        self, cluster: WireCluster, flow: FlowAssignment, mirrors: Iterable[PartitionMirror]
    ) -> None:
        self._cluster = cluster
        self._flow = flow
        self._mirrors: dict[int, list[PartitionMirror]] = defaultdict(list)
        for mirror in mirrors:
            self._mirrors[mirror.shard.shard].append(mirror)
        self.sequences = {shard.shard: shard.runs_sequence for shard in flow.shards}
        self._cut_off = False

    async def flush(self) -> None:
        """Store every block that changed since the last flush.

        Raises:
            FencedError: another owner claimed a shard.
            InDoubtError: an earlier flush did not complete.
            UnreachableError: the target did not take them in time.
        """
        if self._cut_off:
            raise InDoubtError("writing offset runs: an earlier write did not complete")
        self._cut_off = True
        by_partition: dict[int, list[tuple[ShardAssignment, list[ReadyBatch]]]] = defaultdict(list)
        for shard in self._flow.shards:
            if batches := self._changed(shard):
                by_partition[runs_partition_of(shard.shard)].append((shard, batches))
        await asyncio.gather(*(self._store(work) for work in by_partition.values()))
        for mirrors in self._mirrors.values():
            for mirror in mirrors:
                mirror.stored()
        self._cut_off = False

    def _changed(self, shard: ShardAssignment) -> list[ReadyBatch]:
        now_ms = int(time.time() * 1000)
        records = [
            (encode_key(block.key), encode_block(block))
            for mirror in self._mirrors[shard.shard]
            for block in mirror.take_blocks()
        ]
        return own_batches(records, now_ms)

    async def _store(self, work: list[tuple[ShardAssignment, list[ReadyBatch]]]) -> None:
        for shard, batches in work:
            numbered = replace(shard, runs_sequence=self.sequences[shard.shard])
            stored = await _append_runs(self._cluster, self._flow.identity, numbered, batches)
            self.sequences[shard.shard] = stored.runs_sequence


async def store_owned(
    flow: FlowContext,
    standing: OwnedState,
    shard: int,
    blocks: Iterable[Block] = (),
    *,
    struck_out: Iterable[BlockKey] = (),
) -> None:
    """Store blocks of one shard under its owner's claim, and keep its next sequence number in ``standing``.

    The blocks of the keys in ``struck_out`` get tombstones.

    Raises:
        FencedError: another owner claimed the shard.
        UnreachableError: the target did not take them in time.
    """
    records: list[tuple[bytes, bytes | None]] = [(encode_key(key), None) for key in struck_out]
    records += [(encode_key(block.key), encode_block(block)) for block in blocks]
    standing.shards[shard] = await store_records(flow.target, flow.identity, standing.shards[shard], records)


async def store_records(
    cluster: WireCluster,
    identity: FlowIdentity,
    shard: ShardAssignment,
    records: Iterable[tuple[bytes, bytes | None]],
) -> ShardAssignment:
    """Store records of one shard, whether they can be read as blocks or not; return the shard with its next number.

    Raises:
        As `store_owned`.
    """
    batches = own_batches(records, int(time.time() * 1000))
    return await _append_runs(cluster, identity, shard, batches)


async def _append_runs(
    cluster: WireCluster, identity: FlowIdentity, shard: ShardAssignment, batches: Iterable[ReadyBatch]
) -> ShardAssignment:
    topic, partition = identity.runs_topic, runs_partition_of(shard.shard)
    for batch in batches:
        batch.stamp(shard.producer_id, shard.epoch, shard.runs_sequence)
        topic_id = cluster.topic_id(topic)
        if topic_id is None:
            topic_id = (await cluster.refresh([topic]))[topic].topic_id
        entry = ProducePartition(topic, topic_id, partition, batch.payload)
        code = await append(cluster, entry, _PATIENCE_SECONDS)
        if code in FENCED:
            raise FencedError(f"writing offset runs: {name_of(code)}")
        if code in (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.UNKNOWN_PRODUCER_ID):
            raise InDoubtError(f"writing offset runs: {name_of(code)}")
        if code not in (Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER):
            cluster.check_denied(code, f"WRITE on topic {topic}")
            raise refused(cluster, topic, code)
        shard = replace(shard, runs_sequence=shard.runs_sequence + batch.record_count)
    return shard


class PositionWriter:
    """Writes each partition's position to the control topic, for progress, status, lag and the throttle."""

    def __init__(
        self, cluster: WireCluster, flow: FlowAssignment, mirrors: Iterable[PartitionMirror], pace: Pace
    ) -> None:
        self._cluster = cluster
        self._flow = flow
        self._mirrors = list(mirrors)
        self._pace = pace
        self._repeat_at = 0.0

    async def flush(self, heard_ms: int, waiting: Mapping[PartitionMirror, str]) -> None:
        """Write the positions that changed, and every few seconds all of them, to show that the flow is alive.

        Args:
            heard_ms: Until when the source's log ends are known: the positions are observed then.
            waiting: The partitions that wait for a broker, and that broker.
        """
        now = time.monotonic()
        everything = now >= self._repeat_at
        if everything:
            self._repeat_at = now + REPORT_SECONDS
        use = self._pace.use()
        records = [] if use is None else [(use.key, use.encode())]
        told: list[tuple[Gaps, int]] = []
        for mirror in self._mirrors:
            mirror.note_lag(heard_ms)
            if mirror.dirty or everything:
                mirror.dirty = False
                position = self._position(mirror, heard_ms, waiting.get(mirror, ""))
                records.append((position.key, position.encode()))
                told.append((mirror.gaps, position.gaps_end))
        topic, topic_id = self._flow.identity.control_topic, self._flow.control_topic_id
        batches = own_batches(records, int(time.time() * 1000))
        codes = [
            await append(
                self._cluster, ProducePartition(topic, topic_id, 0, batch.payload), _PATIENCE_SECONDS
            )
            for batch in batches
        ]
        if not any(codes):
            for gaps, end in told:
                gaps.told = end

    def _position(self, mirror: PartitionMirror, observed_ms: int, waits_for: str) -> PositionRecord:
        a = mirror.assignment
        return PositionRecord(
            owner=self._flow.owner,
            topic=a.topic,
            topic_id=a.topic_id,
            partition=a.partition,
            target_topic=a.target_topic,
            upstream_position=mirror.frontier,
            downstream_position=mirror.downstream_end,
            source_end=mirror.source_end,
            source_seen_ms=mirror.end_seen_ms(observed_ms),
            source_log_start=mirror.log_start,
            state=mirror.state,
            reason=mirror.reason or _of_transform(mirror),
            observed_ms=observed_ms,
            behind_since_ms=mirror.behind_since_ms,
            at_end_ms=mirror.at_end_ms,
            **tally_of(mirror)._asdict(),
            slowed_by=self._pace.quotas.of if mirror.behind_since_ms else "",
            waits_for=waits_for,
            executor=executor_name(),
            round=self._flow.round,
        )


_LONG_SECONDS = 5.0
"""For a transform, after which the partition's reason names it."""


def _of_transform(mirror: PartitionMirror) -> str:
    """Why a partition's transform keeps it waiting; empty where it does not."""
    since, spec = mirror.changed_since, mirror.assignment.transform
    if since is None or spec is None or time.monotonic() - since < _LONG_SECONDS:
        return ""
    return (
        f"waiting for {spec.name}: for more than {_LONG_SECONDS:.0f} s it has not returned the records from source"
        f" offset {mirror.fetch_position} on; mmtool ends a call after {MOST_SECONDS:.0f} s"
    )


def tally_of(mirror: PartitionMirror) -> Tally:
    """The counters of ``mirror`` so far."""
    foreign = mirror.foreign
    others = (foreign.count, foreign.end) if foreign is not None else (0, 0)
    gaps = (mirror.gaps.count, mirror.gaps.end)
    latency = mirror.latencies.latency
    return Tally(
        mirror.records, mirror.bytes, mirror.dead_letters, *others, *gaps, *latency, mirror.unreadable
    )
