"""Read whether a flow's groups could fail over now, and at what cost. Read-only.

The order of the requests matters, because commits and logs move meanwhile:

1. the groups' commits on the source and on the target
2. the source's ends, before the mirror's frontier: a source only grows, so the frontier may have passed them
3. what the target alone knows, read as an emergency failover would: checkpoints, then offset runs, then logs
4. offset runs and logs of both clusters, for what a planned failover would do

While the source does not answer, the rows are what an emergency failover would do, and the source's part is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mmtool.errors import MmtoolError, RefusedError
from mmtool.insight.applications import app_state_on_target
from mmtool.insight.flow_now import FlowFailures, FlowNow, ask_each, outages, worst
from mmtool.insight.flow_progress import mirror_maker_progress
from mmtool.insight.group_names import NAME_TAKEN, cure, refused_names
from mmtool.insight.partitions import partition_facts
from mmtool.insight.status import WatchedFlow, written_times
from mmtool.insight.target_only import TargetNow, look_at_target, removed_groups
from mmtool.insight.translation import (
    look,
    plans_by,
    read_groups,
    selected_groups,
    selection_warnings,
    topics_of,
)
from mmtool.plain_text import did_you_mean
from mmtool.plan.failover.emergency import plan_emergency
from mmtool.plan.failover.risks import Loss
from mmtool.plan.flow.positions import waiting_since
from mmtool.plan.groups.facts import GroupFacts, GroupSelection
from mmtool.plan.groups.offsets import Direction, GroupPlan, PartitionFacts, Rules, unknown_groups
from mmtool.plan.groups.status import GroupKnowledge, GroupReason, GroupRow, group_rows, with_ages
from mmtool.plan.records.documents import State
from mmtool.plan.words import have
from mmtool.runtime.process import now_ms
from mmtool.translation.answers import Reason
from mmtool.translation.blocks import SeenOffset
from mmtool.translation.types import UNKNOWN, TopicPartition, UpstreamOffset

_RULES = Rules(Direction.FORWARD)
_EVERY_GROUP = GroupSelection()
_NO_OPERATION = "status"


@dataclass(frozen=True, slots=True)
class GroupsFound:
    """The groups of one flow.

    Attributes:
        flow: The flow, as ``A->B``.
        rows: By group, topic and partition.
        warnings: Sentences beside them.
        unasked: Why the source did not answer: the rows are then what the target alone knows.
        unknown: Requested names that no group has, with the nearest name of one that exists.
        now_ms: When the target was read, in ms since 1970.
    """

    flow: str
    rows: tuple[GroupRow, ...]
    now_ms: int
    warnings: tuple[str, ...] = ()
    unasked: tuple[MmtoolError, ...] = ()
    unknown: Mapping[str, str | None] = field(default_factory=dict)


def group_status(flow: WatchedFlow, selection: GroupSelection = _EVERY_GROUP) -> GroupsFound:
    """Whether each selected group could fail over now, and at what cost; excluded groups have no rows.

    Args:
        flow: The flow, and which of its topics count.
        selection: Selects the groups.

    Raises:
        UnreachableError, NotAuthorisedError: The target does not answer, or denies a part; the source denies a part.
        RefusedError, UsageError: As `look`, and stored state that cannot be read.
    """
    away = outages(flow.clusters)
    if away.target is not None:
        raise away.target
    if away.source is not None:
        now = look_at_target(flow.target_side, selection, now_ms())
        rows = group_rows(_knowledge(flow, now, now.facts.source_ends, None))
        wanted = tuple(row for row in rows if not flow.topics or row.topic in flow.topics)
        unasked, unknown = (away.source,), now.facts.unknown
        return GroupsFound(flow.names.flow, wanted, now.facts.now_ms, now.warnings, unasked, unknown)
    found = _by_both(flow, selection)
    # between two questions a sync may commit on the target what was not read on the source yet
    rewinds = any(row.reason.word == Reason.WOULD_REWIND for row in found.rows)
    return _by_both(flow, selection) if rewinds else found


def _by_both(flow: WatchedFlow, selection: GroupSelection) -> GroupsFound:
    now = look(replace(flow.clusters, state=flow.watch), flow.topics, past=True)
    selected = selected_groups(now, selection, Direction.FORWARD)
    warnings = list(selection_warnings(selected))
    groups = read_groups(now, selected.known, Direction.FORWARD)
    read = topics_of(groups)
    bounds = flow.clusters.source.bounds_each(  # what can be mirrored: the last stable offset, or the end
        [place for place in now.partitions if place.topic in read],
        committed=flow.clusters.settings.reads_committed,
    )
    ends, at_ms = {place: UpstreamOffset(at.log_end) for place, at in bounds.items()}, now_ms()
    alone = look_at_target(flow.target_side, selection, now_ms())
    warnings += removed_groups(sorted({*alone.left_behind} - {*selected.known}), flow.names.source)
    partitions = partition_facts(now, Direction.FORWARD, warnings, topics=read)
    sides = now.sides(Direction.FORWARD)
    planned = [
        *zip(groups, plans_by(now, groups, partitions, _RULES), strict=True),
        *(
            (GroupFacts(plan.group, {}), plan)
            for plan in unknown_groups(selected.unknown, Direction.FORWARD, sides)
        ),
    ]
    seen = {place: SeenOffset(end, at_ms) for place, end in ends.items()}
    known = _knowledge(flow, alone, {**alone.facts.source_ends, **seen}, planned)
    frontiers = {
        place: int(of.map.upstream_frontier)
        for place, of in alone.facts.partitions.items()
        if of.map is not None
    }
    if alone.control.flow is None:  # mmtool never ran it: perhaps MirrorMaker 2 does
        progress = mirror_maker_progress(now, flow.watch, ends)
        frontiers = {**progress.positions, **frontiers}
        behind = {place: Loss(number, number, at_ms) for place, number in progress.behind(ends).items()}
        known = replace(known, not_on_target={**behind, **known.not_on_target})
    rows = group_rows(replace(known, partitions=partitions))
    rows = rows if not now.narrowed else [row for row in rows if row.topic is not None or row.blocks_group]
    found = _with_ages(flow, now, alone, frontiers, partitions, rows)
    return GroupsFound(flow.names.flow, tuple(found), at_ms, tuple(warnings), unknown=selected.unknown)


def _knowledge(
    flow: WatchedFlow,
    now: TargetNow,
    ends: Mapping[TopicPartition, SeenOffset],
    groups: Sequence[tuple[GroupFacts, GroupPlan]] | None,
) -> GroupKnowledge:
    """An emergency failover as its rehearsal plans it, with the source's current ends where they are known."""
    names, state = flow.names, app_state_on_target(now, without=False)
    facts = replace(now.facts, source_ends=ends)
    plan = plan_emergency(_NO_OPERATION, names, facts, state=state)
    held, unnamed = flow.clusters.names, dict[str, str]()
    if held.in_use:
        here = now.read_by if groups is None else flow.clusters.source.groups.listing().states
        selected = {*(group.group for group, _ in groups or ()), *(one.group for one in plan.groups)}
        unnamed = refused_names(held, flow.clusters.target, selected & here.keys(), here)
    return GroupKnowledge(
        names.source,
        names.target,
        groups,
        now.facts.partitions,
        plan,
        state,
        {place: facts.loss(place) for place, known in facts.partitions.items() if known.map is not None},
        moved=now.control.moved,
        unnamed={group: GroupReason(NAME_TAKEN, f"{why}: {cure(held)}") for group, why in unnamed.items()},
        stuck={
            TopicPartition(at.topic, at.partition): GroupReason(at.state, at.reason)
            for at in sorted(now.control.positions.values(), key=lambda at: at.observed_ms)
            if at.state in (State.HALTED, State.PAUSED)
        },
    )


