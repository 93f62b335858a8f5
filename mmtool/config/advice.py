"""Warn of keys in the properties file that are unknown, misspelt, misplaced, removed or without effect."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import permutations

from mmtool.config.aliases import ALIAS_KEYS
from mmtool.config.clientkeys import (
    CLIENT_KEYS,
    SECURITY_KEYS,
    UNUSED_SECURITY_KEYS,
    client_keys,
    has_effect,
    librdkafka_value,
)
from mmtool.config.keys import BLACKLISTS, CLUSTER_ID, FLOW_KEYS, OWN_PREFIXES, UNIT_PREFIX
from mmtool.config.properties import PropertyEntry
from mmtool.config.report import Report
from mmtool.config.scopes import ROLES, Role, Scopes, part_of_key
from mmtool.config.settings import FlowSettings
from mmtool.config.values import java_parse_boolean
from mmtool.plain_text import did_you_mean, nearest

_REMOVED = frozenset(
    {"use.incremental.alter.configs", "add.source.alias.to.metrics", "auto.include.jmx.reporter"}
)
"""Keys that Kafka 4.0 removed, without another key in their place."""

_NEVER_KEYS = {"topics.whitelist": "topics", "groups.whitelist": "groups"}
_UNREAD = _REMOVED | _NEVER_KEYS.keys()
"""Keys that no release of MirrorMaker 2 reads, though its blacklists suggest them; each with the key that it reads."""

_CONNECT = re.compile(
    r"name|connector\.class|tasks\.max(\.enforce)?|config\.action\.reload|group\.id|client\.id"
    r"|(heartbeat|rebalance)\.\w+\.ms|session\.timeout\.ms|scheduled\.rebalance\.max\.delay\.ms|connect\.protocol"
    r"|plugin\.\w+|connector\.client\.config\.override\.policy|exactly\.once\.(source\.)?support"
    r"|transaction\.boundary(\.interval\.ms)?|offsets\.storage\.topic|dedicated\.mode\.enable\.internal\.rest"
    r"|metric\.(reporters|names\.formats)|consumer\.poll\.timeout\.ms|forwarding\.admin\.class"
    r"|(request\.timeout|retry\.backoff)\.ms|topic\.tracking\..*|response\.http\.headers\.config"
    r"|(key|value|header)\.converter(\..*)?|transforms(\..*)?|predicates(\..*)?"
    r"|(offset|config|status)\.storage\..*|offset\.flush\..*|errors\..*|topic\.creation\..*|worker\..*|task\..*"
    r"|rest\..*|(admin\.)?listeners(\..*)?|access\.control\..*|inter\.worker\..*|internal\.\w+\.converter.*"
    r"|metrics\..*|(topic|group|config\.property)\.filter\.class|group\.mirroring\.policy\.class"
)
"""Keys that only Kafka Connect or its classes read."""

_NOT_NEEDED = "not needed, because mmtool has no Connect workers"
_COPIED_WHOLE = (
    "client settings without effect, because mmtool copies whole record batches without a Kafka consumer "
    "or producer (they may stay in the file)"
)
_JAVA_ONLY = "settings of Java's TLS and SASL, without effect in mmtool (they may stay in the file)"
_WITHOUT_ROLE = (
    "without effect, in MirrorMaker 2 as well, because client settings under an alias need the prefix "
    "`ALIAS.consumer.`, `ALIAS.producer.` or `ALIAS.admin.` (security settings do not)"
)

_FILTERS = {
    "topic.filter.class": ("DefaultTopicFilter", "`topics` and `topics.exclude`"),
    "group.filter.class": ("DefaultGroupFilter", "`groups` and `groups.exclude`"),
    "config.property.filter.class": ("DefaultConfigPropertyFilter", "`config.properties.exclude`"),
}
"""The class that a key has by default, whose work mmtool does itself, and the keys that it reads."""
_TRANSFORMS = ("transforms", "predicates")
_GROUP_POLICY = "group.mirroring.policy.class"  # KIP-1378
_WORKERS = ("group.id", "offset.storage.topic")
_ARROW = re.compile(r"(.+?)->(.+)")
_UNIT = re.compile(r".+\.(topics|groups)")


def has_meaning(key: str, aliases: tuple[str, ...]) -> bool:
    """Whether mmtool reads a key's value; the values of some are read only to refuse them."""
    return any(
        _is_known(scope, name, prefix) or name.partition(".")[0] in _TRANSFORMS or name in _FILTERS
        for scope, name, prefix in _readings(key, aliases)
    )


