"""What is refused before anything starts: flows that would repeat records, or write into one topic."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import combinations
from typing import TYPE_CHECKING

from mmtool.errors import UnreachableError, UsageError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.topology import Edge, repetition
from mmtool.translation.naming import HEARTBEATS_TOPIC, DefaultPolicy, RenamePolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.replication.flow_run import FlowRun

_WAYS_AROUND = 4
_LITERAL = re.compile(r"[\w.-]+", re.ASCII)


def refuse_conflicts(enabled: Sequence[FlowSettings]) -> None:
    """Refuses flows that do not go together, as far as the file tells.

    Args:
        enabled: All that the file enables, whichever of them this process runs.

    Raises:
        UsageError: as `refuse_repetition`, `refuse_growth` and `refuse_meeting`.
    """
    refuse_repetition(enabled)
    refuse_growth(enabled)
    refuse_meeting(enabled)


def refuse_repetition(flows: Iterable[FlowSettings]) -> None:
    """Refuses flows with identical names on which a record would come to one cluster twice.

    Args:
        flows: All that the file enables, whichever of them this process runs.

    Raises:
        UsageError: they would; the two routes are named.
    """
    keeping = [flow for flow in flows if flow.keeps_names]
    for topic in _sorts_of_topics(keeping):
        routes = repetition(_edge(flow) for flow in keeping if _may_carry(flow, topic))
        if routes is not None:
            raise _repeats(*routes)


def refuse_growth(flows: Sequence[FlowSettings]) -> None:
    """Refuses two flows between the same clusters that would mirror each other's topics under ever longer names.

    Raises:
        UsageError: an alias contains the separator, which hides from MM2 where a topic came from; or one flow does not
            recognise the names that the other one gives.
    """
    by_name = {flow.name: flow for flow in flows}
    for flow in flows:
        back = by_name.get(f"{flow.target.alias}->{flow.source.alias}")
        if back is not None and not (flow.keeps_names and back.keeps_names):
            _refuse_split_alias(flow, back)
            _refuse_endless_names(flow, back)


def _refuse_split_alias(flow: FlowSettings, back: FlowSettings) -> None:
    found = [(one, one.policy.separator) for one in (flow, back) if isinstance(one.policy, DefaultPolicy)]
    found = [(one, separator) for one, separator in found if _is_split(one.topic_aliases.source, separator)]
    if not found:
        return
    alias, separator = found[0][0].topic_aliases.source, found[0][1]
    why = f"contains the separator {separator!r}" if separator else "has no end under a blank separator"
    other = "_" if separator != "_" else "-"
    renamed = [
        f"{one.source.alias}.alias = {one.topic_aliases.source.replace(by, other)}" for one, by in found
    ]
    aliases = f"set {' and '.join(renamed)}, which name topics" if separator else "set another separator"
    grown = separator.join(
        (back.topic_aliases.source, flow.topic_aliases.source, back.topic_aliases.source, "")
    )
    raise UsageError(
        f"{flow.name} and {back.name}: alias {alias} {why}, so that MirrorMaker 2 does not see where a topic came from:"
        f" topics would grow without end, as {grown}...",
        remedy=f"{aliases}; or disable one of the two flows",
        code="endless_names",
    )


def _is_split(alias: str, separator: str) -> bool:
    """Whether MM2 takes an alias apart where it splits the name of a topic."""
    return separator in alias if separator else len(alias) > 1


def _refuse_endless_names(flow: FlowSettings, back: FlowSettings) -> None:
    names = next(filter(None, (_endless(topic, flow, back) for topic in _probes(flow, back))), None)
    if names is None:
        return
    raise UsageError(
        f"{flow.name} and {back.name}: topics would grow without end: {' -> '.join(names)}: {back.name} does not"
        f" recognise what {flow.name} has mirrored",
        remedy=f"name both clusters alike in both flows: {back.name}.target.cluster.alias ="
        f" {flow.topic_aliases.source}, with one separator and policy; or disable one of the two",
        code="endless_names",
    )


def _probes(flow: FlowSettings, back: FlowSettings) -> list[str]:
    literal = [topic for topic in _sorts_of_topics((flow, back)) if topic is not None]
    any_name = ["topic"] if _may_carry(flow, None) and _may_carry(back, None) else []
    return [*any_name, *literal, HEARTBEATS_TOPIC]


def _endless(topic: str, flow: FlowSettings, back: FlowSettings) -> list[str] | None:
    """The first names of a topic that becomes longer on each way around; None where it comes to a rest."""
    names = [topic]
    for hop in (flow, back) * _WAYS_AROUND:
        if not _carries(hop, names[-1], topic):
            return None
        names.append(hop.remote_topic(names[-1]))
    return names[:5] if len(names[-1]) > len(names[2]) else None


def _carries(flow: FlowSettings, name: str, born: str) -> bool:
    """Whether a flow mirrors a topic; one that stands for any other is taken for one that the patterns accept."""
    if born == "topic":
        return not flow.policy.is_cycle(flow.topic_aliases.target, name)
    return flow.mirrors_topic(name)


def refuse_meeting(flows: Iterable[FlowSettings]) -> None:
    """Refuses flows whose rename formats would lead topics of two sources into one topic.

    Identical names are another matter: there, one topic for all is what was asked for.

    Raises:
        UsageError: they would; the formats do not name the source.
    """
    renaming = [flow for flow in flows if isinstance(flow.policy, RenamePolicy)]
    for one, other in combinations(renaming, 2):
        if one.target.alias == other.target.alias and (name := _common_name(one, other)):
            raise UsageError(
                f"mmtool.topic.rename.format: {one.name} and {other.name} would both write to topic {name}",
                remedy="put ${source} into the format",
                code="names_meet",
            )


def may_meet(one: FlowSettings, other: FlowSettings) -> bool:
    """Whether two topics of two flows must not have one name: both lead to one cluster, and not both keep names."""
    return one.target.alias == other.target.alias and not (one.keeps_names and other.keeps_names)


async def refuse_met_topics(runs: Sequence[FlowRun]) -> None:
    """Refuses flows of which two source topics have one name on the target, before anything is mirrored.

    Raises:
        UsageError: both flows, both topics and the name are in the message.
    """
    pairs = [pair for pair in combinations(runs, 2) if may_meet(pair[0].flow.settings, pair[1].flow.settings)]
    names: dict[str, Mapping[str, str]] = {run.name: {} for pair in pairs for run in pair}
    for run in runs:
        if run.name in names:
            with suppress(UnreachableError, ConnectionLostError):  # its topics are looked at when it is back
                names[run.name] = await run.mirrored_names()
    for one, other in pairs:
        by_remote = {remote: topic for topic, remote in names[one.name].items()}
        for topic, remote in sorted(names[other.name].items()):
            if remote in by_remote:
                raise UsageError(
                    f"topic {by_remote[remote]} of {one.flow.source.alias} and topic {topic} of"
                    f" {other.flow.source.alias} would both be {remote} on {one.flow.target.alias}",
                    remedy=f"set another {other.flow.source.alias}.alias, which names its topics, or exclude one of"
                    " the two topics",
                    code="names_meet",
                )


def _common_name(one: FlowSettings, other: FlowSettings) -> str | None:
    """What both flows would call a topic that both may carry."""
    for topic in _sorts_of_topics((one, other)):
        example = topic or "TOPIC"
        remote = one.remote_topic(example)
        if remote == other.remote_topic(example) and _may_carry(one, topic) and _may_carry(other, topic):
            return remote
    return None


def _sorts_of_topics(flows: Iterable[FlowSettings]) -> list[str | None]:
    """Every topic that is named outright, and None for whatever a pattern may mean."""
    named = {name for flow in flows for name in flow.topics.include if _LITERAL.fullmatch(name)}
    return [None, *sorted(named)]


def _may_carry(flow: FlowSettings, topic: str | None) -> bool:
    if topic is not None:
        return flow.topics.accepts(topic)
    return not all(map(_LITERAL.fullmatch, flow.topics.include))


def _edge(flow: FlowSettings) -> Edge:
    return Edge(flow.source.alias, flow.target.alias, flow.origins)


def _repeats(first: tuple[str, ...], second: tuple[str, ...]) -> UsageError:
    where = second[-1]
    ways = "->".join(second) if len(first) == 1 else f"{'->'.join(first)} and {'->'.join(second)}"
    return UsageError(
        f"identical topic names: a record of {second[0]} would come to {where} again by {ways}",
        remedy="set mmtool.origins = local for a full mesh, disable a flow, or use DefaultReplicationPolicy",
        code="loop",
    )