def _with_ages(
    flow: WatchedFlow,
    now: FlowNow,
    alone: TargetNow,
    frontiers: Mapping[TopicPartition, int],
    partitions: Mapping[TopicPartition, PartitionFacts],
    rows: Sequence[GroupRow],
) -> list[GroupRow]:
    """The rows with the ages of records; where a record was deleted, that of the first one after it."""
    placed = [(row, row.place) for row in rows if row.place is not None]
    unread = {
        (place, row.committed) for row, place in placed if row.committed is not None and row.lag_records
    }
    missing = {place: frontiers[place] for row, place in placed if row.rpo_records and place in frontiers}
    starts = {
        place: facts.source_log.log_start
        for place, facts in partitions.items()
        if facts.source_log is not UNKNOWN
    }
    times = written_times(flow.watch, now.topics, unread | set(missing.items()), starts)
    at_ms = now_ms()

    def missing_since(place: TopicPartition) -> int | None:
        position = alone.control.positions.get((now.topics[place.topic].topic_id, place.partition))
        at_end_ms = None if position is None else position.at_end_ms
        return waiting_since(at_ms, times.get((place, missing[place])), at_end_ms)

    return with_ages(rows, times, {place: missing_since(place) for place in missing}, at_ms)


@dataclass(frozen=True, slots=True)
class GroupsStatus:
    """The groups of several flows; an unreachable cluster does not hide other flows.

    Attributes:
        flows: The flows with an answer.
        others: The flows without one.
    """

    flows: tuple[GroupsFound, ...]
    others: FlowFailures

    @property
    def rows(self) -> list[GroupRow]:
        return [row for flow in self.flows for row in flow.rows]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all flows."""
        return (*self.others.warnings, *(said for flow in self.flows for said in flow.warnings))

    @property
    def errors(self) -> tuple[MmtoolError, ...]:
        """The errors of all flows: clusters and groups that could not be read."""
        return (*self.others.errors, *(error for flow in self.flows for error in flow.unasked))

    @property
    def error(self) -> MmtoolError | None:
        """The error that ends the command: of a cluster, or of selected groups that no flow knows; None without one."""
        if error := worst(self.errors):
            return error
        unknown = (
            frozenset.intersection(*(frozenset(flow.unknown) for flow in self.flows)) if self.flows else ()
        )
        if not unknown:
            return None
        return RefusedError(
            f"{', '.join(flow.flow for flow in self.flows)} {have(len(self.flows))} no group named"
            f" {' or '.join(sorted(unknown))}"
            + did_you_mean(flow.unknown[name] for name in sorted(unknown) for flow in self.flows),
            remedy="list the groups: `mmtool status -c FILE --groups`",
            code=Reason.UNKNOWN_GROUP,
        )


def look_at_groups(flows: Sequence[WatchedFlow], selection: GroupSelection = _EVERY_GROUP) -> GroupsStatus:
    """The group status of every flow, read at the same time."""
    return GroupsStatus(*ask_each(flows, lambda flow: group_status(flow, selection)))
