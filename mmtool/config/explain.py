"""Explain each effective value of a flow: its key, and the line of the file that set it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.config.aliases import SIDES, alias_entry
from mmtool.config.clientkeys import SECURITY_KEYS, has_effect, may_show_client_key
from mmtool.config.flows import FlowReader
from mmtool.config.keys import BLACKLISTS, CLUSTER_ID, FLOW_KEYS, OWN_PREFIXES, UNIT_PREFIX
from mmtool.config.redaction import HIDDEN, may_show_spark_key
from mmtool.config.report import Report
from mmtool.config.scopes import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.config.load import LoadedFile
    from mmtool.config.properties import Entry
    from mmtool.config.scopes import Side
    from mmtool.config.settings import FlowSettings

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


def explain(loaded: LoadedFile, flow: FlowSettings) -> list[Explained]:
    """Explain every setting of a flow, in the order of the reference page."""
    explainer = _Explainer(loaded, flow)
    return [*explainer.keys(), *explainer.free(), *explainer.clients("source"), *explainer.clients("target")]


@dataclass(frozen=True, slots=True)
class _Explainer:
    loaded: LoadedFile
    flow: FlowSettings

    def keys(self) -> Iterator[Explained]:
        """The flow's own settings, and the isolation level, whose default differs from MM2's."""
        reader = FlowReader(
            self.loaded.scopes, self.flow.source, self.flow.target, Report(self.loaded.settings.path)
        )
        enabled = self.loaded.scopes.of_flow(self.flow.source.alias, self.flow.target.alias, "enabled")
        yield self._row("enabled", enabled, "false")
        source, target = self.flow.source.alias, self.flow.target.alias
        for side, alias in zip(SIDES, (source, target), strict=True):
            overriding = alias_entry(self.loaded.scopes, source, target, side)
            yield self._row(f"{side}.cluster.alias", overriding, alias)
        for name, key in FLOW_KEYS.items():
            yield self._row(name, reader.find(name), key.default, key.mm2)
        for name in BLACKLISTS:
            entry = self.loaded.scopes.of_flow(self.flow.source.alias, self.flow.target.alias, name)
            if entry is not None:
                yield self._row(name, entry, None)
        isolation = reader.consumer_property("isolation.level")
        yield self._row("consumer.isolation.level", isolation, "read_committed", "read_uncommitted")

    def free(self) -> Iterator[Explained]:
        """The settings whose keys have a free last part; Spark's may be secrets of any name."""
        scopes, flow = self.loaded.scopes, self.flow
        for prefix in (*OWN_PREFIXES, UNIT_PREFIX):
            found = scopes.own_by_prefix(flow.source.alias, flow.target.alias, prefix)
            for name, entry in found.items():
                hidden = prefix == _SPARK and not may_show_spark_key(name)
                yield self._row(prefix + name, entry, None, hidden=hidden)

    def clients(self, side: Side) -> Iterator[Explained]:
        """The client properties of one side; a role's only where it differs from the common one."""
        scopes, flow = self.loaded.scopes, self.flow
        cluster = flow.source if side == "source" else flow.target
        clients = scopes.flow_cluster(flow.source.alias, flow.target.alias, side)
        yield self._row(f"{side}.cluster.id", scopes.entries.get(f"{cluster.alias}.{CLUSTER_ID}"), None)
        for name, entry in clients.common.items():
            if name in SECURITY_KEYS:
                yield self._row(f"{side}.{name}", entry, None, hidden=not may_show_client_key(name))
        for role in ROLES:
            for name, entry in clients.roles[role].items():
                used = name in SECURITY_KEYS or has_effect(role, name)
                if used and clients.common.get(name) != entry:
                    yield self._row(
                        f"{side}.{role}.{name}", entry, None, hidden=not may_show_client_key(name)
                    )

    def _row(
        self,
        key: str,
        entry: Entry | None,
        default: str | None,
        mm2: str | None = None,
        *,
        hidden: bool = False,
    ) -> Explained:
        if entry is None:
            return Explained(self.flow.name, key, default, "default", None, mm2)
        value = HIDDEN if hidden else entry.raw
        return Explained(self.flow.name, key, value, entry.key, entry.line)
