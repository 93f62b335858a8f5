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
    """Lines for the same properties file; none where it has the way back already.

    Producers write to a topic's own name on the target as well. Under prefixed names that is another topic than the
    mirrored one, under identical names the same: there each record's origin tells what is carried.

    Args:
        settings: The flow that groups were moved along.
        topics: That producers moved with, as the source calls them.
        groups: That moved.
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
    """A regular expression for one name, without a backslash, which a properties file would eat, or a comma."""
    return _PLAIN.sub(lambda found: "[.]" if found[0] == "." else ".", name)


def _aliases(settings: FlowSettings) -> dict[str, str]:
    """The overrides by which the reverse flow sees what came along the flow; none where the file's aliases hold."""
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
