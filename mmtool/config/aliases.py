"""Cluster aliases and MirrorMaker 2's names: aliases that topics are named by, groups and topics of its workers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations, permutations

from mmtool.config.properties import PropertyEntry
from mmtool.config.report import Report
from mmtool.config.scopes import Scopes, Side
from mmtool.config.settings import FlowSettings
from mmtool.config.values import java_trim, parse_list
from mmtool.translation.names import HEARTBEATS_TOPIC, DefaultPolicy, IdentityPolicy, TopicAliases, topic_part

ALIAS_KEYS = ("source.cluster.alias", "target.cluster.alias")
"""Override the file's aliases in topic names, globally or under ``S->T.``; ``ALIAS.alias`` does so for one cluster."""

SIDES: tuple[Side, ...] = ("source", "target")
LONGEST_TOPIC_NAME = 249
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._/-]")
_LONGEST_AFFIXES = "mmtool-offset-runs..internal"
_OVERRIDE = re.compile(r".+->.+\.(?:source|target)\.cluster\.alias")


def alias_entry(scopes: Scopes, source: str, target: str, side: Side) -> PropertyEntry | None:
    """The entry that overrides the alias of one side of a flow; None where the file's alias is used."""
    cluster = source if side == "source" else target
    keys = (f"{source}->{target}.{side}.cluster.alias", f"{cluster}.alias", f"{side}.cluster.alias")
    return next((scopes.entries[key] for key in keys if key in scopes.entries), None)


def topic_aliases(scopes: Scopes, source: str, target: str) -> TopicAliases:
    """The aliases that a flow's topic names contain."""
    found = (alias_entry(scopes, source, target, side) for side in SIDES)
    names = (
        cluster if entry is None else java_trim(entry.value)
        for entry, cluster in zip(found, (source, target), strict=True)
    )
    return TopicAliases(*map(topic_part, names))


def alias_keys(scopes: Scopes, source: str, target: str) -> TopicAliases:
    """For each side of a flow the key that changes its alias in topic names: its own where set, else the cluster's."""
    own = (f"{source}->{target}.{side}.cluster.alias" for side in SIDES)
    return TopicAliases(
        *(
            key if key in scopes.entries else f"{of}.alias"
            for key, of in zip(own, (source, target), strict=True)
        )
    )


def known_aliases(scopes: Scopes) -> tuple[str, ...]:
    """Every alias that a flow of the file uses in topic names, sorted; blank ones are left out."""
    return tuple(sorted({topic_part(alias) for alias in _aliases_in_force(scopes)} - {""}))


def _aliases_in_force(scopes: Scopes) -> Iterator[str]:
    entries = scopes.entries
    clusters = parse_list(entries["clusters"].value) if "clusters" in entries else ()
    for side in SIDES:
        default = entries.get(f"{side}.cluster.alias")
        for cluster in clusters:
            entry = entries.get(f"{cluster}.alias", default)
            yield cluster if entry is None else java_trim(entry.value)
    yield from (java_trim(entry.value) for key, entry in entries.items() if _OVERRIDE.fullmatch(key))


def why_illegal(alias: str) -> str:
    """Why no topic name can contain an alias; empty where one can. A slash is written as a dash in topic names."""
    found = _ILLEGAL.search(alias)
    if found is not None:
        return f"topic names cannot contain {found[0]!r}: use letters, digits, '.', '_' and '-'"
    longest = LONGEST_TOPIC_NAME - len(_LONGEST_AFFIXES)
    if len(alias) > longest:
        return f"too long with {len(alias)} characters: topic names have room for {longest}"
    return ""


def check_aliases(scopes: Scopes, enabled: Collection[tuple[str, str]], report: Report) -> None:
    """Report aliases that no topic name can contain: an error where an enabled flow uses one, else a warning.

    Args:
        scopes: The file.
        enabled: Source and target of each enabled flow.
        report: Takes the findings.
    """
    used = {alias for flow in enabled for alias in flow}
    clusters = scopes.entries.get("clusters")
    if clusters is not None:
        _check_clusters(clusters, used, report)
    for source, target in enabled:
        overrides = (alias_entry(scopes, source, target, side) for side in SIDES)
        for entry in overrides:
            if entry is not None and (why := why_illegal(java_trim(entry.value))):
                report.refused(entry, f"alias {java_trim(entry.value)!r}: {why}")


def _check_clusters(clusters: PropertyEntry, used: Collection[str], report: Report) -> None:
    written: dict[str, str] = {}
    for alias in parse_list(clusters.value):
        say = report.refused if alias in used else report.warn
        if why := why_illegal(alias):
            commas = "; separate aliases by commas" if " " in alias else ""
            say(clusters, f"alias {alias!r}: {why}{commas}")
        elif (first := written.setdefault(topic_part(alias), alias)) != alias:
            say(
                clusters,
                f"aliases {first} and {alias} are both written {topic_part(alias)} in topic names: rename one",
            )
        elif "/" in alias:
            report.note(
                f"alias {alias} is written {topic_part(alias)} in topic names, which cannot contain a slash"
                " (nothing to do)",
                usual=True,
            )


def warn_of_meeting(enabled: Sequence[FlowSettings], report: Report) -> None:
    """Warn of flows to one target whose naming can give two source topics the same mirror."""
    for one, other in permutations(enabled, 2):
        if one.target.alias == other.target.alias and (example := _meeting_names(one, other)):
            report.note(
                f"{one.name} and {other.name}: topic {example[0]} of {one.source.alias} and topic {example[1]} of"
                f" {other.source.alias} would both be {example[2]} on {one.target.alias}. `mmtool replicate` refuses"
                f" to run both flows while such topics exist: set {other.alias_keys.source} to another alias, or add"
                " the topics of one flow to its topics.exclude"
            )


