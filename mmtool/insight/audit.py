"""Audit a flow's groups on the target, from whichever of its clusters answers. Read-only."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, RefusedError, with_remedy
from mmtool.insight.flow_now import outages
from mmtool.insight.group_names import refused_names
from mmtool.insight.partitions import partition_facts, passed_over
from mmtool.insight.target_only import TargetSide, identity_on_target
from mmtool.insight.translation import look, plans_by, read_groups, topics_of
from mmtool.plain_text import did_you_mean, duration
from mmtool.plan.groups.audit import (
    AuditRow,
    AuditState,
    CommitAges,
    audit_by_checkpoints,
    audit_group,
    with_removed,
)
from mmtool.plan.groups.facts import select_groups
from mmtool.plan.groups.offsets import Direction, Rules, ever_ran
from mmtool.plan.groups.outside_offsets import sink_warnings
from mmtool.plan.records.marks import RemovedRecord
from mmtool.plan.words import counted, named_topics
from mmtool.translation.answers import Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mmtool.config import FlowSettings
    from mmtool.insight.flow_now import FlowClusters, FlowNow
    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.groups.facts import GroupSelection, SelectedGroups
    from mmtool.plan.records.marks import MovedGroupRecord


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit of one flow.

    Attributes:
        flow: Its settings.
        rows: By group, topic and partition.
        warnings: Limits of the result, for the operator.
        error: The error that ends the command; None when every request succeeded.
    """

    flow: FlowSettings
    rows: tuple[AuditRow, ...]
    warnings: tuple[str, ...] = ()
    error: MmtoolError | None = None

    def documents(self) -> list[dict[str, object]]:
        """The rows as documents, with the flow's source and target aliases."""
        aliases = {"source": self.flow.source.alias, "target": self.flow.target.alias}
        return [aliases | asdict(row) for row in self.rows]

    @property
    def headline(self) -> str:
        """One line: the number of groups, and of partitions by verdict."""
        counts = Counter(row.verdict for row in self.rows)
        groups = len({row.group for row in self.rows})
        said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in AuditState if counts[verdict])
        partitions = counted(sum(row.partition is not None for row in self.rows), "partition")
        return (
            f"{self.flow.name}: {counted(groups, 'group')}, {partitions}: {said}"
            if said
            else f"{self.flow.name}: no group"
        )


def audit(clusters: FlowClusters, selection: GroupSelection, topics: Collection[str], now_ms: int) -> Audit:
    """Audit every selected group on the target, excluded groups too, from the clusters that answer.

    ``now_ms`` is for the ages of checkpoints and commits.

    Raises:
        UnreachableError, NotAuthorisedError: Neither cluster answers, or one denies a request.
        UsageError, RefusedError: as `look`, and stored state that cannot be read.
    """
    source, target = outages(clusters)
    if source is None and target is None:
        return _named(clusters, _both(look(clusters, topics), selection, now_ms))
    warnings = [with_remedy(error) for error in (source, target) if error]
    rows = (
        _without_target(clusters, selection)
        if target
        else _without_source(clusters, selection, now_ms, warnings)
    )
    told = tuple(row for row in rows if not topics or row.topic in topics)
    warnings += sink_warnings({row.group for row in told}, clusters.source.alias, clusters.target.alias)
    return _named(clusters, Audit(clusters.settings, told, tuple(warnings)))


def _named(clusters: FlowClusters, found: Audit) -> Audit:
    """The audit, with each group's name on the target."""
    there = clusters.names.there
    return replace(found, rows=tuple(replace(row, target_group=there(row.group)) for row in found.rows))


def _both(flow: FlowNow, selection: GroupSelection, now_ms: int) -> Audit:
    settings, warnings = flow.clusters.settings, list[str]()
    chosen = _chosen(flow.clusters.source, selection)
    refused = refused_names(flow.clusters.names, flow.clusters.target, chosen.known, chosen.known)
    warnings += [f"group {group} cannot be written: {why}" for group, why in refused.items()]
    if flow.clusters.names.map.pairs:
        warnings += flow.clusters.names.warnings(flow.clusters.source.groups.listing().states)
    groups = read_groups(flow, chosen.known, Direction.FORWARD)
    partitions = partition_facts(flow, Direction.FORWARD, warnings, topics=topics_of(groups))
    control = flow.clusters.state.control(flow.identity)
    ages = _ages(flow.clusters.target, [group.group for group in groups if group.before], now_ms)
    refusals = {group.group: settings.groups.refusal(group.group) for group in groups}
    excluded = {name: f"groups: {refusal}" for name, refusal in refusals.items() if refusal}
    rows = [
        _with_age(row, control.moved.get(row.group))
        for group, plan in zip(groups, plans_by(flow, groups, partitions, Rules()), strict=True)
        for row in audit_group(
            plan, group.there, ages, excluded=excluded.get(group.group, ""), unmirrored=settings.unmirrored
        )
    ]
    warnings += sink_warnings(chosen.known, settings.source.alias, settings.target.alias)
    ran = ever_ran(partitions.values())
    removed = select_groups(selection, control.removed, lambda _: True).known
    gone = {name: control.removed[name] for name in removed}
    return Audit(
        settings,
        tuple(with_removed(rows, gone, settings.source.alias)),
        tuple(warnings),
        _error(settings, chosen, flow.topics if flow.narrowed else (), ran=ran),
    )


