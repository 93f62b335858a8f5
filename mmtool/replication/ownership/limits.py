"""Refuse flows that conflict: a record reaches a cluster by two routes or in a cycle, or two topics get one name.

`refuse_conflicts` needs the properties file alone (`replicate`, `config`; the doctor calls its parts).
`refuse_met_topics` needs the topics that exist: the engine calls it once it is connected.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations, islice
from typing import TYPE_CHECKING

from mmtool.config.aliases import may_meet
from mmtool.config.names import LITERAL
from mmtool.errors import UnreachableError, UsageError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.records.identity import CANARY_TOPIC
from mmtool.plan.topics.retention import Edge, repetition
from mmtool.replication.same_offsets.refusals import TRANSLATE, refuse_two_sources
from mmtool.translation.names import HEARTBEATS_TOPIC, DefaultPolicy, RenamePolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.replication.driver.flow_run import FlowRun

_WAYS_AROUND = 4
_PAIR = 2
_LONGEST_CYCLE = 8
_NAMES_KEPT = "a flow that has mirrored topics refuses other names"
_MOST_CYCLES = 500
"""At most so many cycles are checked, so that large files start at once; only unlike policies or aliases need it."""


def refuse_conflicts(enabled: Sequence[FlowSettings]) -> None:
    """Refuse flows that cannot run together, as far as the properties file shows.

    Args:
        enabled: All flows that the file enables, whichever of them this process runs.

    Raises:
        UsageError: as `refuse_repetition`, `refuse_growth`, `refuse_meeting` and `refuse_two_sources`.
    """
    refuse_repetition(enabled)
    refuse_growth(enabled)
    refuse_meeting(enabled)
    refuse_two_sources(enabled)


def refuse_repetition(flows: Iterable[FlowSettings]) -> None:
    """Refuse flows that keep topic names if one record would reach a cluster by two routes.

    Args:
        flows: All flows that the file enables, whichever of them this process runs.

    Raises:
        UsageError: there are two routes; the message names them.
    """
    keeping = [flow for flow in flows if flow.keeps_names]
    for topic in _sorts_of_topics(keeping):
        routes = repetition(
            Edge(flow.source.alias, flow.target.alias, flow.origins)
            for flow in keeping
            if _may_carry(flow, topic)
        )
        if routes is None:
            continue
        first, second = routes
        ways = f"a second time through {'->'.join(second)}"
        if len(first) > 1:
            ways = f"twice, through {'->'.join(first)} and through {'->'.join(second)}"
        raise UsageError(
            f"identical topic names: a record of {second[0]} would reach {second[-1]} {ways}",
            remedy="set mmtool.origins = local for a full mesh, or disable a flow, or use DefaultReplicationPolicy"
            f" ({_NAMES_KEPT})",
            code="loop",
        )


def refuse_growth(flows: Sequence[FlowSettings]) -> None:
    """Refuse flows that would mirror topics around a cycle of clusters under ever longer names.

    Raises:
        UsageError: an alias of a pair contains the separator, which hides from MM2 where a topic came from; or no flow
            of a cycle recognises the names that the others give.
    """
    by_name = {flow.name: flow for flow in flows}
    for flow in flows:
        back = by_name.get(f"{flow.target.alias}->{flow.source.alias}")
        if back is not None and not (flow.keeps_names and back.keeps_names):
            _refuse_split_alias(flow, back)
    for cycle in islice(_cycles(_unproven(flows)), _MOST_CYCLES):
        if not all(flow.keeps_names for flow in cycle):
            _refuse_endless_names(cycle)


def _unproven(flows: Sequence[FlowSettings]) -> list[FlowSettings]:
    """The flows whose cycles must be checked: topics stop at a cluster that has one alias in all flows."""
    if all(flow.keeps_names for flow in flows):
        return []
    names: dict[str, set[str]] = {}
    for flow in flows:
        names.setdefault(flow.source.alias, set()).add(flow.topic_aliases.source)
        names.setdefault(flow.target.alias, set()).add(flow.topic_aliases.target)
    if not _are_split_alike(flows, set().union(*names.values())):
        return list(flows)
    doubtful = {cluster for cluster, of in names.items() if len(of) > 1}
    return [flow for flow in flows if {flow.source.alias, flow.target.alias} <= doubtful]


def _are_split_alike(flows: Iterable[FlowSettings], aliases: Iterable[str]) -> bool:
    """Whether every flow reads every alias before the separator as that alias."""
    policies = [flow.policy for flow in flows]
    found = [policy for policy in policies if isinstance(policy, DefaultPolicy)]
    if len(found) < len(policies) or len({policy.separator for policy in found}) != 1:
        return False
    separator = found[0].separator
    return bool(separator) and all(alias and separator not in alias for alias in (*aliases, *found[0].known))


def _cycles(flows: Sequence[FlowSettings]) -> Iterator[tuple[FlowSettings, ...]]:
    """Each cycle that enters no cluster twice, from its first cluster in the file; short cycles first."""
    leaving: dict[str, list[FlowSettings]] = {}
    for flow in flows:
        leaving.setdefault(flow.source.alias, []).append(flow)
    starts = list(leaving)
    for length in range(2, min(_LONGEST_CYCLE, len(starts)) + 1):
        for at, home in enumerate(starts):
            for flow in leaving[home]:
                yield from _ways_around((flow,), leaving, frozenset(starts[at + 1 :]), length)


def _ways_around(
    way: tuple[FlowSettings, ...],
    leaving: Mapping[str, list[FlowSettings]],
    free: frozenset[str],
    length: int,
) -> Iterator[tuple[FlowSettings, ...]]:
    """The cycles of ``length`` flows that continue ``way`` through clusters in ``free``."""
    here, home = way[-1].target.alias, way[0].source.alias
    if here == home and len(way) == length:
        yield way
    if here in free and len(way) < length:
        for flow in leaving[here]:
            yield from _ways_around((*way, flow), leaving, free - {here}, length)


def _refuse_split_alias(flow: FlowSettings, back: FlowSettings) -> None:
    found = [(one, one.policy.separator) for one in (flow, back) if isinstance(one.policy, DefaultPolicy)]
    found = [(one, separator) for one, separator in found if _is_split(one.topic_aliases.source, separator)]
    if not found:
        return
    alias, separator = found[0][0].topic_aliases.source, found[0][1]
    why = (
        f"contains the separator {separator!r}"
        if separator
        else "cannot be separated from the topic's name with a blank separator"
    )
    other = "_" if separator != "_" else "-"
    renamed = {
        key: one.topic_aliases.source.replace(by, other)
        for one, by in found
        for key in (one.alias_keys.source, (back if one is flow else flow).alias_keys.target)
    }
    lines = " and ".join(f"{key} = {name}" for key, name in renamed.items())
    aliases = (
        f"set {lines} (aliases are part of topic names; {_NAMES_KEPT})"
        if separator
        else f"set another replication.policy.separator ({_NAMES_KEPT})"
    )
    grown = separator.join(
        (back.topic_aliases.source, flow.topic_aliases.source, back.topic_aliases.source, "")
    )
    raise UsageError(
        f"{flow.name} and {back.name}: alias {alias} {why}, so the replication policy cannot see where a topic"
        f" came from: topic names would grow without end, for example {grown}...",
        remedy=f"{aliases}; or disable one of the two flows",
        code="endless_names",
    )


def _is_split(alias: str, separator: str) -> bool:
    """Whether MM2 splits the alias itself when it splits a topic's name."""
    return separator in alias if separator else len(alias) > 1


