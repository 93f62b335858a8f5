"""Explain each effective value of a flow: its key, and the line of the file that set it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mmtool.config.aliases import SIDES, alias_entry
from mmtool.config.clientkeys import SECURITY_KEYS, has_effect, may_show_client_key
from mmtool.config.flows import FlowReader
from mmtool.config.keys import BLACKLISTS, CLUSTER_ID, FLOW_KEYS, OWN_PREFIXES, UNIT_PREFIX
from mmtool.config.load import LoadedFile
from mmtool.config.properties import PropertyEntry
from mmtool.config.redaction import HIDDEN, may_show_spark_key
from mmtool.config.report import Report
from mmtool.config.scopes import ROLES, Side
from mmtool.config.settings import FlowSettings

_TRANSFORM = "mmtool.transform."
_SHOWN_SETTINGS = ("paths", "mask", "key.pattern", "header", "tombstones")
"""Settings of the ready-made functions that are no secrets; a user's own may be."""
_SPARK = "mmtool.spark.conf."


@dataclass(frozen=True, slots=True)
class Explained:
    """One effective value.

    Attributes:
        flow: ``A->B``.
        key: The key without its scope; client settings start with ``source.`` or ``target.``.
        value: As in the file, placeholders unresolved, secrets as ``[hidden]``; None when there is none.
        origin: The deciding key as written, or ``default``.
        line: Of that key; None for a default.
        mm2_default: MM2's default where mmtool's default is in effect and differs; else None.
    """

    flow: str
    key: str
    value: str | None
    origin: str
    line: int | None
    mm2_default: str | None = None


def explain(loaded: LoadedFile, flow: FlowSettings) -> Iterator[Explained]:
    """Explain every setting of a flow, in the order of the reference page."""
    scopes, source, target = loaded.scopes, flow.source.alias, flow.target.alias
    reader = FlowReader(scopes, flow.source, flow.target, Report(loaded.settings.path))
    yield _row(flow, "enabled", scopes.of_flow(source, target, "enabled"), "false")
    for side, alias in zip(SIDES, (source, target), strict=True):
        yield _row(flow, f"{side}.cluster.alias", alias_entry(scopes, source, target, side), alias)
    for name, key in FLOW_KEYS.items():
        yield _row(flow, name, reader.find(name), key.default, key.mm2)
    for name in BLACKLISTS:
        if (entry := scopes.of_flow(source, target, name)) is not None:
            yield _row(flow, name, entry)
    isolation = reader.consumer_property("isolation.level")
    yield _row(flow, "consumer.isolation.level", isolation, "read_committed", "read_uncommitted")
    for prefix in (*OWN_PREFIXES, UNIT_PREFIX):
        for name, entry in scopes.own_by_prefix(source, target, prefix).items():
            if prefix + name in FLOW_KEYS:
                continue
            # Spark's may be secrets of any name
            hidden = (prefix == _SPARK and not may_show_spark_key(name)) or (
                prefix == _TRANSFORM and name not in _SHOWN_SETTINGS
            )
            yield _row(flow, prefix + name, entry, hidden=hidden)
    for side in SIDES:
        yield from _of_clients(loaded, flow, side)


def _of_clients(loaded: LoadedFile, flow: FlowSettings, side: Side) -> Iterator[Explained]:
    """The client properties of one side; a role's only where it differs from the common one."""
    cluster = flow.source if side == "source" else flow.target
    clients = loaded.scopes.flow_cluster(flow.source.alias, flow.target.alias, side)
    yield _row(flow, f"{side}.cluster.id", loaded.scopes.entries.get(f"{cluster.alias}.{CLUSTER_ID}"))
    for name, entry in clients.common.items():
        if name in SECURITY_KEYS:
            yield _row(flow, f"{side}.{name}", entry, hidden=not may_show_client_key(name))
    for role in ROLES:
        for name, entry in clients.roles[role].items():
            used = name in SECURITY_KEYS or has_effect(role, name)
            if used and clients.common.get(name) != entry:
                yield _row(flow, f"{side}.{role}.{name}", entry, hidden=not may_show_client_key(name))


def _row(
    flow: FlowSettings,
    key: str,
    entry: PropertyEntry | None,
    default: str | None = None,
    mm2: str | None = None,
    *,
    hidden: bool = False,
) -> Explained:
    if entry is None:
        return Explained(flow.name, key, default, "default", None, mm2)
    return Explained(flow.name, key, HIDDEN if hidden else entry.raw, entry.key, entry.line)