def is_connect_key(name: str) -> bool:
    """Whether only Kafka Connect or its classes read a key, here without its scope."""
    return _CONNECT.fullmatch(name) is not None


def advise(scopes: Scopes, aliases: tuple[str, ...], report: Report) -> None:
    """Report a warning for every key without effect, and a problem for keys that must not be ignored."""
    adviser = _Adviser(scopes, aliases, report)
    for entry in scopes.entries.values():
        if not report.is_settled(entry):
            adviser.look_at(entry)
    # one line for each reason: a usual file has many of these keys, and none is a mistake
    for reason, keys in adviser.harmless.items():
        if keys:
            report.note(
                f"{reason}: {', '.join(keys)}",
                usual=reason == _NOT_NEEDED,
                misplaced=reason == _WITHOUT_ROLE,
                keys=keys,
            )


_OF_OWN_MIRRORS = (
    "mmtool.start",
    "mmtool.on.oversize",
    "mmtool.on.data.loss",
    "mmtool.on.topic.recreated",
    "mmtool.throttle.bytes.per.second",
    "mmtool.prefill.max.offsets",
)
_PROMOTE = "mmtool.hook.promote"


def warn_of_mirrors(scopes: Scopes, enabled: Collection[FlowSettings], report: Report) -> None:
    """Warn of keys that only mirrors of another system need, or only mmtool's own, and no such flow is enabled."""
    for name in (*_OF_OWN_MIRRORS, _PROMOTE):
        needed, why = ("external", "is not") if name == _PROMOTE else ("own", "is")
        used: dict[PropertyEntry, set[str]] = {}
        for flow in enabled:
            entry = scopes.of_flow_own(flow.source.alias, flow.target.alias, name)
            if entry is not None:
                used.setdefault(entry, set()).add(flow.mirror)
        for entry, mirrors in used.items():
            if needed not in mirrors:
                report.warn(entry, f"has no effect where mmtool.mirror {why} external")