def _refuse_endless_names(cycle: tuple[FlowSettings, ...]) -> None:
    turned = [(*cycle[at:], *cycle[:at]) for at in range(len(cycle))]
    found = ((way, _endless(topic, way)) for topic in _probes(cycle) for way in turned)
    way, names = next(((way, names) for way, names in found if names), (cycle, None))
    if names is None:
        return
    flows, last = " and ".join(flow.name for flow in way), way[-1]
    raise UsageError(
        f"{flows}: topic names would grow without end ({' -> '.join(names)}), because {last.name} does not recognise"
        f" topics that {way[0].name} mirrored",
        remedy=_one_name_each(way),
        code="endless_names",
    )


def _one_name_each(way: tuple[FlowSettings, ...]) -> str:
    first, last = way[0], way[-1]
    if len(way) == _PAIR:
        return (
            f"give each cluster the same name in both flows: set {last.name}.target.cluster.alias ="
            f" {first.topic_aliases.source}, and use the same separator and policy in both; or disable one of the two"
            " flows"
        )
    names = ", ".join(f"{flow.source.alias}.alias = {flow.source.alias}" for flow in way)
    keys = [f"{flow.name}.{side}.cluster.alias" for flow in way for side in ("source", "target")]
    own = [key for flow in way for key in (flow.alias_keys.source, flow.alias_keys.target) if key in keys]
    without = f", remove {', '.join(own)}" if own else ""
    return (
        f"give each cluster the same alias in all of these flows: set {names}{without}, and use one separator and"
        " policy; or disable one of the flows"
    )


