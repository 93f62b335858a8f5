"""Refuse a flow that has mirrored but whose control topic, offset-runs topic or offset runs are gone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from mmtool.errors import MmtoolError, RefusedError, UnreachableError
from mmtool.kafka.errors import NO_LEADER
from mmtool.kafka.state.state_log import read_blocks
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.scan import without_leader
from mmtool.plan.flow.moves import START_AGAIN
from mmtool.plan.records.documents import State
from mmtool.plan.words import counted
from mmtool.replication.pump.in_flight import FencedError
from mmtool.replication.topics.presence import gone_for_good
from mmtool.runtime.threads import in_thread
from mmtool.translation.types import TopicId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mmtool.kafka.state.control_view import ControlView
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.plan.records.documents import PositionRecord
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.replication.driver.context import FlowContext


_LOOK_SECONDS = 5.0
OFFSET_RUNS = "offset runs (the map of source offsets to target offsets)"


class OwnTopics:
    """The topic ids of a flow's control and offset-runs topics, as this process knows them."""

    def __init__(self) -> None:
        self._ids: dict[str, TopicId] = {}

    async def check(self, flow: FlowContext, control: ControlView) -> None:
        """Refuse to claim a flow whose control topic or offset-runs topic was deleted or emptied.

        Args:
            flow: The flow.
            control: The present content of its control topic.

        Raises:
            RefusedError: one of the topics was deleted or emptied, or cannot be read.
            UnreachableError, NotAuthorisedError, ConnectionLostError: the target does not answer.
        """
        identity = flow.identity
        lost = await _lost_of(flow.target, self._ids)
        if not lost and control.flow is None:
            there = await in_thread(read_blocks, flow.settings.target, flow.identity)
            lost = identity.control_topic if there else ""
        if lost:
            raise _refusal(identity, lost, flow.target.alias)
        names = (identity.control_topic, identity.runs_topic)
        await flow.target.refresh(names)
        self._ids = {name: own_topic_id(flow, name) for name in names}


async def check_led(flow: FlowContext) -> None:
    """Check that every partition of the flow's control and offset-runs topics has a leader now.

    Some may have none, for instance while a disk of the target is full.

    Raises:
        ConnectionLostError: a partition has no leader; the message names it.
    """
    found = await flow.target.refresh((flow.identity.control_topic, flow.identity.runs_topic))
    places = [TopicPartition(topic.name, p.partition) for topic in found.values() for p in topic.partitions]
    if lone := sorted(place for place in places if flow.target.leader(*place) is None):
        raise ConnectionLostError(without_leader(flow.target.alias, lone), NO_LEADER)


async def until_gone(target: WireCluster, ids: Mapping[str, TopicId]) -> NoReturn:
    """Check every few seconds, and raise when one of the topics was deleted or recreated.

    Raises:
        FencedError: a topic was; the flow's owner finds out which stored state is left.
    """
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        with suppress(MmtoolError, ConnectionLostError):  # who is away has deleted nothing
            if lost := await _lost_of(target, ids):
                raise FencedError(f"topic {lost} was deleted on {target.alias}")


def own_topic_id(flow: FlowContext, topic: str) -> TopicId:
    """The id of one of the flow's internal topics, which exist before a flow is claimed.

    Raises:
        UnreachableError: the target no longer lists the topic; the next claim of the flow finds out why.
    """
    found = flow.target.topic_id(topic)
    if found is None:
        raise UnreachableError(
            f"topic {topic} is missing on cluster {flow.target.alias}", remedy="run the same command again"
        )
    return found


def rebuild_lost_runs(identity: FlowIdentity) -> str:
    """The remedy for lost offset runs, as a phrase for the operator."""
    flow = identity.options
    return (
        f"run `mmtool flow rebuild {flow} --execute`, which derives the offset runs from both logs, {START_AGAIN}; if"
        f" the rebuild refuses a topic, `mmtool flow forget {flow} --topic TOPIC --execute` lets the next start mirror"
        " this topic again from `mmtool.start`"
    )


def resume_after_loss(identity: FlowIdentity) -> str:
    """The steps after a rebuild without marks: exclude failed-over topics first, then resume the flow.

    Resuming lifts every pause, so that only the file keeps a failed-over topic from being mirrored.
    """
    return (
        "find the topics that have failed over (`mmtool failover list -c FILE`, then `mmtool failover show ID -c FILE`)"
        f" and add them to topics.exclude, then run `mmtool flow resume {identity.options}`"
    )


async def _lost_of(target: WireCluster, ids: Mapping[str, TopicId]) -> str:
    """The name of a topic that was deleted or recreated; empty if there is none."""
    gone = await gone_for_good(target, ids.items())
    return next((name for name, one in ids.items() if (name, one) in gone), "")


def _refusal(identity: FlowIdentity, topic: str, alias: str) -> RefusedError:
    where = f"{identity.name}: topic {topic} on {alias} was deleted or emptied: "
    if topic == identity.runs_topic:
        return RefusedError(
            where + f"the flow's {OFFSET_RUNS} are lost", remedy=rebuild_lost_runs(identity), code="runs_lost"
        )
    return RefusedError(
        where
        + "mmtool no longer knows which topics have failed over, which are paused, and which records the"
        " previous replicate wrote last; nothing is mirrored",
        remedy=f"run `mmtool flow rebuild {identity.options} --execute`, which recreates the topic and pauses the flow;"
        f" {resume_after_loss(identity)}; {START_AGAIN}",
        code="control_lost",
    )


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
