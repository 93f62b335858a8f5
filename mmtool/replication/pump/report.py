"""A task's report at the end of its round: one row per partition, which the driver uses for the next plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.replication.spark.assignment import NOTHING_YET, Tally
from mmtool.replication.spark.log import executor_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.replication.pump.mirror import PartitionMirror
    from mmtool.replication.spark.assignment import FlowAssignment


class ReportRow(NamedTuple):
    """One partition at the end of a round.

    ``block`` is its open block, encoded; ``tally`` its counters, kept from round to round; ``told`` the command that
    ended the round, empty when time did; ``executor`` the worker; ``syncs_failure`` why the flow's offset syncs are not
    written, empty when they are.
    """

    flow: str
    shard: int
    topic_id: str
    topic: str
    partition: int
    state: str
    reason: str
    for_good: bool
    producer_id: int
    epoch: int
    next_sequence: int
    runs_sequence: int
    block: bytes
    tally: Tally
    told: str
    executor: str = ""
    syncs_failure: str = ""


def tally_of(mirror: PartitionMirror) -> Tally:
    """The counters of ``mirror`` so far."""
    foreign = mirror.foreign
    others = (foreign.count, foreign.end) if foreign is not None else (0, 0)
    gaps = (mirror.gaps.count, mirror.gaps.end)
    return Tally(mirror.records, mirror.bytes, mirror.dead_letters, *others, *gaps, *mirror.latencies.latency)


def rows_of(
    flow: str,
    mirrors: Iterable[PartitionMirror],
    runs_sequences: dict[int, int],
    told: str,
    syncs_failure: str,
) -> list[ReportRow]:
    """The report rows of one flow, one per partition."""
    from mmtool.translation.block_codec import encode_block

    return [
        ReportRow(
            flow=flow,
            shard=m.shard.shard,
            topic_id=m.assignment.topic_id,
            topic=m.assignment.topic,
            partition=m.assignment.partition,
            state=m.state,
            reason=m.reason,
            for_good=m.for_good,
            producer_id=m.shard.producer_id,
            epoch=m.shard.epoch,
            next_sequence=m.writer.next_sequence,
            runs_sequence=runs_sequences[m.shard.shard],
            block=encode_block(m.open_block),
            tally=tally_of(m),
            told=told,
            executor=executor_name(),
            syncs_failure=syncs_failure,
        )
        for m in mirrors
    ]


FENCED = "fenced"
"""``told`` in the row of a flow whose shards another owner has claimed."""
AWAY = "away"
"""``told`` in the row of a flow that a task left in doubt, because one of its clusters did not answer."""


def nothing_known(flow: FlowAssignment, told: str) -> list[ReportRow]:
    """One row for a flow whose partitions the task cannot report on any more.

    ``told`` is the cause: `FENCED` or `AWAY`.
    """
    nothing = ("", "", -1, "", "", False, -1, -1, 0, 0, b"")
    return [ReportRow(flow.identity.flow, -1, *nothing, NOTHING_YET, told, executor_name())]
