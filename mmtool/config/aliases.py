"""Aliases: which ones name a flow's topics, and which ones no topic name can hold.

The file's aliases name clusters, mmtool's own topics and MM2's worker topics. MM2's ``source.cluster.alias`` and
``target.cluster.alias`` name everything else, and may be overridden (`MirrorMakerConfig.connectorBaseConfig`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mmtool.config.values import parse_list
from mmtool.translation.naming import TopicAliases

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from mmtool.config.properties import Entry
    from mmtool.config.report import Report
    from mmtool.config.scopes import Scopes, Side

ALIAS_KEYS = ("source.cluster.alias", "target.cluster.alias")
"""Override the file's aliases in topic names, globally or under ``S->T.``; ``ALIAS.alias`` does so for one cluster."""

SIDES: tuple[Side, ...] = ("source", "target")
LONGEST_TOPIC_NAME = 249
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._/-]")
_LONGEST_AFFIXES = "mmtool-offset-runs..internal"
_OVERRIDE = re.compile(r".+->.+\.(?:source|target)\.cluster\.alias")


def alias_entry(scopes: Scopes, source: str, target: str, side: Side) -> Entry | None:
    """The entry that overrides the alias of one side of a flow; None where the file's alias holds."""
    cluster = source if side == "source" else target
    keys = (f"{source}->{target}.{side}.cluster.alias", f"{cluster}.alias", f"{side}.cluster.alias")
    return next((scopes.entries[key] for key in keys if key in scopes.entries), None)


def topic_aliases(scopes: Scopes, source: str, target: str) -> TopicAliases:
    """The aliases that name the topics of a flow."""
    found = (alias_entry(scopes, source, target, side) for side in SIDES)
    names = (
        cluster if entry is None else entry.value
        for entry, cluster in zip(found, (source, target), strict=True)
    )
    return TopicAliases(*map(topic_part, names))


def topic_part(alias: str) -> str:
    """An alias as topic names hold it: they have no slash."""
    return alias.replace("/", "-")


def known_aliases(scopes: Scopes) -> tuple[str, ...]:
    """Every alias by which flows of the file name topics, sorted; blank ones are left out."""
    return tuple(sorted({topic_part(alias) for alias in _aliases_in_force(scopes)} - {""}))


def _aliases_in_force(scopes: Scopes) -> Iterator[str]:
    entries = scopes.entries
    clusters = parse_list(entries["clusters"].value) if "clusters" in entries else ()
    for side in SIDES:
        default = entries.get(f"{side}.cluster.alias")
        for cluster in clusters:
            entry = entries.get(f"{cluster}.alias", default)
            yield cluster if entry is None else entry.value
    yield from (entry.value for key, entry in entries.items() if _OVERRIDE.fullmatch(key))


def why_illegal(alias: str) -> str:
    """Why no topic name can hold an alias; empty where one can. A slash is written as a dash there."""
    found = _ILLEGAL.search(alias)
    if found is not None:
        return f"no topic name can hold {found[0]!r}: use letters, digits, '.', '_' and '-'"
    longest = LONGEST_TOPIC_NAME - len(_LONGEST_AFFIXES)
    if len(alias) > longest:
        return f"has {len(alias)} characters, and a topic name holds an alias of at most {longest}"
    return ""


def check_aliases(scopes: Scopes, enabled: Collection[tuple[str, str]], report: Report) -> None:
    """Report aliases that no topic name can hold: an error where an enabled flow uses one, else a warning.

    Args:
        scopes: The file.
        enabled: Source and target of each enabled flow.
        report: Where findings go.
    """
    used = {alias for flow in enabled for alias in flow}
    clusters = scopes.entries.get("clusters")
    for alias in () if clusters is None else parse_list(clusters.value):
        if clusters is not None and (why := why_illegal(alias)):
            say = report.refused if alias in used else report.warn
            say(clusters, f"alias {alias!r}: {why}")
    for source, target in enabled:
        overrides = (alias_entry(scopes, source, target, side) for side in SIDES)
        for entry in overrides:
            if entry is not None and (why := why_illegal(entry.value)):
                report.refused(entry, f"alias {entry.value!r}: {why}")
