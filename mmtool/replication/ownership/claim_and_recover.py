"""Claim a flow's shards, recover each partition's position, and record the claims on the control topic.

What a crash leaves at each step:
- before the claims are recorded: the shards still read as their last owner left them, and the next owner does
  the same again;
- after: they read as open, so the next owner fences and reads the target's log.
No record is mirrored before the claims are recorded and their producer ids are registered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.kafka.state.claims import take_shards
from mmtool.kafka.state.flow_state import unbooked_of
from mmtool.kafka.state.state_log import newest_blocks, read_blocks, read_producers
from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import active_producers_of_all, list_offsets
from mmtool.plan.records.documents import ProducerRecord, ShardRecord
from mmtool.plan.records.identity import PRODUCERS_TOPIC, runs_partition_of, shard_of
from mmtool.replication.driver.context import OwnedState
from mmtool.replication.ownership.internal_topics import write_documents
from mmtool.replication.pump.truncation import target_cut
from mmtool.replication.recovery.recover_shards import ask_unbooked, resume_all
from mmtool.replication.same_offsets.log_fill import offset_writers
from mmtool.replication.spark.assignment import ShardAssignment
from mmtool.runtime.threads import in_thread
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mmtool.kafka.state.claims import Claim
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.plan.records.documents import OffsetWritersRecord
    from mmtool.plan.topics.facts import HaltReason
    from mmtool.replication.driver.context import FlowContext, Place
    from mmtool.translation.blocks import Block


async def claim_and_recover(
    flow: FlowContext, shards: Collection[int], in_doubt: Collection[int], count: int, owner: str
) -> OwnedState:
    """Claim ``shards``, and fence and recover those ``in_doubt``; returns the owned state.

    Args:
        flow: The flow of the shards.
        shards: The shards to claim: all of them for an owner, a task's own for a task that starts again.
        in_doubt: Shards whose last owner may still write, or did not record where it stopped.
        count: How many shards the flow has.
        owner: The id of the owner, for the records.

    Raises:
        ClaimLostError: another process claimed a shard meanwhile.
        NotAuthorisedError, UnreachableError, RefusedError: a cluster refuses a request or does not answer, or stored
            state cannot be read.
    """
    ids = {shard: flow.identity.transactional_id(shard) for shard in shards}
    blocks = await _blocks(flow, shards, count)
    fenced = _writable(flow, blocks, in_doubt, count)
    unbooked = await ask_unbooked(flow, [b for p, b in blocks.items() if shard_of(*p, count) in in_doubt])
    claims = await take_shards(flow.target, ids, fenced)
    while in_doubt:
        # behind the fence: what the last owner stored meanwhile is read, and what it began meanwhile is fenced too
        blocks = await _blocks(flow, shards, count)
        begun = _writable(flow, blocks, in_doubt, count)
        if begun == fenced:
            break
        fenced, claims = begun, await take_shards(flow.target, ids, begun)
    writers = await offset_writers(flow)
    ours = await _register(flow, claims, writers)
    standing = OwnedState(_assignments(claims), blocks, offset_writers=writers)
    if in_doubt:
        await resume_all(flow, standing, claims, ours, in_doubt, count, unbooked)
    closed = {place: block for place, block in blocks.items() if shard_of(*place, count) not in in_doubt}
    shorter = set[int]()
    for place, reason in (await _cut(flow, closed)).items():
        if flow.settings.keeps_offsets(closed[place].about.source_topic):
            shorter.add(shard_of(*place, count))
        else:
            standing.halt(place, reason)
    if shorter:  # they may go on from there, which only their logs tell
        await resume_all(flow, standing, claims, ours, shorter, count, {})
    await _put_on_record(flow, claims, owner)
    return standing


async def claim_blindly(
    flow: FlowContext, in_doubt: Mapping[int, set[TopicPartition]], count: int, owner: str
) -> dict[int, ShardAssignment]:
    """Claim every shard without recovering any partition. Sequences start at 0 again.

    For a rebuild, because the stored offset runs cannot be read; and for an owner between two rounds, when nothing is
    in flight. Brokers forget a transactional id that was not used for a week: a flow that ran longer on one claim could
    not be fenced by its next owner, who would get another producer id.

    Args:
        flow: The flow of the shards.
        in_doubt: The shards whose last owner may still write, each with all target partitions to which it may.
        count: How many shards the flow has.
        owner: The id of the owner, for the records.
    """
    ids = {shard: flow.identity.transactional_id(shard) for shard in range(count)}
    runs = {s: {TopicPartition(flow.identity.runs_topic, runs_partition_of(s))} for s in in_doubt}
    claims = await take_shards(flow.target, ids, {s: of | runs[s] for s, of in in_doubt.items()})
    await _register(flow, claims)
    await _put_on_record(flow, claims, owner)
    return _assignments(claims)


async def _cut(flow: FlowContext, closed: Mapping[Place, Block]) -> dict[Place, HaltReason]:
    """The closed partitions whose target log has lost recorded records, each with the reason to halt it.

    Partitions in doubt are checked when they are recovered. Where foreign records have made the log grow again, the
    leader's producer state of the last writer shows the loss; brokers keep it for a day by default.
    """
    if not closed:
        return {}
    await flow.target.refresh({b.about.target_topic for b in closed.values()})
    led = {
        place: block
        for place, block in closed.items()
        if flow.target.leader(*block.about.downstream) is not None
        and flow.target.topic_id(block.about.target_topic) == block.about.target_topic_id
    }
    tps = [block.about.downstream for block in led.values()]
    ends, producers = await asyncio.gather(
        list_offsets(flow.target, dict.fromkeys(tps, LATEST), read_committed=False),
        active_producers_of_all(flow.target, tps, purpose="scan"),
    )
    cut: dict[Place, HaltReason] = {}
    for (place, block), tp in zip(led.items(), tps, strict=True):
        tail = block.tail
        end = min(tail.target_verified_end, ends.get(tp, tail.target_verified_end))
        left = UNKNOWN if tail.writer is UNKNOWN else unbooked_of(tail.writer, producers.get(tp, ()))
        if left is not UNKNOWN and left < 0:
            end = min(end, tail.downstream_end.position + left)
        if end < tail.target_verified_end:
            now = DownstreamOffset(end)
            cut[place] = target_cut(block.about, now, tail.target_verified_end, flow.identity.options)
    return cut


async def _put_on_record(flow: FlowContext, claims: Mapping[int, Claim], owner: str) -> None:
    records = [
        ShardRecord(shard, claim.producer_id, claim.epoch, open=True, owner=owner)
        for shard, claim in claims.items()
    ]
    await write_documents(flow, flow.identity.control_topic, records)


def doubtful(control: ControlView) -> set[int]:
    """Shards that the last owner did not close; a late record of an earlier owner closes none."""
    if control.flow is None or control.owner is None:
        return {shard for shard, record in control.shards.items() if record.open}
    last = control.owner.owner
    closed = {shard for shard, record in control.shards.items() if not record.open and record.owner == last}
    return set(range(control.flow.shards)) - closed


async def _blocks(flow: FlowContext, shards: Collection[int], count: int) -> dict[Place, Block]:
    partitions = sorted({runs_partition_of(shard) for shard in shards})
    stored = await in_thread(read_blocks, flow.settings.target, flow.identity, partitions)
    return {
        place: block
        for place, block in newest_blocks(stored.values()).items()
        if shard_of(*place, count) in shards
    }


def _writable(
    flow: FlowContext, blocks: Mapping[Place, Block], in_doubt: Iterable[int], count: int
) -> dict[int, set[TopicPartition]]:
    """Target partitions to which a vanished owner may still append, by shard: mirrors, and offset runs."""
    fenced = {
        shard: {TopicPartition(flow.identity.runs_topic, runs_partition_of(shard))} for shard in in_doubt
    }
    for place, block in blocks.items():
        shard = shard_of(*place, count)
        # a fence is a marker, which would take the next record's offset
        if shard in fenced and not flow.settings.keeps_offsets(block.about.source_topic):
            fenced[shard].add(block.about.downstream)
    return fenced


async def _register(
    flow: FlowContext, claims: Mapping[int, Claim], writers: OffsetWritersRecord | None = None
) -> frozenset[int]:
    """Register the producer ids on the target before their first batch; returns all ids of the flow."""
    known = await in_thread(read_producers, flow.settings.target)
    shards = {claim.producer_id: shard for shard, claim in claims.items()}
    if writers is not None:
        shards |= dict.fromkeys((writers.data_producer, writers.fill_producer), 0)
    whose = flow.identity.flow, flow.identity.source_id, flow.identity.target_id
    if missing := shards.keys() - known.keys():
        records = [ProducerRecord(number, *whose, shards[number]) for number in sorted(missing)]
        await write_documents(flow, PRODUCERS_TOPIC, records)
        known = await in_thread(read_producers, flow.settings.target)
    if not missing <= known.keys():
        raise MmtoolError(
            f"topic {PRODUCERS_TOPIC} on {flow.target.alias} lacks the producer ids that mmtool has just written to it;"
            " no record was mirrored",
            remedy=f"check that {PRODUCERS_TOPIC} has cleanup.policy=compact, then run the same command again",
        )
    return frozenset(
        number
        for number, one in known.items()
        if (one.flow, one.source_cluster_id, one.target_cluster_id) == whose
    )


def _assignments(claims: Mapping[int, Claim]) -> dict[int, ShardAssignment]:
    return {
        shard: ShardAssignment(shard, claim.producer_id, claim.epoch, runs_sequence=0)
        for shard, claim in claims.items()
    }