def _probes(cycle: Sequence[FlowSettings]) -> list[str]:
    literal = [topic for topic in _sorts_of_topics(cycle) if topic is not None]
    any_name = ["topic"] if all(_may_carry(flow, None) for flow in cycle) else []
    return [*any_name, *literal, HEARTBEATS_TOPIC]


def _endless(topic: str, cycle: tuple[FlowSettings, ...]) -> list[str] | None:
    """The first names of a topic that gets longer with each pass around the cycle; None if it stops."""
    names = [topic]
    for hop in cycle * _WAYS_AROUND:
        if topic == "topic":  # the probe name stands for any topic that the patterns accept
            is_carried = not hop.policy.is_cycle(hop.topic_aliases.target, names[-1])
        else:
            is_carried = hop.mirrors_topic(names[-1])
        if not is_carried:
            return None
        names.append(hop.remote_topic(names[-1]))
    around = len(cycle)
    return names[: around + 3] if len(names[-1]) > len(names[around]) else None


def refuse_meeting(flows: Iterable[FlowSettings]) -> None:
    """Refuse flows whose rename formats would write topics of two sources to one target topic.

    Flows that keep topic names are not checked: with them, one topic for all sources is intended, unless they keep
    offsets as well (`refuse_two_sources`).

    Raises:
        UsageError: two flows would, because their formats do not name the source.
    """
    renaming = [flow for flow in flows if isinstance(flow.policy, RenamePolicy)]
    for one, other in combinations(renaming, 2):
        if one.target.alias == other.target.alias and (name := _common_name(one, other)):
            raise UsageError(
                f"mmtool.topic.rename.format: {one.name} and {other.name} would both write to topic {name}",
                remedy=f"put ${{source}} into {other.name}.mmtool.topic.rename.format; a flow that has mirrored topics"
                f" keeps its format: if that is {other.name}, change {one.name}.mmtool.topic.rename.format instead",
                code="names_meet",
            )


async def refuse_met_topics(runs: Sequence[FlowRun]) -> None:
    """Refuse flows of which two source topics have one target name, by the topics that exist now.

    `refuse_meeting` checks the file alone.

    Raises:
        UsageError: two topics have one; the message has both flows, both topics and the name.
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
            if remote in by_remote and remote != CANARY_TOPIC:  # no filter leaves that one out
                raise UsageError(
                    f"topic {by_remote[remote]} of {one.flow.source.alias} and topic {topic} of"
                    f" {other.flow.source.alias} would both be {remote} on {one.flow.target.alias}",
                    remedy=way_apart(topic, other.flow.settings, one.flow.settings),
                    code="names_meet",
                )


def way_apart(topic: str, flow: FlowSettings, other: FlowSettings) -> str:
    """The remedy for a topic whose mirror has the same name as one of another flow.

    Args:
        topic: The source topic.
        flow: The flow that mirrors it.
        other: The flow that mirrors another topic to the same name.
    """
    renamed = "".join(
        f"; or, if {one.name} has mirrored no topic yet, set {one.alias_keys.source} to another alias: mirror names"
        " contain the alias"
        for one in (flow, other)
        if _names_contain_alias(one)
    )
    alike = flow.keeps_names and other.keeps_names
    translated = f"; or {TRANSLATE} in both flows" if alike else ""
    return f"add {topic} to {flow.name}.topics.exclude{renamed}{translated}"


def _names_contain_alias(flow: FlowSettings) -> bool:
    policy = flow.policy
    return policy.names_source if isinstance(policy, RenamePolicy) else not flow.keeps_names


def _common_name(one: FlowSettings, other: FlowSettings) -> str | None:
    """The target name that both flows would give to a topic that both may carry; None if there is none."""
    for topic in _sorts_of_topics((one, other)):
        example = topic or "TOPIC"
        remote = one.remote_topic(example)
        if remote == other.remote_topic(example) and _may_carry(one, topic) and _may_carry(other, topic):
            return remote
    return None


def _sorts_of_topics(flows: Iterable[FlowSettings]) -> list[str | None]:
    """Every topic that the filters name literally, and None for any topic that a pattern may match."""
    named = {name for flow in flows for name in flow.topics.include if LITERAL.fullmatch(name)}
    return [None, *sorted(named)]


def _may_carry(flow: FlowSettings, topic: str | None) -> bool:
    if topic is not None:
        return flow.names_topic(topic)
    return flow.topics.literals() is None
