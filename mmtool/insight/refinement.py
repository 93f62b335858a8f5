"""Make bounded and ambiguous translations exact by comparing both logs (``--refine``), if the source answers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from mmtool.kafka.ports import LogPart
from mmtool.plan.words import counted, few
from mmtool.translation.answers import Bounded, Knowledge, Reason
from mmtool.translation.lockstep import Placed, Sides, Stretch, stretch_before, stretch_of
from mmtool.translation.types import UNKNOWN, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from mmtool.insight.flow_now import FlowNow
    from mmtool.plan.groups.offsets import GroupPlan, PartitionFacts
    from mmtool.translation.types import TopicPartition

_LONGEST = 200_000
"""The most records of either log that are read and held in memory for one commit."""


class _Search:
    """One commit that is to be placed."""

    def __init__(
        self,
        flow: FlowNow,
        facts: PartitionFacts,
        commit: UpstreamOffset,
        told: Bounded | None,
        stretch: Stretch,
    ) -> None:
        self.facts, self.commit, self.told, self.stretch = facts, commit, told, stretch
        known = flow.topics[facts.source.topic].topic_id
        self.here = LogPart(facts.source, known, stretch.upstream, stretch.most)
        there = flow.target_topics[facts.target.topic].topic_id
        self.there = LogPart(facts.target, there, stretch.downstream, len(stretch.downstream))


def refined(
    flow: FlowNow,
    partitions: Mapping[TopicPartition, PartitionFacts],
    plans: Iterable[GroupPlan],
    warnings: list[str],
) -> dict[TopicPartition, PartitionFacts]:
    """The facts, with exact places of commits that MM2's syncs leave bounded or ambiguous, found in both logs.

    Args:
        flow: The flow.
        partitions: By source partition.
        plans: The translations by the syncs alone.
        warnings: Takes sentences about what was not compared.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer.
    """
    searches = list(_searches(flow, partitions, plans))
    if not searches:
        return dict(partitions)
    near = [search for search in searches if search.stretch.longest <= _LONGEST]
    if len(near) < len(searches):
        far = [search.facts.source for search in searches if search.stretch.longest > _LONGEST]
        warnings.append(
            f"--refine compares at most {_LONGEST:,} records for each commit, so the translated offsets of"
            f" {counted(len(far), 'commit')} stay bounded or ambiguous: {few(sorted(set(far)))}"
        )
    placed = _placed(flow, near, warnings)
    return {
        at: replace(facts, placed=placed[at]) if at in placed else facts for at, facts in partitions.items()
    }


def _searches(
    flow: FlowNow, partitions: Mapping[TopicPartition, PartitionFacts], plans: Iterable[GroupPlan]
) -> Iterator[_Search]:
    """The log ranges to compare for each distinct commit, however many groups are there."""
    asked = {
        (verdict.source, verdict.commit.offset): verdict.answer
        for plan in plans
        for verdict in plan.verdicts
        if verdict.knowledge is Knowledge.OFFSET_SYNCS
        and verdict.commit is not None
        and verdict.source is not None
        and (isinstance(verdict.answer, Bounded) or verdict.refusal is Reason.AMBIGUOUS)
    }
    # asked after the target's ends: of what is there by then no copy looks like a stranger's record
    ends = flow.clusters.source.bounds_each({place for place, _ in asked})
    for (place, offset), told in asked.items():
        facts, commit = partitions[place], UpstreamOffset(offset)
        if facts.synced is None or facts.target_log is UNKNOWN or place not in ends:
            continue
        here, there, stretch = ends[place], facts.target_log, None
        if isinstance(told, Bounded):
            ends_at = {"source_end": here.log_end, "target_end": there.log_end}
            stretch = stretch_of(facts.synced, commit, told, **ends_at)
        if stretch is None:
            begins_at = {"source_start": here.log_start, "target_start": there.log_start}
            stretch = stretch_before(facts.synced, commit, **begins_at)
        if stretch is not None:
            yield _Search(flow, facts, commit, told if isinstance(told, Bounded) else None, stretch)


def _placed(
    flow: FlowNow, searches: Collection[_Search], warnings: list[str]
) -> dict[TopicPartition, dict[int, Placed]]:
    """The exact places of commits by source partition; unreadable commits are left out and stay bounded."""
    committed = flow.clusters.settings.reads_committed
    there = flow.clusters.target.records_each([search.there for search in searches], committed=True)
    here = flow.clusters.source.records_each([search.here for search in searches], committed=committed)
    unread = {part.place: error.message for part, error in (here.failed | there.failed).items()}
    warnings += [
        f"the translated offsets in {place} stay bounded or ambiguous, because its records cannot be read: {why}"
        for place, why in sorted(unread.items())
    ]
    searches = [search for search in searches if search.here in here and search.there in there]
    found: dict[TopicPartition, dict[int, Placed]] = defaultdict(dict)
    for search in searches:
        sides = Sides(search.stretch, here[search.here], there[search.there])
        found[search.facts.source][search.commit] = sides.place(search.commit, search.told)
    return found
