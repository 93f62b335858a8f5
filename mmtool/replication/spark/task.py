"""One Spark task: a copier for each of its flows.

A failure of one flow does not affect the others: when its target is in doubt, its shards are recovered; when one of its
clusters does not answer, the flow is retried, while the others continue.
"""

from __future__ import annotations

import asyncio
import gc
import os
from dataclasses import replace
from typing import Any

from mmtool.errors import MmtoolError, UnreachableError
from mmtool.kafka.state.claims import ClaimLostError
from mmtool.kafka.state.state_log import read_control
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.replication.control.control_follower import tally_of_all
from mmtool.replication.driver.context import connect
from mmtool.replication.ownership.claim_and_recover import claim_and_recover
from mmtool.replication.pump.batch_prep import FencedError, InDoubtError
from mmtool.replication.pump.budget import Budget
from mmtool.replication.pump.pump import FlowPump, RoundEnd
from mmtool.replication.spark.assignment import (
    AWAY,
    FENCED,
    FlowAssignment,
    ReportRow,
    TaskAssignment,
    nothing_known,
)
from mmtool.replication.spark.log import attempt_number
from mmtool.runtime.threads import in_thread, run_loop

_LOOK_SECONDS = 1.0
_AGAIN_SECONDS = 2.0
_PATIENCE_SECONDS = 10.0


class OrphanedError(MmtoolError):
    """The process that started this task is gone."""

    code = "orphaned"


def run_task(task: TaskAssignment, attempt: int) -> list[ReportRow]:
    """Mirror a task's flows until the round ends; return the report rows.

    A later attempt treats its shards as in doubt: the first one died with batches in flight. A flow that was fenced is
    reported and not retried: it has another owner.

    Raises:
        MmtoolError, ConnectionLostError: no flow of the task can be mirrored; Spark tries again, then the driver
            decides.
    """
    return run_loop(Flows(task).run(in_doubt=attempt > 0))


def run_attempt(task: TaskAssignment) -> list[ReportRow]:
    """Run a task in Spark's Python worker; as `run_task`.

    Spark gets it in the closure of a job, secrets included: they are never in Spark's conf, and never in rows.
    """
    spare_the_loaded()
    return run_task(task, attempt_number())


def spare_the_loaded() -> None:
    """Keep the garbage collector from what is loaded by now, once in a process: its modules, mostly.

    A whole collection walks 75,000 of their objects, and copies no record for 50 ms meanwhile.
    """
    if not gc.get_freeze_count():
        gc.freeze()


class Flows:
    """The flows of one task, side by side.

    A. The task fails only when every flow of it has a cluster that cannot be used.
    B. A flow that is fenced ends the round for all of them, cleanly: its owner must hear of it.
    C. Of a flow whose cluster does not answer when the round ends only that is reported: the driver reacquires it.
    """

    def __init__(self, task: TaskAssignment) -> None:
        self._task = task
        self._end = RoundEnd(task.round_seconds)
        self._budget = Budget(task.buffer_bytes, len(task.flows))
        self._alone = len(task.flows) == 1
        self._away: set[str] = set()

    async def run(self, *, in_doubt: bool) -> list[ReportRow]:
        """Mirror all flows until the round has ended; return the report rows of all.

        ``in_doubt``: their shards are recovered first.
        """
        flows = asyncio.gather(*(self._mirror(flow, in_doubt=in_doubt) for flow in self._task.flows))
        parent = asyncio.ensure_future(_watch_parent())
        both: set[asyncio.Future[Any]] = {flows, parent}
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if parent in done:
                parent.result()
            return [row for rows in flows.result() for row in rows]
        finally:
            for work in both:
                work.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _mirror(self, flow: FlowAssignment, *, in_doubt: bool) -> list[ReportRow]:
        name = flow.identity.flow
        while True:
            try:
                if in_doubt:
                    flow = await _take_again(flow)
                self._away.discard(name)
                return await self._pump(flow).run(self._end)
            except (FencedError, ClaimLostError):
                self._end.tell()
                return nothing_known(flow, FENCED)
            except InDoubtError:
                in_doubt = True
            except (MmtoolError, ConnectionLostError):
                in_doubt = True
                self._away.add(name)
                if len(self._away) == len(self._task.flows):
                    raise
                await self._end.wait(_AGAIN_SECONDS)
            if self._end.reached and not self._alone:
                return nothing_known(flow, AWAY)

    def _pump(self, flow: FlowAssignment) -> FlowPump:
        patience = None if self._alone else _PATIENCE_SECONDS
        return FlowPump(flow, self._budget.account(), self._task.index, patience)


async def _watch_parent() -> None:
    """Raise OrphanedError once this worker's parent process has ended.

    A worker whose daemon was killed would otherwise write, unseen, until the next owner fences it.
    """
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110  the kernel tells nobody that a parent died
        await asyncio.sleep(_LOOK_SECONDS)
    raise OrphanedError("the Spark process that started this worker has ended")


async def _take_again(flow: FlowAssignment) -> FlowAssignment:
    """Claim and recover this task's shards again, unless the flow has another owner or a later round.

    Neither must be fenced. A worker that was suspended or disconnected may continue long after its tasks were given to
    others.

    Raises:
        FencedError: the flow has another owner or a later round.
        UnreachableError: a partition can be recovered only later.
    """
    control = await in_thread(read_control, flow.settings.target, flow.identity)
    if control.owner is None or control.owner.owner != flow.owner:
        raise FencedError("another owner has the flow")
    if control.slots is not None and control.slots.round > flow.round:
        raise FencedError("a later Spark job has the flow")
    context = await connect(flow.settings)
    context.shows_register = flow.shows_register
    context.shipped = {partition.topic: partition.transform for partition in flow.partitions}
    try:
        shards = {shard.shard for shard in flow.shards}
        standing = await claim_and_recover(context, shards, shards, flow.shard_count, flow.owner)
        if standing.later:  # who may take it up again is the driver
            raise UnreachableError("; ".join(sorted(standing.halted[place] for place in standing.later)))
    finally:
        await context.close()
    positions, generation = control.positions, control.end + 1
    positions.update(standing.others.items())
    partitions = []
    for partition in flow.partitions:
        place = (partition.topic_id, partition.partition)
        block = standing.blocks.get(place)
        now = replace(
            partition,
            block=block or partition.block,
            next_sequence=0,
            stored=block is not None,
            # all counters, so that no skipped gap is counted again
            tally=tally_of_all(partition.tally, positions.get(place), flow.owner),
            halted=standing.halted.get(place, partition.halted),
            for_good=partition.for_good or place in standing.halted,
            same=standing.writers_of(flow.settings, partition.topic, generation),
        )
        partitions.append(now)
    return replace(flow, shards=tuple(standing.shards.values()), partitions=tuple(partitions))
