"""One Spark task: run the pump; when what the target holds is in doubt, take the shards again and go on."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from mmtool.kafka.state_log import read_control
from mmtool.replication.claims import ClaimLostError
from mmtool.replication.context import connect
from mmtool.replication.establish import establish
from mmtool.replication.pump.mirror import FencedError, InDoubtError
from mmtool.replication.pump.pump import Pump
from mmtool.replication.pump.report import ReportRow, fenced_rows

if TYPE_CHECKING:
    from mmtool.replication.assignment import FlowAssignment, PartitionAssignment, TaskAssignment
    from mmtool.replication.establish import Standing


def run_task(task: TaskAssignment, attempt: int) -> list[ReportRow]:
    """Mirrors until the round ends.

    A later attempt finds its shards in doubt: the first one died with batches in flight. Being fenced is no
    failure to try again after, it is reported: the flow has another owner.

    Raises:
        MmtoolError: a cluster cannot be used; Spark tries again, then the driver decides.
    """
    return asyncio.run(_run(task, in_doubt=attempt > 0))


async def _run(task: TaskAssignment, *, in_doubt: bool) -> list[ReportRow]:
    deadline = time.monotonic() + task.round_seconds
    while True:
        try:
            if in_doubt:
                task = await _take_again(task)
            left = max(deadline - time.monotonic(), 1.0)
            return await Pump(replace(task, round_seconds=left)).run()
        except (FencedError, ClaimLostError):
            return fenced_rows(task)
        except InDoubtError:
            in_doubt = True


async def _take_again(task: TaskAssignment) -> TaskAssignment:
    flows = await asyncio.gather(*(_take_flow_again(flow) for flow in task.flows))
    return replace(task, flows=tuple(flows))


async def _take_flow_again(flow: FlowAssignment) -> FlowAssignment:
    """Claims this task's shards anew, unless the flow has another owner by now: that one must not be fenced.

    Raises:
        FencedError: it has.
    """
    control = await asyncio.to_thread(read_control, flow.settings.target, flow.identity)
    if control.owner is None or control.owner.owner != flow.owner:
        raise FencedError("another owner has the flow")
    context = await connect(flow.settings)
    try:
        shards = {shard.shard for shard in flow.shards}
        standing = await establish(context, shards, shards, flow.shard_count, flow.owner)
    finally:
        await context.close()
    return replace(
        flow,
        shards=tuple(standing.shards.values()),
        partitions=tuple(_standing_now(p, standing) for p in flow.partitions),
    )


def _standing_now(partition: PartitionAssignment, standing: Standing) -> PartitionAssignment:
    place = (partition.topic_id, partition.partition)
    block = standing.blocks.get(place)
    return replace(
        partition,
        block=block or partition.block,
        next_sequence=0,
        stored=block is not None,
        halted=standing.halted.get(place, partition.halted),
    )
