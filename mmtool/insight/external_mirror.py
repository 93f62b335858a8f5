"""Which offsets of a mirror that mmtool does not keep are proven: by an earlier verify, or by records compared now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mmtool.kafka.ports import LogPart
from mmtool.plan.groups.offsets import Direction
from mmtool.translation.equal_mirror import proves
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.insight.flow_now import FlowNow
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.plan.groups.offsets import PartitionFacts
    from mmtool.plan.topics.facts import TopicFacts
    from mmtool.translation.types import TopicPartition

_NEAR = 100
"""Offsets before and after a commit whose records are compared."""
_FAR = 10_000
"""Offsets before and after it, where those have no record."""


def verified_by(control: ControlView, facts: PartitionFacts, target: Mapping[str, TopicFacts]) -> range:
    """The offsets around which an earlier verify compared these two topics, by their ids, and found no difference."""
    if facts.map is None or facts.target.topic not in target:
        return range(0)
    about = facts.map.about
    found = control.verified.get((about.topic_id, about.partition))
    return range(0) if found is None else found.offsets(target[facts.target.topic].topic_id)


def with_compared(
    flow: FlowNow,
    partitions: Mapping[TopicPartition, PartitionFacts],
    commits: Iterable[tuple[TopicPartition, int]],
    direction: Direction,
) -> Mapping[TopicPartition, PartitionFacts]:
    """The facts, after the records around these commits were compared, where no earlier verify has compared them.

    Args:
        flow: The flow; of a chain, nothing is compared.
        partitions: The facts, by partition where commits are read.
        commits: Committed offsets, by these partitions; those past the mirror's end count as its end.
        direction: The direction of the translation.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer.
    """
    asked: dict[TopicPartition, set[int]] = {}
    for place, offset in commits if flow.then is None else ():
        facts = partitions.get(place)
        if facts is None or facts.map is None or UNKNOWN in (facts.source_log, facts.target_log):
            continue
        end = facts.map.upstream_frontier
        at = min(offset, end) if direction is Direction.FORWARD else offset
        if not facts.is_verified(at):
            asked.setdefault(place, set()).add(at)
    found: dict[TopicPartition, set[int]] = {}
    for width in (_NEAR, _FAR) if asked else ():
        parts = {
            (place, at): parts
            for place, offsets in asked.items()
            for at in offsets
            if (parts := _around(flow, partitions[place], at, width)) is not None
        }
        committed = flow.clusters.settings.reads_committed
        here = flow.clusters.source.records_each([one for one, _ in parts.values()], committed=committed)
        there = flow.clusters.target.records_each([other for _, other in parts.values()], committed=committed)
        asked = {}
        for (place, at), (one, other) in parts.items():
            if one not in here or other not in there:
                continue
            if proves(here[one], there[other]):
                found.setdefault(place, set()).add(at)
            elif not here[one] and not there[other]:
                asked.setdefault(place, set()).add(at)
    return {
        place: replace(facts, compared=found[place]) if place in found else facts
        for place, facts in partitions.items()
    }


def _around(flow: FlowNow, facts: PartitionFacts, at: int, width: int) -> tuple[LogPart, LogPart] | None:
    """The parts of both logs around an offset, as far as both logs hold it; None where they do not."""
    assert facts.source_log is not UNKNOWN
    assert facts.target_log is not UNKNOWN
    logs = facts.source_log, facts.target_log
    start, end = max(log.log_start for log in logs), min(log.log_end for log in logs)
    if not start <= at <= end or facts.source.topic not in flow.topics:
        return None
    if facts.target.topic not in flow.target_topics:
        return None
    near = range(max(start, at - width), min(end, at + width))
    ids = flow.topics[facts.source.topic].topic_id, flow.target_topics[facts.target.topic].topic_id
    return LogPart(facts.source, ids[0], near, len(near)), LogPart(facts.target, ids[1], near, len(near))
