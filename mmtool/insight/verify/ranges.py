"""Plan the ranges of two logs that are compared with each other, before any record is read.

A partition is cut where both sides are known to correspond: in the middle of an offset run, or at one of MirrorMaker
2's syncs. Each range is compared in one Spark task, both sides of it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from mmtool.translation.types import UNKNOWN, DownstreamOffset, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.plan.groups.offsets import PartitionFacts
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.runs import RunMap
    from mmtool.translation.sync_map import SyncMap
    from mmtool.translation.types import TopicId, TopicPartition

RANGE_RECORDS = 250_000
"""Offsets of the source in one range: some seconds of a task."""


class Joint(NamedTuple):
    """Corresponding offsets of both sides: a record below one is below the other."""

    upstream: int
    downstream: int


_NOWHERE = Joint(0, 0)


@dataclass(frozen=True, slots=True)
class Range:
    """A part of one partition, on both sides.

    Attributes:
        source, target: The partition.
        source_id, target_id: The topics' ids.
        start, stop: Its start, and its end (exclusive).
        runs: The offset runs in it; None for a flow that MM2 runs.
        joints: MM2's syncs in it.
        tail_end: The target's log end, where this is the last range and records behind it may be foreign; else
            ``stop.downstream``.
        compacted: Either topic is compacted: the record that replaces one may be anywhere behind it.
        ends: Where both logs end.
        is_last: It ends where the mirror does.
        whole_to: As `Expectations.whole_to`; of earlier copies, where the mirror ends.
        is_earlier: It is of the target alone: what the topic held before the flow started or restarted to mirror it.
            ``start.upstream`` is the source's first offset, and ``stop.upstream`` the mirror's.
        gaps: As `Expectations.gaps`.
        version: Of the transform by which its records were mirrored; empty where they were not changed.
    """

    source: TopicPartition
    target: TopicPartition
    source_id: TopicId
    target_id: TopicId
    start: Joint
    stop: Joint
    runs: RunMap | None = None
    joints: tuple[Joint, ...] = ()
    tail_end: int = 0
    compacted: bool = False
    ends: Joint = _NOWHERE
    is_last: bool = False
    whole_to: int | None = None
    gaps: tuple[tuple[int, int], ...] = ()
    is_earlier: bool = False
    version: str = ""

    @property
    def is_by_mm2(self) -> bool:
        """Whether MM2 mirrored the records in it."""
        return self.runs is None

    @property
    def weight(self) -> int:
        """Offsets on both sides."""
        return (
            self.stop.upstream
            - self.start.upstream
            + max(self.tail_end, self.stop.downstream)
            - self.start.downstream
        )

    def leads_to(self, offset: int) -> int | None:
        """Where stored state says that a record of the source is on the target; None where it does not say."""
        if self.runs is None:
            return next((joint.downstream for joint in self.joints if joint.upstream == offset), None)
        found = self.runs.find_forward(UpstreamOffset(offset))
        if found is None or self.runs.find_reverse(found) != offset:
            return None
        return found


@dataclass(frozen=True, slots=True)
class ComparedPartition:
    """The facts about one partition that is compared.

    Attributes:
        facts: As both clusters and the stored state know it.
        source_id, target_id: The topics' ids.
        frontier: The source offset up to which the mirror should be complete; None where it is unknown: up to the
            source's end.
        compacted: Either topic is compacted.
        since: The start of the comparison: an offset of the source, or corresponding offsets of both sides; None: as
            far back as both logs go.
        by_mm2: The version of the transforms that MM2 runs for the topic; empty without any.
        is_stopped: Nothing after the frontier will be mirrored until an operator acts: the topic has failed over, or
            the partition is halted. It is compared up to the source's end.
    """

    facts: PartitionFacts
    source_id: TopicId
    target_id: TopicId
    frontier: int | None
    compacted: bool = False
    since: int | Joint | None = None
    is_stopped: bool = False
    by_mm2: str = ""

    @property
    def since_upstream(self) -> int:
        """As an offset of the source."""
        if self.since is None:
            return 0
        return self.since.upstream if isinstance(self.since, Joint) else self.since


def plan_ranges(partition: ComparedPartition, size: int = RANGE_RECORDS) -> list[Range]:
    """The ranges of one partition, ascending; none where nothing can be compared.

    Args:
        partition: Both logs of it are known.
        size: Offsets of the source in a range, at least.
    """
    facts = partition.facts
    if facts.source_log is UNKNOWN or facts.target_log is UNKNOWN:
        return []
    if facts.map is None:
        end = Joint(facts.source_log.log_end, facts.target_log.log_end)
        return _ranges(partition, None, _by_syncs(facts, end, size, partition.since), is_last=True)
    by_mm2 = _by_syncs(facts, began_at(facts.map), size, partition.since) if facts.map.complete else []
    by_mmtool = _by_runs(partition, facts.map, size)
    is_whole = partition.since is None and by_mmtool and not by_mm2
    return [
        *(_earlier(partition, facts.map, by_mmtool[0], size) if is_whole else ()),
        *_ranges(partition, None, by_mm2, is_last=False),
        *_ranges(partition, facts.map, by_mmtool, is_last=True),
    ]


def began_at(known: PartitionMap) -> Joint:
    """Where mmtool started, or restarted after a seek or forget; both logs' beginnings where nothing was before."""
    start = known.mirror_start
    return Joint(start.upstream, start.downstream)


