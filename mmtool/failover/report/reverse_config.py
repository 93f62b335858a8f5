"""The properties of the reverse flow, which mirrors the target's new records back to the source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mmtool.translation.names import DefaultPolicy, IdentityPolicy, RenamePolicy, TopicAliases

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.config import FlowSettings

_PLAIN = re.compile(r"[^\w-]", re.ASCII)
_KAFKA = "org.apache.kafka.connect.mirror."


def reverse_flow(settings: FlowSettings, topics: Iterable[str], groups: Iterable[str]) -> list[str]:
    """Lines for the properties file that configure the reverse flow; empty if the file has that flow already.

    After the move, producers write to the topic's own name on the target. With prefixed names that is another topic
    than the mirror; with identical names it is the mirror, and each record's origin decides whether the reverse flow
    copies it.

    Args:
        settings: The flow along which the groups moved.
        topics: The topics whose producers moved, by their names on the source.
        groups: The groups that moved.
    """
    if settings.way_back is not None:
        return []
    name = f"{settings.target.alias}->{settings.source.alias}"
    keys = {
        "enabled": "true",
        "topics": ", ".join(map(_pattern, sorted(topics))),
        "groups": ", ".join(map(_pattern, sorted(groups))),
        **_naming(settings),
        **_aliases(settings),
        "replication.factor": str(settings.replication_factor),
    }
    return [f"{name}.{key} = {value}" for key, value in keys.items()]


def _pattern(name: str) -> str:
    """A regular expression that matches one name, without backslashes and commas, as a properties file needs it."""
    return _PLAIN.sub(lambda found: "[.]" if found[0] == "." else ".", name)


def _aliases(settings: FlowSettings) -> dict[str, str]:
    """Properties that give the reverse flow the aliases of this flow; empty if they are the file's aliases."""
    aliases = settings.topic_aliases
    if aliases == TopicAliases(settings.source.alias, settings.target.alias):
        return {}
    return {"source.cluster.alias": aliases.target, "target.cluster.alias": aliases.source}


def _naming(settings: FlowSettings) -> dict[str, str]:
    match settings.policy:
        case IdentityPolicy():
            return {"replication.policy.class": f"{_KAFKA}IdentityReplicationPolicy"}
        case RenamePolicy(before=before, after=after):
            return {"mmtool.topic.rename.format": f"{before}${{topic}}{after}"}
        case DefaultPolicy(separator=separator):
            return {"replication.policy.separator": separator} if separator != "." else {}