@dataclass(frozen=True, slots=True)
class _Adviser:
    scopes: Scopes
    aliases: tuple[str, ...]
    report: Report
    harmless: dict[str, list[str]] = field(
        default_factory=lambda: {r: [] for r in (_NOT_NEEDED, _COPIED_WHOLE, _JAVA_ONLY, _WITHOUT_ROLE)}
    )

    def look_at(self, entry: PropertyEntry) -> None:
        """Report what is wrong with one key; nothing where one reading of it is known.

        An alias may look like the start of another key, so a key can have several readings.
        """
        readings = list(_readings(entry.key, self.aliases))
        part = part_of_key(entry.key, self.aliases)
        of_part = self.report if part is None else self.report.of(part)
        if any(_is_known(scope, name, prefix) for scope, name, prefix in readings):
            self._check_client_key(entry, readings, of_part)
            return
        if any(map(is_connect_key, (name for _, name, _ in readings))):
            self._check_connect_key(entry, readings, of_part)
            return
        misplaced = self._misplaced(readings)
        if misplaced is None and self._lacks_role(entry.key, readings):
            self.harmless[_WITHOUT_ROLE].append(entry.key)
            return
        wrong_scope = misplaced is not None and not any(name in _UNREAD for _, name, _ in readings)
        self.report.warn(
            entry,
            misplaced or self._unknown(entry.key),
            misplaced=wrong_scope or (misplaced is None and self._is_no_pair(entry.key)),
        )

    def _check_client_key(
        self, entry: PropertyEntry, readings: list[tuple[str, str, str]], report: Report
    ) -> None:
        """Report a client property's value that Java's clients refuse, that has no effect, or that mmtool changes."""
        for scope, name, _ in readings:
            role, of_client = _client_property(scope, name)
            if name in UNUSED_SECURITY_KEYS or of_client in UNUSED_SECURITY_KEYS:
                self.harmless[_JAVA_ONLY].append(entry.key)
                return
            if role is None:
                continue
            if of_client not in CLIENT_KEYS:
                return
            # MM2 takes security settings from `source.cluster.`, and no others
            if ".cluster." not in name.removesuffix(of_client):
                try:
                    CLIENT_KEYS[of_client].check(entry.value)
                except ValueError as error:
                    report.expected(entry, str(error))
                    return
                if has_effect(role, of_client):
                    passed = librdkafka_value(of_client, entry.value)
                    if passed is not None and passed.note:
                        report.adjusted(entry, passed.note)
                    return
            self.harmless[_COPIED_WHOLE].append(entry.key)
            return

    def _check_connect_key(
        self, entry: PropertyEntry, readings: list[tuple[str, str, str]], report: Report
    ) -> None:
        """Report a Kafka Connect key: not needed, or refused where it would change what is copied."""
        name = next(name for _, name, _ in readings if is_connect_key(name))
        known_class, keys = _FILTERS.get(name, ("", ""))
        expected = f"org.apache.kafka.connect.mirror.{known_class}"
        # by these names mmtool finds a running MM2
        of_workers = ("offset.storage.topic", *(f"{alias}.{of}" for alias in self.aliases for of in _WORKERS))
        if name.partition(".")[0] in _TRANSFORMS:
            return  # they are read with the flow's other keys
        if name == _GROUP_POLICY:
            report.refused(
                entry,
                "mmtool runs no Java class: list groups with another name on the target in a CSV file (source name,"
                " target name), and name it with mmtool.group.map",
            )
        elif known_class and entry.value.strip() != expected:
            report.expected(entry, f"{expected}, because mmtool runs no other Java class; filter with {keys}")
        elif entry.key not in of_workers:
            self.harmless[_NOT_NEEDED].append(entry.key)

    def _misplaced(self, readings: list[tuple[str, str, str]]) -> str | None:
        """A sentence for a name of another scope, of an earlier release or of no release; None for other names."""
        for scope, name, prefix in readings:
            if name in _UNREAD:
                return self._unread(scope, name, prefix)
            if name == CLUSTER_ID:
                alias = self.aliases[0] if self.aliases else "ALIAS"
                return (
                    f"has no effect in this scope: the id belongs to one cluster; write {alias}.{CLUSTER_ID}"
                )
            if scope == "alias" and (name in FLOW_KEYS or name in BLACKLISTS or name == "enabled"):
                right = BLACKLISTS.get(name, name)
                flow = self._flow_name(prefix.removesuffix("."))
                for_all = (
                    ""
                    if right in FLOW_KEYS and FLOW_KEYS[right].flow_only
                    else f", or `{right}` for all flows"
                )
                return f"has no effect under an alias, as in MirrorMaker 2: write `{flow}.{right}`{for_all}"
            if scope == "global" and name in FLOW_KEYS:
                return (
                    "has no effect without the prefix of a flow, as in MirrorMaker 2: write"
                    f" `{self._flow_name()}.{name}`"
                )
            if scope == "global" and name.partition(".")[0] in ROLES:
                return self._without_cluster(name)
        return None

    def _without_cluster(self, name: str) -> str:
        """The sentence for a client property without the prefix of a cluster."""
        role, _, of_client = name.partition(".")
        if role not in ROLES or not has_effect(role, of_client):
            return (
                "has no effect: MirrorMaker 2 reads it only with the prefix of a cluster, and mmtool does not use it at"
                " all; remove it"
            )
        return (
            "has no effect without the prefix of a cluster, as in MirrorMaker 2: write"
            f" `{self._flow_name().partition('->')[0]}.{name}`"
        )

    def _unread(self, scope: str, name: str, prefix: str) -> str:
        """The sentence for a key that no present release of MirrorMaker 2 reads in any scope."""
        if name in _REMOVED:
            return "is no longer read since Kafka 4.0 and has no effect: remove it"
        start = f"{self._flow_name(prefix.removesuffix('.'))}." if scope == "alias" else prefix
        return f"is not a key of MirrorMaker 2 and has no effect: rename it to {start}{_NEVER_KEYS[name]}"

    def _lacks_role(self, key: str, readings: list[tuple[str, str, str]]) -> bool:
        """Whether the key is under an alias, lacks a client role, and is no misspelling of a known key."""
        names = [name for scope, name, _ in readings if scope == "alias"]
        if any(name in CLIENT_KEYS for name in names):
            return True
        if not names:
            return False
        close = nearest(key, self._known_keys()) or ""
        if close and any(nearest(name.partition(".")[0], ROLES) for name in names):
            return False
        of_clients = tuple(f"{alias}.{role}." for alias in self.aliases for role in ROLES)
        of_aliases = tuple(f"{alias}." for alias in self.aliases)
        return not close.startswith(of_aliases) or close.startswith(of_clients)

    def _is_no_pair(self, key: str) -> bool:
        """Whether the key is a flow's key for clusters that the file does not name."""
        arrow = _ARROW.fullmatch(key)
        of_pair = any(
            key.startswith(f"{source}->{target}.") for source, target in permutations(self.aliases, 2)
        )
        return (
            arrow is not None
            and not of_pair
            and any(
                name == "enabled" or name in FLOW_KEYS or name in BLACKLISTS for name in _ends(arrow.group(2))
            )
        )

    def _unknown(self, key: str) -> str:
        if self._is_no_pair(key):
            return (
                f"has no effect: the key names no pair of the clusters {', '.join(self.aliases)}; correct its aliases,"
                " or add the missing one to `clusters`"
            )
        return "is unknown and has no effect" + did_you_mean([nearest(key, self._known_keys())])

    def _known_keys(self) -> Iterator[str]:
        yield from ("clusters", *FLOW_KEYS, *SECURITY_KEYS)
        for source, target in permutations(self.aliases, 2):
            yield from (f"{source}->{target}.{name}" for name in ("enabled", *FLOW_KEYS))
        for alias in self.aliases:
            own = (name for name, key in FLOW_KEYS.items() if key.is_own)
            yield from (f"{alias}.{name}" for name in (CLUSTER_ID, *SECURITY_KEYS, *own))
            for role in ROLES:
                yield from (f"{alias}.{role}.{name}" for name in (*SECURITY_KEYS, *client_keys(role)))

    def _flow_name(self, alias: str = "") -> str:
        """The name of a flow, of one cluster if that is given, to suggest in a message; if possible an enabled one."""
        pairs = [pair for pair in permutations(self.aliases, 2) if not alias or alias in pair]
        for source, target in pairs:
            entry = self.scopes.entries.get(f"{source}->{target}.enabled")
            if entry is not None and java_parse_boolean(entry.value.strip()):
                return f"{source}->{target}"
        return "->".join(pairs[0]) if pairs else "S->T"