def warn_of_shared_syncs(enabled: Sequence[FlowSettings], report: Report) -> None:
    """Warn of flows whose offset syncs MM2 writes into one topic, where readers cannot distinguish them."""
    for one, other in combinations([flow for flow in enabled if flow.emit_offset_syncs], 2):
        places = [
            flow.target if flow.offset_syncs_location == "target" else flow.source for flow in (one, other)
        ]
        keys = other.alias_keys
        key = keys.source if other.offset_syncs_location == "target" else keys.target
        if places[0].alias == places[1].alias and one.offset_syncs_topic == other.offset_syncs_topic:
            report.note(
                f"{one.name} and {other.name} write their offset syncs to one topic, {one.offset_syncs_topic} on"
                f" {places[0].alias}. No reader can distinguish the two flows in it: set {key} to another"
                f" alias, or {other.name}.emit.offset-syncs.enabled = false"
            )


def warn_of_left_out(enabled: Iterable[FlowSettings], report: Report) -> None:
    """Warn of flows whose aliases make MM2 and mmtool take source topics for mirrors, which they do not mirror."""
    for flow in enabled:
        policy, aliases = flow.policy, flow.topic_aliases
        if isinstance(policy, DefaultPolicy) and not policy.separator and len(aliases.target) == 1:
            report.note(
                f"{flow.name}: with a blank separator, mmtool and MirrorMaker 2 read each letter of a topic name as"
                f" an alias, so topics with {aliases.target!r} in their names are not mirrored: set"
                f" {flow.alias_keys.target} to a longer alias"
            )
        if isinstance(policy, IdentityPolicy) and aliases.source == aliases.target:
            report.note(
                f"{flow.name}: source and target have the same alias {aliases.source!r} in topic names. With"
                f" IdentityReplicationPolicy every topic then counts as mirrored from {flow.target.alias}, so nothing"
                f" is mirrored (MirrorMaker 2 does the same). Set {flow.alias_keys.target} to another alias"
            )


def _meeting_names(one: FlowSettings, other: FlowSettings) -> tuple[str, str, str] | None:
    """A topic of each flow that would have one mirror, and the mirror's name; None where that cannot happen."""
    if not isinstance(one.policy, DefaultPolicy) or not isinstance(other.policy, DefaultPolicy):
        return None
    shorter, longer = one.remote_topic(""), other.remote_topic("")
    if not shorter or not longer.startswith(shorter):
        return None
    if shorter == longer and one.name > other.name:
        return None  # said the other way round
    between = longer.removeprefix(shorter)
    met = next(_candidates(one, other, between), None)
    return None if met is None else (f"{between}{met}", met, f"{longer}{met}")


def _candidates(one: FlowSettings, other: FlowSettings, between: str) -> Iterator[str]:
    """Topics of ``other`` whose mirror would also be that of ``one``'s topic of the same name after ``between``."""
    named, named_there = one.topics.literals(), other.topics.literals()
    if named is None and named_there is None:
        yield "x"
        return
    found = [
        name.removeprefix(between) for name in named or () if name.startswith(between) and name != between
    ]
    beats = () if between else (HEARTBEATS_TOPIC,)
    for topic in (*found, *(named_there or ()), *beats):
        if one.mirrors_topic(f"{between}{topic}") and other.mirrors_topic(topic):
            yield topic


def may_meet(one: FlowSettings, other: FlowSettings) -> bool:
    """Whether mirrors of two flows must be kept apart: the target is one cluster.

    Flows that both keep names may share topics, unless one of them keeps offsets as well.
    """
    may_share = one.keeps_names and other.keeps_names and one.offsets == other.offsets == "translated"
    return one.target.alias == other.target.alias and not may_share


STRIMZI_GROUP = "mirrormaker2-cluster"
"""The default group of the Connect workers that Strimzi's operator runs for a KafkaMirrorMaker2 resource."""

STRIMZI_POSITIONS = "mirrormaker2-cluster-offsets"
"""The default topic in which Strimzi's Connect workers store source positions."""


def positions_topics(flow: FlowSettings) -> list[str]:
    """Topics on the target in which Connect may store MM2's positions of a flow; the likeliest first.

    The name from the properties file, dedicated MM2's (whose dots follow no separator: MirrorMakerConfig), and
    Strimzi's.
    """
    own = [] if flow.mm2_offsets_topic is None else [flow.mm2_offsets_topic]
    return list(dict.fromkeys([*own, positions_topic(flow.source.alias), STRIMZI_POSITIONS]))


def positions_topic(source_alias: str) -> str:
    """The topic in which dedicated MM2 stores a source's positions by default."""
    return f"mm2-offsets.{topic_part(source_alias)}.internal"


def workers_groups(flow: FlowSettings) -> list[str]:
    """Groups on the target that MM2's workers of a flow may be members of; the likeliest first.

    The name from the properties file, dedicated MM2's (`MirrorMakerConfig.workerConfig`), the same by the target's
    alias, since the file at the other site may give this source that alias, and Strimzi's.
    """
    own = [] if flow.mm2_group is None else [flow.mm2_group]
    names = [f"{flow.source.alias}-mm2", f"{flow.target.alias}-mm2", STRIMZI_GROUP]
    return list(dict.fromkeys([*own, *names]))
