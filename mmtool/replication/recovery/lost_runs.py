"""Refuse a flow that has mirrored but whose offset runs are gone, with their topic or by foreign tombstones.

To start such partitions again would mirror every record a second time, or, with ``mmtool.start = latest``, skip the
records of the meantime. The loss shows in the positions, which are stored in another topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import RefusedError
from mmtool.kafka.wire.codes import Code
from mmtool.plan.records.documents import State
from mmtool.plan.words import counted
from mmtool.replication.recovery.state_loss import OFFSET_RUNS, rebuild_lost_runs
from mmtool.replication.topics.presence import gone_for_good
from mmtool.translation.types import TopicId

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mmtool.plan.records.documents import PositionRecord
    from mmtool.replication.driver.context import FlowContext


async def refuse_lost_runs(
    flow: FlowContext,
    positions: Mapping[tuple[str, int], PositionRecord],
    blocks: Collection[tuple[str, int]],
) -> None:
    """Refuse to mirror partitions again whose offset runs are lost, as `lost_runs` finds them.

    Raises:
        RefusedError: there are such partitions; the message names one.
    """
    if lost := await lost_runs(flow, positions, blocks):
        first = min(lost.values(), key=lambda position: (position.topic, position.partition))
        raise RefusedError(
            f"{flow.identity.name}: the {OFFSET_RUNS} of {counted(len(lost), 'partition')} are lost, for example of"
            f" {first.topic}-{first.partition}, mirrored up to offset {first.upstream_position}:"
            f" topic {flow.identity.runs_topic} on {flow.target.alias} was deleted or emptied",
            remedy=rebuild_lost_runs(flow.identity),
            code="runs_lost",
        )


async def lost_runs(
    flow: FlowContext,
    positions: Mapping[tuple[str, int], PositionRecord],
    blocks: Collection[tuple[str, int]],
) -> dict[tuple[str, int], PositionRecord]:
    """Positions of mirrored partitions without offset runs whose topic exists on both clusters.

    Topics count whether the file matches them or not: it may match them again. A worker stores a partition's first
    block before its first position, and ``flow forget`` deletes both.

    Args:
        flow: The flow of the positions.
        positions: The flow's recorded positions, by topic id and partition.
        blocks: The partitions whose offset runs are there.
    """
    without = {place: p for place, p in positions.items() if place not in blocks and was_mirrored(p)}
    if not without:
        return {}
    there = await flow.target.refresh({p.target_topic for p in without.values()})
    gone = await gone_for_good(flow.source, {(p.topic, TopicId(p.topic_id)) for p in without.values()})
    return {
        place: p
        for place, p in without.items()
        if p.target_topic in there
        and there[p.target_topic].error_code == Code.NONE
        and (p.topic, p.topic_id) not in gone
    }


def was_mirrored(position: PositionRecord) -> bool:
    """Whether the target holds records of the partition, as far as its worker has reported."""
    return position.downstream_position > 0 and position.state != State.STARTING