def _ages(target: ClusterPort, names: Collection[str], now_ms: int) -> CommitAges:
    times = target.commit_times(names) if names else {}
    return CommitAges(times, now_ms, target.offsets_retention_seconds() if times else 0.0)


_SINCE = frozenset({AuditState.BEHIND, AuditState.AHEAD, AuditState.STALE})


def _with_age(row: AuditRow, moved: MovedGroupRecord | None) -> AuditRow:
    """The row, with the commit's age and expiry, and the failover that moved its group, added to the reason."""
    said, expires = [row.reason], "the commit expires"
    if row.target_age_seconds is not None and row.verdict in _SINCE:
        said.append(f"committed {duration(row.target_age_seconds)} ago")
        expires = "expires"
    if row.expires_seconds is not None:
        said.append(f"{expires} in {duration(row.expires_seconds)}")
    if moved is not None:
        said.append(moved.sentence)
    return replace(row, reason=", ".join(filter(None, said)))


def _chosen(cluster: ClusterPort, selection: GroupSelection) -> SelectedGroups:
    """The selected groups of a cluster, excluded ones too: an audit reports them as excluded."""
    listed = cluster.groups.listing()
    return select_groups(selection, listed.states, lambda _: True)


def _error(
    settings: FlowSettings, chosen: SelectedGroups, topics: Collection[str], *, ran: bool
) -> MmtoolError | None:
    if not ran:
        named = f" --topic {min(topics)}" if topics else ""
        why = f"; if it runs, `mmtool status -c FILE{named}` shows why"
        return RefusedError(
            f"flow {settings.name} has never mirrored {named_topics(sorted(topics)) if topics else 'a topic'}",
            remedy=f"start the flow if it does not run: `mmtool replicate -c FILE -s {settings.source.alias}"
            f" -t {settings.target.alias}`{why}",
            code=Reason.NEVER_RAN,
        )
    if chosen.unknown:
        return RefusedError(
            f"{settings.source.alias} has no group {', '.join(chosen.unknown)}"
            + did_you_mean(chosen.unknown.values()),
            remedy=f"list the groups: `mmtool groups audit -c FILE -s {settings.source.alias}"
            f" -t {settings.target.alias}`",
            code=Reason.UNKNOWN_GROUP,
        )
    return None


def _without_source(
    clusters: FlowClusters, selection: GroupSelection, now_ms: int, warnings: list[str]
) -> Iterable[AuditRow]:
    """Rows from the checkpoints on the target, mmtool's or MM2's: the source's state when it last answered."""
    assert clusters.synced is not None
    found = clusters.synced.checkpoints()
    side = TargetSide(clusters.settings, clusters.target, clusters.state, clusters.synced, clusters.names)
    removed, none = identity_on_target(side)[1].removed, RemovedRecord("")
    held = {
        name: {at: told.pair for at, told in of_group.items() if not removed.get(name, none).has(at)}
        for name, of_group in found.checkpoints.items()
    }
    warnings += passed_over(found.unreadable)
    names = select_groups(selection, held, lambda _: True).known
    committed = clusters.target.groups.commits_each(names)
    yield from _not_told(committed.failed)
    remote, alias = clusters.settings.remote_topic, clusters.target.alias
    source = clusters.settings.source.alias
    for name in committed:
        rows = audit_by_checkpoints(name, held[name], committed[name], remote, now_ms, alias)
        yield from with_removed(rows, {name: removed.get(name, none)}, source)


def _without_target(clusters: FlowClusters, selection: GroupSelection) -> Iterable[AuditRow]:
    names = _chosen(clusters.source, selection).known
    found = clusters.source.groups.commits_each(names)
    yield from _not_told(found.failed)
    for name, commits in found.items():
        for place, commit in sorted(commits.items()):
            yield AuditRow(
                name, *place, AuditState.STALE, f"{clusters.target.alias} does not answer", commit.offset
            )


def _not_told(failed: Mapping[str, MmtoolError]) -> Iterable[AuditRow]:
    """A row for each group whose commits a cluster did not show, with the error as its reason."""
    return (AuditRow(name, None, None, AuditState.STALE, error.message) for name, error in failed.items())
