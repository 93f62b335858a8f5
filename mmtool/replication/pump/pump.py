"""The pump: an event loop in a Spark task that mirrors its share of the flows until the round ends."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.kafka.clients import wire_cluster
from mmtool.replication.aside import to_its_end
from mmtool.replication.origins import Origins
from mmtool.replication.pump.books import PositionsBook, RunsBook
from mmtool.replication.pump.budget import Budget
from mmtool.replication.pump.control import until_told
from mmtool.replication.pump.ends import TargetEnds
from mmtool.replication.pump.mirror import InDoubtError, PartitionMirror
from mmtool.replication.pump.pace import Pace
from mmtool.replication.pump.reading import SourceReader
from mmtool.replication.pump.report import rows_of
from mmtool.replication.pump.round_trips import RoundTrips
from mmtool.replication.pump.syncs import SyncBook
from mmtool.replication.pump.writing import TargetWriter
from mmtool.translation.sync_emission import SyncEmitter
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine
    from typing import Any

    from mmtool.plan.documents import Command
    from mmtool.replication.assignment import FlowAssignment, PartitionAssignment, TaskAssignment
    from mmtool.replication.pump.report import ReportRow

_BOOKS_SECONDS = 1.0
_DRAIN_SECONDS = 30.0
_LOOKS_AT_THE_WAY = 3


class OrphanedError(MmtoolError):
    """The process that started this pump is gone."""

    code = "orphaned"


class FlowPump:
    """One flow's share of a task."""

    def __init__(self, flow: FlowAssignment, budget: Budget, task: int) -> None:
        settings = flow.settings
        committed = settings.reads_committed
        shards = {shard.shard: shard for shard in flow.shards}
        self.flow = flow
        self.source = wire_cluster(settings.source, "pump", role="consumer")
        self.round_trips = RoundTrips()
        origins = Origins.of(settings, flow.identity, self.source)
        left_out = origins.left_out if origins is not None else ()
        self.mirrors = [
            PartitionMirror(
                p,
                shards[p.shard],
                read_committed=committed,
                syncs=_emitter(flow, p),
                left_out=left_out,
                round_trips=self.round_trips,
            )
            for p in flow.partitions
        ]
        self.target = wire_cluster(settings.target, "pump", role="producer")
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._budget = budget
        self.runs = RunsBook(self.target, flow, self.mirrors)
        self.pace = Pace(flow, task)
        self.positions = PositionsBook(self.target, flow, self.mirrors, self.pace)
        self.ends = TargetEnds(self.target, self.mirrors) if settings.keeps_names else None
        at_source = settings.offset_syncs_location == "source"
        self.syncs = SyncBook(self.source if at_source else self.target, flow, self.mirrors)
        self.writer = TargetWriter(self.target, self.mirrors, self._freed, self._failed, self.round_trips)
        self.reader = SourceReader(
            self.source,
            self.mirrors,
            budget,
            self.pace,
            self.writer.wake,
            read_committed=committed,
            continue_on_loss=settings.on_data_loss == "continue",
            origins=origins,
        )

    def _freed(self, count: int) -> None:
        self._budget.add(-count)
        self.reader.has_room()

    def _failed(self, error: BaseException) -> None:
        if not self.failure.done():
            self.failure.set_exception(error)

    async def open(self) -> None:
        """Connects, and stores the first block of every new partition before its first record is sent."""
        await asyncio.gather(self.source.start(), self.target.start())
        own = {self.flow.identity.runs_topic, self.flow.identity.control_topic}
        await self.target.refresh({m.assignment.target_topic for m in self.mirrors} | own | self.syncs.topics)
        await self._measure_the_way(own)
        await self.source.refresh({m.assignment.topic for m in self.mirrors} | self.syncs.topics)
        await self.runs.flush()

    async def _measure_the_way(self, topics: Collection[str]) -> None:
        """Looks again where the way seems long: a busy moment is no distance."""
        for _ in range(_LOOKS_AT_THE_WAY):
            began = time.monotonic()
            await self.target.refresh(topics)
            self.round_trips.note(time.monotonic() - began, set(), began)
            if not self.round_trips.goal_bytes:
                return

    async def keep_books(self) -> None:
        """Stores runs and positions each second until cancelled, which cuts no write off in the middle."""
        while True:
            await asyncio.sleep(_BOOKS_SECONDS)
            await to_its_end(self._flush())

    async def _flush(self) -> None:
        if self.ends is not None:
            await self.ends.look()
        await self.runs.flush()
        await self.positions.flush()
        self.syncs.flush()

    async def close(self) -> None:
        """Waits for every answer that is still due, then stores the last runs and positions.

        Raises:
            InDoubtError: when an answer did not come: only the target's log can tell what it holds.
        """
        for mirror in self.mirrors:
            self._budget.add(-mirror.drop_unsent())
        if not await self.writer.drain(_DRAIN_SECONDS):
            raise InDoubtError(f"{self.target.alias} did not answer for the last batches")
        if self.ends is not None:
            await self.ends.look()
        await self.runs.flush()
        await self.positions.flush()
        await self.syncs.close()

    async def disconnect(self) -> None:
        await self.writer.close()
        await asyncio.gather(self.source.close(), self.target.close())


class Pump:
    """Runs the flows of one task until time is up, the owner says so, or something breaks."""

    def __init__(self, task: TaskAssignment) -> None:
        self._task = task
        self._budget = Budget(task.buffer_bytes)
        self._flows = [FlowPump(flow, self._budget, task.index) for flow in task.flows]

    async def run(self) -> list[ReportRow]:
        """Mirrors until the round ends; one row per partition.

        Raises:
            FencedError: another owner has the flow.
            InDoubtError: resume from the target's log.
            MmtoolError: a cluster cannot be used.
        """
        try:
            await asyncio.gather(*(flow.open() for flow in self._flows))
            told = await self._until_the_end()
            await asyncio.gather(*(flow.close() for flow in self._flows))
            return [
                row
                for flow in self._flows
                for row in rows_of(flow.flow.identity.flow, flow.mirrors, flow.runs.sequences, told)
            ]
        finally:
            await asyncio.gather(*(flow.disconnect() for flow in self._flows), return_exceptions=True)

    async def _until_the_end(self) -> str:
        endless = [
            _never(work)
            for flow in self._flows
            for work in (flow.reader.run(), flow.keep_books(), _failure(flow.failure))
        ]
        told = [until_told(flow.target, flow.flow, flow.pace.heard) for flow in self._flows]
        tasks = [asyncio.ensure_future(c) for c in (*told, *endless, _never(_watch_parent()))]
        try:
            done, _ = await asyncio.wait(
                tasks, timeout=self._task.round_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            commands = [task.result() for task in done]
            return commands[0].value if commands else ""
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _emitter(flow: FlowAssignment, partition: PartitionAssignment) -> SyncEmitter | None:
    if not flow.settings.emit_offset_syncs:
        return None
    tp = TopicPartition(partition.topic, partition.partition)
    return SyncEmitter(tp, offset_lag_max=flow.settings.offset_lag_max)


async def _never(work: Coroutine[Any, Any, None]) -> Command:
    """For work that ends a round only by failing."""
    await work
    raise AssertionError("endless work ended")


async def _failure(future: asyncio.Future[None]) -> None:
    await future


async def _watch_parent() -> None:
    """A worker whose daemon was killed would write on, unseen, until the next owner fences it."""
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110  the kernel tells nobody that a parent died
        await asyncio.sleep(_BOOKS_SECONDS)
    raise OrphanedError("the Spark process that started this pump is gone")