def _readings(key: str, aliases: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Every reading of a key as (scope, name, prefix), longest prefix first."""
    flows = [(f"{source}->{target}.", "flow") for source, target in permutations(aliases, 2)]
    prefixes = flows + [(f"{alias}.", "alias") for alias in aliases]
    for prefix, scope in sorted(prefixes, key=lambda pair: -len(pair[0])):
        if key.startswith(prefix):
            yield scope, key[len(prefix) :], prefix
    yield "global", key, ""


def _ends(text: str) -> Iterator[str]:
    """The rest of a key after each of its dots: an unknown alias may have dots, so that its end is unknown."""
    parts = text.split(".")
    return (".".join(parts[start:]) for start in range(1, len(parts)))


def _is_known(scope: str, name: str, prefix: str) -> bool:
    if _is_own(name) or _client_property(scope, name)[0] is not None:
        return True
    if name in SECURITY_KEYS or name in UNUSED_SECURITY_KEYS:
        return scope in {"global", "alias"}
    if scope == "alias":
        return name in {CLUSTER_ID, "alias"}
    if name == "enabled" or name in BLACKLISTS or name in ALIAS_KEYS:
        return True
    if name in FLOW_KEYS and not (scope == "global" and FLOW_KEYS[name].flow_only):
        return True
    return not prefix and (name == "clusters" or name.startswith("config.providers"))


def _is_own(name: str) -> bool:
    if name in FLOW_KEYS and FLOW_KEYS[name].is_own:
        return True
    if any(name.startswith(prefix) and name != prefix for prefix in OWN_PREFIXES):
        return True
    return name.startswith(UNIT_PREFIX) and _UNIT.fullmatch(name[len(UNIT_PREFIX) :]) is not None


def _client_property(scope: str, name: str) -> tuple[Role | None, str]:
    """The role and the bare name of a known client property in that scope; role None where it is none."""
    for prefix, role in _client_prefixes(scope):
        rest = name[len(prefix) :]
        known = rest in SECURITY_KEYS or rest in UNUSED_SECURITY_KEYS or rest in client_keys(role)
        if name.startswith(prefix) and known:
            return role, rest
    return None, name


def _client_prefixes(scope: str) -> Iterator[tuple[str, Role]]:
    if scope == "global":
        return
    for role in ROLES:
        yield f"{role}.", role
        if scope == "flow":
            yield f"source.{role}.", role
            yield f"target.{role}.", role
    if scope == "flow":
        yield "producer.override.", "producer"
        yield "source.cluster.", "admin"
        yield "target.cluster.", "admin"
