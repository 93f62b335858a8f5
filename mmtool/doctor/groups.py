"""Doctor checks of groups that a failover cannot move by their commits alone, one check per kind."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mmtool.config.aliases import workers_groups
from mmtool.doctor.finding import SOURCE, Finding, flow_check, problem, warning
from mmtool.insight.applications import app_state
from mmtool.plan.groups.facts import GroupKind, no_share_groups
from mmtool.plan.groups.outside_offsets import sinks_by_kind
from mmtool.plan.words import counted, few
from mmtool.runtime.process import now_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from mmtool.config import FlowSettings
    from mmtool.doctor.examination import Commits, ExaminedFlow
    from mmtool.errors import MmtoolError

LOOK_SECONDS = 6.0
"""Seconds between two reads of commits: clients commit every 5 s by default (``auto.commit.interval.ms``)."""
_RECENT_MS = 60_000
_SIMPLE_RECENT_MS = 3_600_000
_IDLE = frozenset({"Empty", "Dead"})
_NAMED = 3


# --- assign_group -----------------------------------------------------------------------------------------


@flow_check("assign_group", "no group commits offsets while it has no members")
def check_assign_group(flow: ExaminedFlow) -> Iterator[Finding]:
    """Groups without members that commit offsets (`assign()`).

    Warning: there are some
    Effect: a failover cannot see whether the clients have stopped
    Remedy: stop the clients before the failover
    """
    idle = _idle_readers(flow)
    if not idle:
        return
    times = flow.clusters.source.commit_times(idle)
    last = {group: max(of.values()) for group, of in times.items() if of}
    # of groups that had members on the target, a tool, as a group sync, may have made the commits on the source
    there = flow.target_groups()
    at_ms, simple = now_ms(), flow.groups().simple - (frozenset(there.states) - there.simple)
    moving = _moving(flow, [g for g in idle if not last or at_ms - last.get(g, 0) < _RECENT_MS])
    for group in idle:
        yield from judge_assign(
            flow.settings,
            group,
            moving=group in moving,
            simple=group in simple,
            silent_ms=at_ms - last[group] if group in last else None,
        )


def _idle_readers(flow: ExaminedFlow) -> list[str]:
    """Groups without members on either cluster that have commits in mirrored topics."""
    listed, there, commits = flow.groups().states, flow.target_groups().states, flow.commits()
    topics = flow.mirrored()
    return [
        group
        for group in flow.accepted_groups()
        if listed[group] in _IDLE
        and there.get(group, "Empty") in _IDLE
        and any(place.topic in topics for place in commits.get(group, ()))
    ]


def _moving(flow: ExaminedFlow, groups: Collection[str]) -> frozenset[str]:
    """Groups whose commits change between two reads while they have no member."""
    if not groups:
        return frozenset()
    before = flow.commits()
    time.sleep(LOOK_SECONDS)
    asked = flow.clusters.source.groups
    after, listed = asked.commits_each(groups), asked.listing().states
    return frozenset(
        group
        for group in groups
        if listed.get(group) in _IDLE
        and group in after
        and _offsets(after[group]) != _offsets(before.get(group, {}))
    )


def _offsets(commits: Commits) -> dict[object, int]:
    return {place: commit.offset for place, commit in commits.items()}


def judge_assign(
    settings: FlowSettings, group: str, *, moving: bool, simple: bool, silent_ms: int | None
) -> Iterator[Finding]:
    """The finding of a group whose commits change, or that committed within the hour and never had a member.

    Args:
        settings: The flow's settings.
        group: A group without members.
        moving: Whether its commits changed between two reads.
        simple: Whether it never had a member, on either cluster.
        silent_ms: The age of its last commit; None where that is unknown.
    """
    recent = simple and silent_ms is not None and silent_ms < _SIMPLE_RECENT_MS
    if not moving and not recent:
        return
    source, target = settings.source.alias, settings.target.alias
    commits = "commits offsets" if moving else f"committed {counted((silent_ms or 0) // 1000, 'second')} ago"
    yield warning(
        source,
        group,
        f"group {group} {commits} on {source} and has no members: its clients use assign(), and a failover cannot see"
        " whether they have stopped",
        f"stop the clients of {group} on {source} before you fail the group over, and start them on {target}"
        " afterwards; nothing to do if only a tool committed these offsets",
    )


# --- streams_group ----------------------------------------------------------------------------------------


@flow_check("streams_group", "no Kafka Streams application would lose its state in a failover")
def check_streams_group(flow: ExaminedFlow) -> Iterator[Finding]:
    """The internal topics of Kafka Streams applications are mirrored, under their own names.

    Problem: an internal topic is not mirrored, or has another name
    Effect: the application starts on the target without its state
    Remedy: mirror the application's internal topics and input topics with identical names
    """
    groups = flow.accepted_groups()
    state = app_state(flow.now(), groups, without=False) if groups else None
    source, target = flow.settings.source.alias, flow.settings.target.alias
    if state is not None:
        for group in state.losing:
            yield problem(
                source,
                group,
                f"Kafka Streams application {group} would start on {target} without its state: {state.why_lost(group)}",
                state.remedy(group, target),
            )


# --- share_group and connect_group ------------------------------------------------------------------------


@flow_check("share_group", "the target takes the flow's share groups")
def check_share_group(flow: ExaminedFlow) -> Iterator[Finding]:
    """Share groups (KIP-932), whose positions need brokers of Kafka 4.2 or later on the target.

    Problem: there are some, and the target is older
    Effect: a failover refuses these groups
    Remedy: upgrade the target's brokers, or leave the groups out by `groups.exclude`
    """
    of_share = [group for group, kind in flow.groups().kinds.items() if kind is GroupKind.SHARE]
    groups = sorted(filter(flow.accepts_group, of_share))
    if groups and not flow.clusters.target.groups.has_share_groups():
        source, target = flow.settings.source.alias, flow.settings.target.alias
        for group in groups:
            yield problem(
                target,
                group,
                f"{group} is a share group on {source}, and {no_share_groups(target)}: a failover refuses it",
                f"upgrade the brokers of {target}, or add {group} to groups.exclude of {flow.settings.name}",
            )


@flow_check("connect_group", "none of the flow's groups belongs to Kafka Connect", SOURCE)
def check_connect_group(flow: ExaminedFlow) -> Iterator[Finding]:
    """Groups of Kafka Connect among the flow's groups.

    And groups that are named like sinks that keep Kafka offsets elsewhere (Iceberg, Snowflake, Delta, Flink, Hudi,
    ClickHouse).

    Warning: there are some
    Effect: mmtool commits offsets on the target that no consumer uses; offsets of source connectors are not moved; a
        sink that starts at offsets of its own skips or repeats records
    Remedy: `groups.exclude`; Connect's REST API; a new `iceberg.control.topic`; the sink's own offsets
    """
    settings = flow.settings
    source, target = settings.source.alias, settings.target.alias
    to_source = [one for one in flow.settings_of_file.all_flows if one.target.alias == source]
    mm2 = {name for one in to_source for name in workers_groups(one)}
    for group in _accepted_others(flow, "connect"):
        if group not in mm2:
            yield warning(
                source,
                group,
                f"{group} is the group of Kafka Connect workers and has no offsets to move; mmtool does not translate"
                " the offsets of source connectors, which Connect keeps in its own topic",
                f"add {group} to groups.exclude of {settings.name}; before a source connector starts on {target}, set"
                " its offsets with Connect's REST API (PATCH /connectors/NAME/offsets)",
            )
    for kind, names in sinks_by_kind(flow.accepted_groups()).items():
        keeps, remedy = kind.between(source, target)
        remedy = f"{remedy}; or add it to groups.exclude of {settings.name}"
        yield from (warning(source, group, f"{group}: {keeps}", remedy) for group in names)


def _accepted_others(flow: ExaminedFlow, kind: str) -> list[str]:
    """Groups of one kind that the filters accept, in alphabetical order."""
    others: Mapping[str, str] = flow.groups().others
    return sorted(group for group, of in others.items() if of == kind and flow.accepts_group(group))


def unread(groups: Mapping[str, MmtoolError], alias: str) -> Iterator[Finding]:
    """A warning about the groups whose commits the cluster does not show, since no other row covers them."""
    if groups:
        first = groups[min(groups)]
        yield warning(
            alias,
            "",
            f"could not be checked for {few(sorted(groups), _NAMED)}: the groups' committed offsets on {alias} cannot"
            f" be read: {first.message}",
            first.remedy,
        )
