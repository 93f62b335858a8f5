"""The records next to each offset that is going to be committed, which prove a planned failover."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.plan.groups.offsets import Direction
from mmtool.translation.answers import Exact, Knowledge
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.plan.groups.offsets import GroupPlan, PartitionFacts
    from mmtool.translation.runs import Mirrored
    from mmtool.translation.types import TopicId, TopicPartition


class Boundary(NamedTuple):
    """One commit on the source, and the records next to it; None where the mirror has none on that side.

    Attributes:
        source_id, target_id: Of the topics, as they were mirrored: a recreated topic of the same name proves nothing.
    """

    source: TopicPartition
    source_id: TopicId
    target: TopicPartition
    target_id: TopicId
    commit: UpstreamOffset
    before: Mirrored | None
    after: Mirrored | None

    @property
    def records(self) -> tuple[Mirrored, ...]:
        return tuple(record for record in (self.before, self.after) if record is not None)


def boundaries(
    plans: Iterable[GroupPlan], partitions: Mapping[TopicPartition, PartitionFacts], most: int
) -> list[Boundary]:
    """The boundary of each exact offset by offset runs, once each; of more than ``most``, evenly chosen ones."""
    wanted = {
        (verdict.source, verdict.commit.offset)
        for plan in plans
        if plan.direction is Direction.FORWARD
        for verdict in plan.verdicts
        if verdict.knowledge is Knowledge.OFFSET_RUNS and isinstance(verdict.answer, Exact)
        if verdict.source is not None and verdict.commit is not None and verdict.refusal is None
    }
    found = [_boundary(partitions[place], offset) for place, offset in sorted(wanted) if place in partitions]
    known = [boundary for boundary in found if boundary is not None and boundary.records]
    return known if len(known) <= most else [known[n * len(known) // most] for n in range(most)]


def _boundary(facts: PartitionFacts, offset: int) -> Boundary | None:
    if facts.map is None or facts.then is not None:
        return None
    commit = UpstreamOffset(offset)
    about = facts.map.about
    return Boundary(
        facts.source,
        about.topic_id,
        facts.target,
        about.target_topic_id,
        commit,
        *facts.map.runs.around(commit),
    )
