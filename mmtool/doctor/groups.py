"""Doctor checks of groups that a failover cannot move by their commits alone, one check per kind."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mmtool.config.aliases import workers_groups
from mmtool.doctor.finding import Check, Finding, problem, warning
from mmtool.insight.applications import app_state
from mmtool.plain_text import shell_word
from mmtool.plan.groups.outside_offsets import sinks_by_kind
from mmtool.plan.words import counted, few
from mmtool.runtime.process import now_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from mmtool.config import FlowSettings
    from mmtool.doctor.examination import ExaminedFlow
    from mmtool.doctor.flow_view import Commits, FlowView
    from mmtool.errors import MmtoolError
    from mmtool.plan.groups.applications import AppState

LOOK_SECONDS = 6.0
"""Seconds between two reads of commits: clients commit every 5 s by default (``auto.commit.interval.ms``)."""
_RECENT_MS = 60_000
_SIMPLE_RECENT_MS = 3_600_000
_IDLE = frozenset({"Empty", "Dead"})
_NAMED = 3


# --- assign_group -----------------------------------------------------------------------------------------


def check_assign_group(flow: ExaminedFlow) -> Iterator[Finding]:
    """Find groups that commit without members: their clients use ``assign()``, which brokers do not see."""
    view = flow.view
    idle = _idle_readers(view)
    if not idle:
        return
    times = view.clusters.source.commit_times(idle)
    last = {group: max(of.values()) for group, of in times.items() if of}
    at_ms, simple = now_ms(), view.groups().simple - _work_on_target(view)
    moving = _moving(view, [g for g in idle if not last or at_ms - last.get(g, 0) < _RECENT_MS])
    for group in idle:
        yield from judge_assign(
            view.settings,
            group,
            moving=group in moving,
            simple=group in simple,
            silent_ms=at_ms - last[group] if group in last else None,
        )


def _idle_readers(view: FlowView) -> list[str]:
    """Groups without members on either cluster that have commits in mirrored topics."""
    listed, there, commits = view.groups().consumers, view.target_groups().consumers, view.commits()
    topics = view.mirrored()
    return [
        group
        for group in view.accepted_groups()
        if listed[group] in _IDLE
        and there.get(group, "Empty") in _IDLE
        and any(place.topic in topics for place in commits.get(group, ()))
    ]


def _work_on_target(view: FlowView) -> frozenset[str]:
    """Groups that had members on the target: a tool, as a group sync, may have made their commits on the source."""
    there = view.target_groups()
    return frozenset(there.consumers) - there.simple


def _moving(view: FlowView, groups: Collection[str]) -> frozenset[str]:
    """Groups whose commits change between two reads while they have no member."""
    if not groups:
        return frozenset()
    before = view.commits()
    time.sleep(LOOK_SECONDS)
    asked = view.clusters.source.groups
    after, listed = asked.commits_each(groups), asked.listing().consumers
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
        Check.ASSIGN_GROUP,
        source,
        group,
        f"group {group} {commits} on {source} and has no members: its clients use assign(), and a failover cannot see"
        " whether they have stopped",
        f"stop the clients of {group} on {source} before you fail the group over, and start them on {target}"
        " afterwards; nothing to do if only a tool committed these offsets",
    )


# --- streams_group ----------------------------------------------------------------------------------------


def check_streams_group(flow: ExaminedFlow) -> Iterator[Finding]:
    """Find Kafka Streams applications that a failover would start without their state."""
    view = flow.view
    of_streams = list(_accepted_others(view, "streams"))
    groups = [*view.accepted_groups(), *of_streams]
    state = app_state(view.now(), groups, without=False) if groups else None
    if state is not None:
        yield from judge_state(view.settings, state)
    lost = set(state.losing) if state else set()
    for group in of_streams:
        if group not in lost:
            yield judge_streams_protocol(view.settings, group)


def judge_state(settings: FlowSettings, state: AppState) -> Iterator[Finding]:
    """Findings about applications whose changelogs are not mirrored under the same names.

    Args:
        settings: The flow's settings.
        state: The state of the applications among its groups.
    """
    for group in state.losing:
        yield problem(
            Check.STREAMS_GROUP,
            settings.source.alias,
            group,
            f"Kafka Streams application {group} would start on {settings.target.alias} without its state:"
            f" {state.why_lost(group)}",
            state.remedy(group, settings.target.alias),
        )


def judge_streams_protocol(settings: FlowSettings, group: str) -> Finding:
    """The finding of a group of the streams protocol (KIP-1071), whose offsets no consumer's commit can set."""
    return warning(
        Check.STREAMS_GROUP,
        settings.source.alias,
        group,
        f"{group} is a streams group (group.protocol = streams, KIP-1071): mmtool does not translate its offsets, and a"
        f" failover does not move it to {settings.target.alias}",
        "run the application with group.protocol = classic, and mmtool moves its group; otherwise set the group's"
        f" offsets on {settings.target.alias} with kafka-streams-groups.sh --reset-offsets --execute",
    )


