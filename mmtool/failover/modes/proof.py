"""Prove before any commit that the next record of a group on the target is its next record on the source."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mmtool.errors import RefusedError
from mmtool.failover.modes.rehearsal import names_of
from mmtool.insight.applications import copy_loss, mirror_again
from mmtool.kafka.ports import LogPart
from mmtool.plan.failover.boundaries import boundaries
from mmtool.plan.failover.risks import Guard
from mmtool.plan.failover.steps import MOST_PROVEN
from mmtool.plan.groups.applications import end_loss, or_without_state
from mmtool.translation.answers import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.config import FlowSettings
    from mmtool.insight.flow_now import FlowNow
    from mmtool.plan.failover.boundaries import Boundary
    from mmtool.plan.groups.applications import StateLoss
    from mmtool.plan.groups.offsets import GroupPlan, PartitionFacts, Verdict
    from mmtool.plan.words import Names
    from mmtool.translation.lockstep import Seen
    from mmtool.translation.runs import Mirrored
    from mmtool.translation.types import TopicPartition


class Proof(NamedTuple):
    """The result of the comparison.

    Attributes:
        records: Records that both logs hold, with the same content.
        gone: Records that one of the logs has deleted or compacted meanwhile and that cannot be compared.
    """

    records: int
    gone: int


def prove(
    flow: FlowNow, plans: Iterable[GroupPlan], partitions: Mapping[TopicPartition, PartitionFacts]
) -> Proof:
    """Compare the records next to translated offsets on both clusters, by key, value and headers.

    Raises:
        RefusedError: Two records differ: the translated offset is wrong.
        UnreachableError, NotAuthorisedError: A log cannot be read.
    """
    found = boundaries(plans, partitions, MOST_PROVEN)
    parts = {
        (boundary, record): _parts(boundary, record) for boundary in found for record in boundary.records
    }
    committed = flow.clusters.settings.reads_committed
    here = flow.clusters.source.records([part for part, _ in parts.values()], committed=committed)
    there = flow.clusters.target.records([part for _, part in parts.values()], committed=committed)
    same = gone = 0
    for (boundary, record), (source, target) in parts.items():
        if not here[source] or not there[target]:
            gone += 1
        elif here[source][0].digest == there[target][0].digest:
            same += 1
        else:
            seen = here[source][0], there[target][0]
            raise _differs(names_of(flow.clusters.settings), boundary, record, *seen)
    return Proof(same, gone)


def state_end_guards(
    ends: Iterable[GroupPlan], partitions: Mapping[TopicPartition, PartitionFacts], flow: FlowSettings
) -> tuple[Guard, ...]:
    """A guard for each state topic whose last record the flow's target does not hold.

    Args:
        ends: Plans of a reader whose commits are the drain's end offsets in each state topic.
        partitions: The partition facts of these plans, by source partition.
        flow: The flow that mirrors the state to the applications' destination.
    """
    return tuple(_lost_state(verdict, partitions, flow) for plan in ends for verdict in plan.blocking)


def _lost_state(
    verdict: Verdict, partitions: Mapping[TopicPartition, PartitionFacts], flow: FlowSettings
) -> Guard:
    loss, target = _state_loss(verdict, partitions, flow), flow.target.alias
    sentence = f"the state in {verdict.source} is not on {target}: {loss.why}"
    return Guard(Reason.STATE_NOT_MIRRORED, sentence, or_without_state(loss.remedy, target))


def _state_loss(
    verdict: Verdict, partitions: Mapping[TopicPartition, PartitionFacts], flow: FlowSettings
) -> StateLoss:
    reason = verdict.refusal
    assert verdict.source is not None, "a verdict on a source partition"
    assert reason is not None, "a blocking verdict"
    known, names = partitions.get(verdict.source), names_of(flow)
    if known is None:  # the topic was recreated on the source with fewer partitions
        return end_loss(reason, names, None)
    return copy_loss(known, flow) or end_loss(reason, names, partial(mirror_again, known, flow))


def _parts(boundary: Boundary, record: Mirrored) -> tuple[LogPart, LogPart]:
    return (
        LogPart(boundary.source, boundary.source_id, range(record.upstream, record.upstream + 1), 1),
        LogPart(boundary.target, boundary.target_id, range(record.downstream, record.downstream + 1), 1),
    )


def _differs(names: Names, boundary: Boundary, record: Mirrored, here: Seen, there: Seen) -> RefusedError:
    return RefusedError(
        f"near offset {boundary.commit} of {boundary.source} on {names.source}, the record at {record.upstream} differs"
        f" from the record at {record.downstream} of {boundary.target} on {names.target} (SHA-256"
        f" {here.digest.hex()[:12]} and {there.digest.hex()[:12]}); no offset was committed",
        remedy=compare_again(names, boundary.source, boundary.target, "run the same command again"),
        code="boundary_differs",
    )


def compare_again(names: Names, source: TopicPartition, target: TopicPartition, again: str) -> str:
    """The remedy for a mirror with other records than its source; ``again`` is what to do at last."""
    return (
        f"another producer wrote into {target.topic} on {names.target}, or a topic was recreated: stop that producer"
        f" and `mmtool replicate`, run `mmtool flow rebuild -c FILE -s {names.source} -t {names.target}"
        f" --topic {source.topic} --execute`, which compares both logs again, and start `mmtool replicate` again;"
        f" then {again}"
    )
