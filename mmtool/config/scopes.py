"""MM2's scopes and their precedence: ``key``, ``ALIAS.key``, ``ALIAS.role.key`` and ``S->T.key``.

Matching is by plain prefix, as in MM2: an alias may contain anything, dots and arrows included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Literal, get_args

from mmtool.config.properties import PropertyEntry

Role = Literal["producer", "consumer", "admin"]
Side = Literal["source", "target"]
ROLES: tuple[Role, ...] = get_args(Role)

Properties = dict[str, "PropertyEntry"]


def is_security_key(name: str) -> bool:
    """Whether a key is one of MM2's client-security keys, which the global scope passes to every client."""
    return name in {"bootstrap.servers", "security.protocol"} or name.startswith(("ssl.", "sasl."))


def filled(properties: Mapping[str, PropertyEntry], name: str) -> PropertyEntry | None:
    """An entry with a value; an empty one counts as absent, as Java's clients treat it."""
    entry = properties.get(name)
    return entry if entry is not None and entry.value.strip() else None


def scope_of(entry: PropertyEntry) -> str:
    """The scope of a client property, which precedes its name: ``A.`` or ``S->T.source.consumer.``."""
    starts = [entry.key.find(word) for word in ("security.protocol", "ssl.", "sasl.")]
    return entry.key[: max(0, *starts)]


def sibling(entry: PropertyEntry, name: str) -> str:
    """The key of another client property in the same scope."""
    return scope_of(entry) + name


def stripped(entries: Mapping[str, PropertyEntry], prefix: str) -> Properties:
    """The entries under a prefix, with the prefix removed from their keys."""
    return {key[len(prefix) :]: entry for key, entry in entries.items() if key.startswith(prefix)}


def part_of_key(key: str, aliases: Iterable[str]) -> tuple[str] | tuple[str, str] | None:
    """The one flow or cluster that needs a key, by the longest prefix; None where the whole file does.

    None for a global key, and for ``S->T.enabled``: which flows run is a matter of the whole file.
    """
    known = tuple(aliases)
    prefixes: dict[str, tuple[str] | tuple[str, str]] = {f"{alias}.": (alias,) for alias in known}
    prefixes |= {f"{source}->{target}.": (source, target) for source, target in permutations(known, 2)}
    held = [prefix for prefix in prefixes if key.startswith(prefix)]
    longest = max(held, key=len, default="")
    return None if key == f"{longest}enabled" else prefixes.get(longest)


@dataclass(frozen=True, slots=True)
class Clients:
    """Client properties of one cluster, common and per role, as entries with their lines."""

    common: Properties
    roles: dict[Role, Properties]


@dataclass(frozen=True, slots=True)
class Scopes:
    """All entries of a file, by scope."""

    entries: Mapping[str, PropertyEntry]

    def cluster(self, alias: str) -> Clients:
        """A cluster's client properties, as MM2 expands them: ``A.producer.k`` over ``A.k`` over global ``k``."""
        own = stripped(self.entries, f"{alias}.")
        common = {k: e for k, e in self.entries.items() if is_security_key(k)}
        common |= {k: e for k, e in own.items() if is_security_key(k)}
        return Clients(common, {role: common | stripped(own, f"{role}.") for role in ROLES})

    def flow_cluster(self, source: str, target: str, side: Side) -> Clients:
        """The client properties of one side of a flow: as `cluster`, with ``S->T.`` keys where MM2 puts them.

        Low to high: ``<side>.cluster.*`` (security keys only), ``S->T.<role>.*``, ``<side>.<role>.*``, and
        ``S->T.producer.override.*`` for the data producer, which ``S->T.producer.*`` does not reach.
        """
        cluster = self.cluster(source if side == "source" else target)
        flow = stripped(self.entries, f"{source}->{target}.")
        common = cluster.common | {
            k: e for k, e in stripped(flow, f"{side}.cluster.").items() if is_security_key(k)
        }
        roles = {role: common | _role_layers(cluster, flow, side, role) for role in ROLES}
        return Clients(common, roles)

    def of_flow(
        self, source: str, target: str, name: str, *, flow_only: bool = False
    ) -> PropertyEntry | None:
        """The entry of a flow's key: ``S->T.k``, else global ``k``."""
        entry = self.entries.get(f"{source}->{target}.{name}")
        return entry if entry is not None or flow_only else self.entries.get(name)

    def of_flow_own(self, source: str, target: str, name: str) -> PropertyEntry | None:
        """The entry of one of mmtool's keys: ``S->T.k``, else ``T.k`` (as MM2's worker keys), ``S.k``, global ``k``."""
        scopes = (f"{source}->{target}.", f"{target}.", f"{source}.", "")
        return next((self.entries[scope + name] for scope in scopes if scope + name in self.entries), None)

    def own_by_prefix(self, source: str, target: str, prefix: str) -> Properties:
        """The entries of mmtool's keys with a free last part, merged over the scopes of `of_flow_own`."""
        found: Properties = {}
        for scope in ("", f"{source}.", f"{target}.", f"{source}->{target}."):
            found |= stripped(self.entries, scope + prefix)
        return found


def _role_layers(cluster: Clients, flow: Properties, side: Side, role: Role) -> Properties:
    override = stripped(flow, "producer.override.")
    plain = {k: e for k, e in stripped(flow, f"{role}.").items() if not k.startswith("override.")}
    is_data_producer = side == "target" and role == "producer"
    low, high = ({}, override) if is_data_producer else (plain, {})
    return low | cluster.roles[role] | stripped(flow, f"{side}.{role}.") | high