# --- share_group and connect_group ------------------------------------------------------------------------


def check_share_group(flow: ExaminedFlow) -> Iterator[Finding]:
    """Find share groups (KIP-932): a failover does not move their offsets."""
    for group in _accepted_others(flow.view, "share"):
        yield judge_share(flow.settings, group)


def judge_share(settings: FlowSettings, group: str) -> Finding:
    """The finding of a share group of the source."""
    source, target = settings.source.alias, settings.target.alias
    return warning(
        Check.SHARE_GROUP,
        source,
        group,
        f"{group} is a share group (KIP-932): a failover does not move its offsets from {source} to {target}, and the"
        f" group starts on {target} by share.auto.offset.reset (default: latest)",
        f"before {group} starts on {target}, set where it begins; for example, to begin with the records of the last"
        " hour (PT1H): kafka-configs.sh"
        f" --bootstrap-server {settings.target.bootstrap_servers} --alter --entity-type groups --entity-name"
        f" {shell_word(group)} --add-config share.auto.offset.reset=by_duration:PT1H",
    )


def check_connect_group(flow: ExaminedFlow) -> Iterator[Finding]:
    """Find Kafka Connect's groups among the groups that the flow would move."""
    view, settings = flow.view, flow.settings
    mm2 = _mm2_workers(flow)
    workers = [group for group in _accepted_others(view, "connect") if group not in mm2]
    yield from judge_connect(settings, workers, view.accepted_groups())


def judge_connect(settings: FlowSettings, workers: Iterable[str], groups: Iterable[str]) -> Iterator[Finding]:
    """Findings about groups of Kafka Connect, and of sinks that keep offsets elsewhere, which the filters accept.

    Args:
        settings: The flow's settings.
        workers: Groups of Connect's workers.
        groups: Consumer groups.
    """
    source, target = settings.source.alias, settings.target.alias
    for group in sorted(workers):
        yield warning(
            Check.CONNECT_GROUP,
            source,
            group,
            f"{group} is the group of Kafka Connect workers and has no offsets to move; mmtool does not translate the"
            " offsets of source connectors, which Connect keeps in its own topic",
            f"add {group} to groups.exclude of {settings.name}; before a source connector starts on {target}, set its"
            " offsets with Connect's REST API (PATCH /connectors/NAME/offsets)",
        )
    for kind, names in sinks_by_kind(groups).items():
        keeps, remedy = kind.between(source, target)
        remedy = f"{remedy}; or add it to groups.exclude of {settings.name}"
        yield from (
            warning(Check.CONNECT_GROUP, source, group, f"{group}: {keeps}", remedy) for group in names
        )


def _mm2_workers(flow: ExaminedFlow) -> frozenset[str]:
    """Groups of the MirrorMaker 2 workers whose flows have this flow's source as their target."""
    here = flow.settings.source.alias
    flows = [one for one in flow.settings_of_file.all_flows if one.target.alias == here]
    return frozenset(name for one in flows for name in workers_groups(one))


def _accepted_others(view: FlowView, kind: str) -> list[str]:
    """Groups of one kind that the filters accept, in alphabetical order."""
    others: Mapping[str, str] = view.groups().others
    return sorted(group for group, of in others.items() if of == kind and view.accepts_group(group))


def unread(groups: Mapping[str, MmtoolError], alias: str, check: Check) -> Iterator[Finding]:
    """A warning about the groups whose commits the cluster does not show, since no other row covers them."""
    if groups:
        first = groups[min(groups)]
        yield warning(
            check,
            alias,
            "",
            f"could not be checked for {few(sorted(groups), _NAMED)}: the groups' committed offsets on {alias} cannot"
            f" be read: {first.message}",
            first.remedy,
        )
