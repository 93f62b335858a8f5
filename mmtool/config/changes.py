"""Compare a running flow's settings with a changed file: what applies at once, and what at the next start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mmtool.config.credentials import Security
from mmtool.config.keys import FLOW_KEYS, Applies, Key
from mmtool.config.names import NameFilter
from mmtool.config.scopes import ROLES
from mmtool.config.settings import ClusterSettings, FlowSettings

_AT_ONCE: tuple[Applies, ...] = ("background", "workers", "driver")
_OF_CREDENTIALS: tuple[Applies, ...] = ("background", "workers")
"""Who takes over new credentials of a cluster."""
_POLICY = "replication.policy.* or mmtool.topic.rename.format"
_WITHOUT_ROW: Mapping[str, str] = {
    "topic_aliases": "source.cluster.alias, target.cluster.alias",
    "isolation": "consumer.isolation.level",
    "spark_conf": "mmtool.spark.conf.*",
}
"""Settings outside the table of keys that apply at the next start, with their keys."""

_CLUSTER: Mapping[str, str] = {
    "bootstrap_servers": "bootstrap.servers",
    "role_bootstrap_servers": "bootstrap.servers",
    "expected_cluster_id": "mmtool.cluster.id",
    "security": "security.protocol",
    "role_security": "security.protocol",
    "producer": "producer.*",
    "consumer": "consumer.*",
    "admin": "admin.*",
}


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between a running flow and its new settings. Keys only, no values: they may be secrets.

    Attributes:
        settings: The running flow's, with every change that applies at once.
        concerned: Who takes over these changes.
        applied: Their keys.
        waiting: Keys that take effect at the next start.
        fixed: Keys that a flow keeps from its first start.
    """

    settings: FlowSettings
    concerned: frozenset[Applies]
    applied: tuple[str, ...]
    waiting: tuple[str, ...]
    fixed: tuple[str, ...]


def compare(running: FlowSettings, new: FlowSettings) -> Changes:
    """Compare the settings of a running flow with ``new``: what applies at once, at the next start, or never."""
    changed = [key for key in FLOW_KEYS.values() if _value(running, key) != _value(new, key)]
    live = [key for key in changed if key.applies in _AT_ONCE]
    sides = [("source", running.source, new.source), ("target", running.target, new.target)]
    renewed = {
        side: before.model_copy(update={"security": to.security, "role_security": to.role_security})
        for side, before, to in sides
        if _have_changed(before, to)
    }
    after = running.model_copy(update={**{key.field: getattr(new, key.field) for key in live}, **renewed})
    credentials = (
        key for side, before, _ in sides if side in renewed for key in _credentials(before, renewed[side])
    )
    waiting = (
        _POLICY if key.field == "policy" else key.name for key in changed if key.applies == "next start"
    )
    return Changes(
        settings=after,
        concerned=frozenset(key.applies for key in live).union(_OF_CREDENTIALS if renewed else ()),
        applied=(*(key.name for key in live), *credentials),
        waiting=(
            *dict.fromkeys(waiting),
            *_differing(_WITHOUT_ROW, running, new),
            *_of_clusters(after, new),
        ),
        fixed=tuple(key.name for key in changed if key.applies == "first start"),
    )


def _value(flow: FlowSettings, key: Key) -> object:
    """What a key sets: a filter has two keys, for its include and its exclude."""
    value = getattr(flow, key.field)
    if isinstance(value, NameFilter):
        return value.exclude if key.name.endswith(".exclude") else value.include
    return value


def _have_changed(running: ClusterSettings, new: ClusterSettings) -> bool:
    """Whether the credentials differ, and the protocols do not: another protocol needs another listener."""
    before, after = _securities(running), _securities(new)
    protocols = [{role: of.protocol for role, of in found.items()} for found in (before, after)]
    return before != after and protocols[0] == protocols[1]


def _securities(cluster: ClusterSettings) -> dict[str, Security]:
    return {"": cluster.security, **{role: cluster.security_for(role) for role in ROLES}}


def _credentials(before: ClusterSettings, after: ClusterSettings) -> Iterator[str]:
    """The groups of keys by which the credentials of a cluster have changed, as ``A.sasl.*``."""
    pairs = list(zip(_securities(before).values(), _securities(after).values(), strict=True))
    if any(old.sasl != new.sasl for old, new in pairs):
        yield f"{after.alias}.sasl.*"
    if any(old.model_copy(update={"sasl": new.sasl}) != new for old, new in pairs):
        yield f"{after.alias}.ssl.*"


def _differing(keys: Mapping[str, str], before: Any, after: Any) -> Iterator[str]:
    return (key for name, key in keys.items() if getattr(before, name) != getattr(after, name))


def _of_clusters(running: FlowSettings, new: FlowSettings) -> Iterator[str]:
    for before, after in ((running.source, new.source), (running.target, new.target)):
        for key in dict.fromkeys(_differing(_CLUSTER, before, after)):
            yield f"{before.alias}.{key}"