def _earlier(partition: ComparedPartition, known: PartitionMap, begin: Joint, size: int) -> list[Range]:
    """What the target holds below the mirror's beginning: copies of records that were then mirrored again are there."""
    facts = partition.facts
    assert facts.source_log is not UNKNOWN
    assert facts.target_log is not UNKNOWN
    upstream, end = min(facts.source_log.log_start, begin.upstream), begin.downstream
    return [
        replace(
            _range(
                partition,
                known,
                Joint(upstream, at),
                Joint(begin.upstream, min(at + size, end)),
                is_last=False,
            ),
            whole_to=known.upstream_frontier,
            is_earlier=True,
        )
        for at in range(facts.target_log.log_start, end, size)
    ]


def _ranges(
    partition: ComparedPartition, known: PartitionMap | None, joints: list[Joint], *, is_last: bool
) -> list[Range]:
    return [
        _range(partition, known, start, stop, is_last=is_last and stop is joints[-1])
        for start, stop in itertools.pairwise(joints)
    ]


def _range(
    partition: ComparedPartition, known: PartitionMap | None, start: Joint, stop: Joint, *, is_last: bool
) -> Range:
    facts = partition.facts
    assert facts.source_log is not UNKNOWN
    assert facts.target_log is not UNKNOWN
    found = Range(
        facts.source,
        facts.target,
        partition.source_id,
        partition.target_id,
        start,
        stop,
        tail_end=facts.target_log.log_end if is_last else stop.downstream,
        ends=Joint(facts.source_log.log_end, facts.target_log.log_end),
        compacted=partition.compacted,
        is_last=is_last,
        whole_to=partition.frontier if is_last and not partition.is_stopped else None,
    )
    if known is not None:
        gaps = [(g.start, g.end) for g in known.gaps if g.start < stop.upstream and g.end > start.upstream]
        runs = known.runs.between(start.upstream, stop.upstream)
        versions = [one.version for one in known.made if one.start <= start.upstream]
        return replace(found, runs=runs, gaps=tuple(gaps), version=versions[-1] if versions else "")
    assert facts.synced is not None
    joints = tuple(joint for joint in _syncs(facts.synced) if start <= joint < stop)
    return replace(found, joints=joints, version=partition.by_mm2)


def _by_runs(partition: ComparedPartition, known: PartitionMap, size: int) -> list[Joint]:
    """Where an mmtool flow's partition is cut: from the first record that both logs hold to the stored frontier.

    A stopped partition is cut behind its frontier too, up to the source's end.
    """
    facts, runs = partition.facts, known.runs
    assert facts.source_log is not UNKNOWN
    assert facts.target_log is not UNKNOWN
    start: int = max(known.known_from, facts.source_log.log_start, partition.since_upstream)
    first = runs.find_forward(UpstreamOffset(start))
    stop = Joint(known.upstream_frontier, known.tail.downstream_end.position)
    if (
        first is not None and first < facts.target_log.log_start
    ):  # the target has deleted what the source still has
        found = runs.find_reverse(DownstreamOffset(facts.target_log.log_start))
        start = stop.upstream if found is None else found
        first = runs.find_forward(UpstreamOffset(start))
    joints = [Joint(start, stop.downstream if first is None else first)]
    began = began_at(known)
    if start == began.upstream and began.downstream >= facts.target_log.log_start:
        joints = [began]  # what lies before the first record may be foreign
    cuts = {*range(start + size, stop.upstream - size // 2, size)}
    cuts |= {one.start for one in known.made if start < one.start < stop.upstream}  # one version in a range
    for offset in sorted(cuts):
        there = runs.find_forward(UpstreamOffset(offset))
        if there is None:
            break
        joints.append(Joint(offset, there))
    if start < stop.upstream:
        joints.append(stop)
    end = facts.source_log.log_end
    if partition.is_stopped and end > joints[-1].upstream:
        joints += [stop._replace(upstream=at) for at in (*range(joints[-1].upstream + size, end, size), end)]
    return joints if len(joints) > 1 else []


def _by_syncs(facts: PartitionFacts, stop: Joint, size: int, since: int | Joint | None) -> list[Joint]:
    """Where what MM2 mirrored is cut: at its syncs, from the first that both logs hold on."""
    assert facts.source_log is not UNKNOWN
    assert facts.target_log is not UNKNOWN
    here, there, synced = facts.source_log, facts.target_log, facts.synced
    if synced is None:
        return []
    logs = Joint(here.log_start, there.log_start)
    usable = [
        joint
        for joint in _syncs(synced)
        if logs.upstream <= joint.upstream < stop.upstream
        and logs.downstream <= joint.downstream < stop.downstream
    ]
    start = _start(usable, synced, logs)
    if isinstance(since, Joint) and since.upstream >= here.log_start and since.downstream >= there.log_start:
        start = since
    elif since is not None:
        offset = since.upstream if isinstance(since, Joint) else since
        start = max((joint for joint in usable if joint.upstream <= offset), default=start)
    if start is None or start.upstream >= stop.upstream:
        return []
    joints = [start]
    for joint in usable:
        if joint.upstream >= joints[-1].upstream + size and joint.downstream > joints[-1].downstream:
            joints.append(joint)
    return [*joints, stop]


def _start(usable: Sequence[Joint], synced: SyncMap, logs: Joint) -> Joint | None:
    """Where both logs begin, when the mirror is as old as they are; else the first sync."""
    if logs == (0, 0) and (synced.from_start or (usable and usable[0].upstream == usable[0].downstream)):
        return logs
    return usable[0] if usable else None


def _syncs(synced: SyncMap) -> list[Joint]:
    """Ascending on both sides: what a restart copied again is left out."""
    found: list[Joint] = []
    for copy in synced.copies:
        if not found or (copy.upstream > found[-1].upstream and copy.downstream > found[-1].downstream):
            found.append(Joint(copy.upstream, copy.downstream))
    return found
