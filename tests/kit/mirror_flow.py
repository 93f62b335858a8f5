"""A flow's engine without Spark, without ownership and without mercy: taken, pumped, killed, taken again.

What keeps two owners apart here are the claims alone, as when an owner is cut off and does not know it.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.wire import Producer, RealLog
from mmtool.config import load_settings
from mmtool.errors import GateError
from mmtool.lab.ports import patience
from mmtool.plan.flow.phases import FlowEvent
from mmtool.plan.records.identity import shard_of
from mmtool.replication.driver.context import connect
from mmtool.replication.driver.flow_run import FlowRun
from mmtool.replication.ownership.internal_topics import make_internal_topics
from mmtool.replication.pump.budget import Budget
from mmtool.replication.pump.pump import FlowPump, RoundEnd
from mmtool.replication.spark.assignment import TaskAssignment

if TYPE_CHECKING:
    from pathlib import Path

    from mmtool.config import FlowSettings
    from mmtool.lab.fleet import Fleet
    from mmtool.replication.spark.assignment import FlowAssignment, ReportRow, ShardAssignment
    from mmtool.translation.blocks import Block
    from mmtool.translation.types import TopicId

_LONG_SECONDS = 600.0
_CATCH_UP_SECONDS = 60.0
_LOOKS = 100
_PAUSE_SECONDS = 0.05


def flow_of(
    fleet: Fleet, directory: Path, source: str, target: str, topics: str, **extra: str
) -> FlowSettings:
    """The settings of one flow of the fleet, mirroring ``topics`` and nothing that other tests left there."""
    path, way = directory / f"{source}-{target}.properties", f"{source}->{target}"
    wanted = {f"{way}.topics": topics, f"{way}.heartbeats.replication.enabled": "false", **extra}
    path.write_text(fleet.properties([(source, target)], **wanted), encoding="utf-8")
    return load_settings(path, {}).flows[0]


async def _pumped(task: TaskAssignment) -> list[ReportRow]:
    """The pump of a task's only flow, as it is, without the task's patience."""
    pump = FlowPump(task.flows[0], Budget(task.buffer_bytes).account(), task.index)
    return await pump.run(RoundEnd(task.round_seconds))


@dataclass
class Owner:
    """One process that took the flow, as far as the clusters can tell."""

    run: FlowRun
    round: int = 1
    pumping: asyncio.Task[list[ReportRow]] | None = None

    @classmethod
    async def take(cls, settings: FlowSettings, *, in_doubt: bool = False, take_over: bool = False) -> Owner:
        """Claims every shard; in doubt also where the last owner seems to have closed them."""
        run = FlowRun(await connect(settings), take_over=take_over)
        await make_internal_topics(run.flow)
        for event in (FlowEvent.JOIN, FlowEvent.LEASE_HELD):  # of the lease nothing is tested here
            run.life.happen(event)
        await run.take(in_doubt=in_doubt)
        await run.refresh()
        return cls(run)

    def task(self, seconds: float = _LONG_SECONDS) -> TaskAssignment:
        """Everything there is to mirror, as one task."""
        shards = {load.shard for load in self.run.loads()}
        flow: FlowAssignment = self.run.assignment(self.round, shards)
        return TaskAssignment(0, seconds, flow.settings.buffer_bytes, (flow,))

    def start(self) -> asyncio.Task[list[ReportRow]]:
        """A pump that runs until it is killed or fenced."""
        self.pumping = asyncio.create_task(_pumped(self.task()))
        return self.pumping

    async def pump(self, seconds: float) -> list[ReportRow]:
        """A whole round, folded as the engine folds it."""
        rows = await _pumped(self.task(seconds))
        self.run.fold(rows, seconds)
        self.round += 1
        return rows

    async def catch_up(self) -> None:
        """Rounds until every frontier has passed the source's present end.

        Raises:
            GateError: a minute was not enough.
        """
        await self.run.set_goal()
        deadline = time.monotonic() + patience(_CATCH_UP_SECONDS)
        while not self.run.has_reached_goal:
            if time.monotonic() > deadline:
                raise GateError(f"the mirror does not reach {self.run.goal}", code="timeout")
            await self.pump(0.5)

    async def kill(self) -> None:
        """Ends the pump in the middle of whatever it does; nothing is flushed, nothing is closed on record."""
        if self.pumping is not None:
            self.pumping.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self.pumping
        await self.run.close(clean=False)

    async def close(self) -> None:
        """A clean end, between rounds."""
        await self.run.close(clean=True)

    # --- what it holds ------------------------------------------------------------------------------------

    def topic_id(self, topic: str) -> TopicId:
        return self.run.view.topics[topic].topic_id

    def shard(self, topic: str, partition: int = 0) -> ShardAssignment:
        """The claimed shard of a source partition."""
        return self.run.standing.shards[shard_of(self.topic_id(topic), partition, self.run.shard_count)]

    def signature(self, topic: str, partition: int = 0) -> Producer:
        """What its batches of this partition are signed with."""
        shard = self.shard(topic, partition)
        return Producer(shard.producer_id, shard.epoch)

    def block(self, topic: str, partition: int = 0) -> Block:
        """The books of a source partition as they were found or folded."""
        return self.run.standing.blocks[self.topic_id(topic), partition]

    def runs(self, topic: str, partition: int = 0) -> list[tuple[int, int, int]]:
        """The offset runs of the open block."""
        return [(r.upstream_start, r.downstream_start, r.count) for r in self.block(topic, partition).runs]

    def halted(self, topic: str, partition: int = 0) -> str:
        """Why a partition cannot go on; empty when it can."""
        return self.run.halted.get((self.topic_id(topic), partition), "")

    async def target_log(self, topic: str, partition: int = 0) -> RealLog:
        """The partition's counterpart, over this owner's own connection."""
        mirrored = self.run.view.topics[topic]
        return RealLog(self.run.flow.target, mirrored.target_name, mirrored.target_id, partition)


def mirror(settings: FlowSettings) -> None:
    """Everything there is, by one owner from its start to a clean end."""

    async def mirrored() -> None:
        owner = await Owner.take(settings)
        await owner.catch_up()
        await owner.close()

    asyncio.run(mirrored())
