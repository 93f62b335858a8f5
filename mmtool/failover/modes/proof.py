"""Prove before any commit that the next record of a group on the target is its next record on the source."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

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
    from mmtool.plan.groups.offsets import GroupPlan, PartitionFacts
    from mmtool.plan.words import Names
    from mmtool.translation.types import TopicPartition


def prove(
    flow: FlowNow, plans: Iterable[GroupPlan], partitions: Mapping[TopicPartition, PartitionFacts]
) -> None:
    """Compare the records next to translated offsets on both clusters, by key, value and headers.

    Records that one of the logs has deleted or compacted meanwhile cannot be compared.

    Raises:
        RefusedError: Two records differ: the translated offset is wrong.
        UnreachableError, NotAuthorisedError: A log cannot be read.
    """
    parts = {
        (boundary, record): (
            LogPart(boundary.source, boundary.source_id, range(record.upstream, record.upstream + 1), 1),
            LogPart(boundary.target, boundary.target_id, range(record.downstream, record.downstream + 1), 1),
        )
        for boundary in boundaries(plans, partitions, MOST_PROVEN)
        for record in boundary.records
    }
    committed, names = flow.clusters.settings.reads_committed, names_of(flow.clusters.settings)
    here = flow.clusters.source.records([part for part, _ in parts.values()], committed=committed)
    there = flow.clusters.target.records([part for _, part in parts.values()], committed=committed)
    for (boundary, record), (source, target) in parts.items():
        if not here[source] or not there[target]:
            continue
        ours, theirs = here[source][0].digest, there[target][0].digest
        if ours != theirs:
            raise RefusedError(
                f"near offset {boundary.commit} of {boundary.source} on {names.source}, the record at {record.upstream}"
                f" differs from the record at {record.downstream} of {boundary.target} on {names.target} (SHA-256"
                f" {ours.hex()[:12]} and {theirs.hex()[:12]}); no offset was committed",
                remedy=compare_again(names, boundary.source, boundary.target, "run the same command again"),
                code="boundary_differs",
            )


def state_end_guards(
    ends: Iterable[GroupPlan], partitions: Mapping[TopicPartition, PartitionFacts], flow: FlowSettings
) -> tuple[Guard, ...]:
    """A guard for each state topic whose last record the flow's target does not hold.

    Args:
        ends: Plans of a reader whose commits are the drain's end offsets in each state topic.
        partitions: The partition facts of these plans, by source partition.
        flow: The flow that mirrors the state to the applications' destination.
    """
    guards, target, names = [], flow.target.alias, names_of(flow)
    for verdict in (verdict for plan in ends for verdict in plan.blocking):
        reason, source = verdict.refusal, verdict.source
        assert source is not None, "a verdict on a source partition"
        assert reason is not None, "a blocking verdict"
        known = partitions.get(source)
        if known is None:  # the topic was recreated on the source with fewer partitions
            loss = end_loss(reason, names, None)
        else:
            loss = copy_loss(known, flow) or end_loss(reason, names, partial(mirror_again, known, flow))
        sentence = f"the state in {source} is not on {target}: {loss.why}"
        guards.append(Guard(Reason.STATE_NOT_MIRRORED, sentence, or_without_state(loss.remedy, target)))
    return tuple(guards)


def compare_again(names: Names, source: TopicPartition, target: TopicPartition, again: str) -> str:
    """The remedy for a mirror with other records than its source; ``again`` is what to do at last."""
    return (
        f"another producer wrote into {target.topic} on {names.target}, or a topic was recreated: stop that producer"
        f" and `mmtool replicate`, run `mmtool flow rebuild -c FILE -s {names.source} -t {names.target}"
        f" --topic {source.topic} --execute`, which compares both logs again, and start `mmtool replicate` again;"
        f" then {again}"
    )
