"""Which configs and ACLs a mirrored topic gets, by MirrorMaker 2's rules, and what brokers refuse of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

from mmtool.events import Event, Notice
from mmtool.plan.failover.acl_rules import EVERY_TOPIC, Binding
from mmtool.plan.words import named_topics


def plan_acls(
    source: Iterable[Binding],
    target: Collection[Binding],
    *,
    mirrors: Callable[[str], bool],
    remote_topic: Callable[[str], str],
) -> list[Binding]:
    """The ACL rules to add on the target for mirrored topics.

    ALLOW WRITE is not copied, and ALLOW ALL becomes ALLOW READ: only the mirror writes there. DENY rules are copied as
    they are, except those that look like a fence (`mmtool.plan.failover.fence_plan`): a copied fence would keep
    producers off the cluster that they are moved to, and no operation would lower it there. A rule about every topic
    (``*``) has no meaning where topics are renamed, and is left out there.

    Args:
        source: The source's rules about topics by their whole names.
        target: The target's rules, which are not added again.
        mirrors: Whether a topic of the source is mirrored.
        remote_topic: Returns a source topic's name on the target.
    """
    wanted = [
        acl._replace(
            name=remote_topic(acl.name),
            operation="READ" if (acl.permission, acl.operation) == ("ALLOW", "ALL") else acl.operation,
        )
        for acl in source
        if (acl.permission, acl.operation) != ("ALLOW", "WRITE")
        and not _is_like_a_fence(acl)
        and mirrors(acl.name)
        and (acl.name != EVERY_TOPIC or remote_topic(acl.name) == EVERY_TOPIC)
    ]
    return [acl for acl in dict.fromkeys(wanted) if acl not in target]


def _is_like_a_fence(acl: Binding) -> bool:
    """Whether a rule has the form of a fence's: brokers do not store a rule's creator, so any flow may own it."""
    return (acl.permission, acl.operation, acl.host) == ("DENY", "WRITE", "*") and acl.name != EVERY_TOPIC


ABOUT_CONFIGS = frozenset({"INVALID_CONFIG", "POLICY_VIOLATION", "INVALID_REQUEST", "UNKNOWN"})
"""The error codes that a config can cause which the broker or its policy class refuses."""

_NAMED = (
    re.compile(r"for configuration (?P<name>[\w.\-]+):"),
    re.compile(r"[Uu]nknown (?:topic )?config(?:uration)?(?: name)?:? '?(?P<name>[\w.\-]+)"),
)
_INVALID = re.compile(r"Invalid value (?P<value>.*?) for configuration ")
_NUMBER = r"(-?\d+(?:\.\d+)?)"
_LOWEST = re.compile(rf"(?:at least|between) {_NUMBER}")
_HIGHEST = re.compile(rf"(?:no more than|not be more than .*?:|between {_NUMBER} and) {_NUMBER}")
_NO_LIMIT = "-1"
_TOPICS_NAMED = 100


@dataclass(frozen=True, slots=True)
class ConfigAdjustment:
    """One config of one topic for which the target refused the source's value.

    Attributes:
        topic: Its name on the target.
        name: The config's name.
        wanted: The source's value; None where the target's override was to be removed.
        given: The value that the target accepted instead; None where the config was left out.
        reason: The broker's message.
        kept: The target's value where it was left out; None where it has no such config, or does not show it.
    """

    topic: str
    name: str
    wanted: str | None
    given: str | None
    reason: str
    kept: str | None = None

    @property
    def is_unknown(self) -> bool:
        """Whether the broker has no config of that name."""
        return any(found["name"] == self.name for found in _NAMED[1].finditer(self.reason))


def named_config(text: str, names: Collection[str]) -> str | None:
    """The config that a broker's message names as wrong, by Kafka's own phrases; None without one."""
    for pattern in _NAMED:
        for found in pattern.finditer(text):
            if found["name"] in names:
                return found["name"]
    return None


def nearest_value(wanted: str, text: str) -> str | None:
    """The value nearest to the wanted one that a broker's message allows; None where it allows none.

    A number is raised to the lowest or lowered to the highest that is allowed; -1 is Kafka's "no limit", and is not
    raised, because the lowest limit would mean the opposite. The refused member of a list is removed.
    """
    if wanted == _NO_LIMIT:
        return None
    if re.fullmatch(_NUMBER, wanted):
        low, high = _LOWEST.search(text), _HIGHEST.search(text)
        if low and float(wanted) < float(low[1]):
            return low[1]
        return high[2] if high and float(wanted) > float(high[2]) else None
    members = [member.strip() for member in wanted.split(",")]
    refused = _INVALID.search(text)
    if refused and len(members) > 1 and refused["value"] in members:
        return ",".join(member for member in members if member != refused["value"]) or None
    return None


def adjustment_sentences(adjustments: Iterable[ConfigAdjustment], source: str, target: str) -> list[str]:
    """One notice for each config and pair of values, with the topics that share it.

    Args:
        adjustments: The adjusted configs of any topics.
        source: The source's alias.
        target: The target's alias.
    """
    topics: dict[ConfigAdjustment, list[str]] = {}
    for one in sorted(adjustments, key=lambda one: (one.name, one.topic)):
        topics.setdefault(replace(one, topic=""), []).append(one.topic)
    return [
        Notice(
            f"{named_topics(of, _TOPICS_NAMED)}: {_sentence(one, source, target)}; mirroring continues",
            Event.CONFIG_VALUE_ADJUSTED,
            topics=of,
            key=one.name,
        )
        for one, of in topics.items()
    ]


def _sentence(one: ConfigAdjustment, source: str, target: str) -> str:
    why = one.reason.rpartition(f"for configuration {one.name}: ")[2]
    if one.wanted is None:
        kept = f"stays {one.kept or 'as it is'} on {target}; the brokers of {target} say"
        return f"{one.name} has its default on {source} and {kept}: {why}"
    said = f"{one.name} is {one.wanted} on {source}"
    if one.given is not None:
        return f"{said} and {one.given} on {target}; the brokers of {target} say: {why}"
    if one.is_unknown:
        return f"{said} and not set on {target}, whose brokers do not know it"
    if one.kept is None:
        return f"{said} and not set on {target}; the brokers of {target} say: {why}"
    return f"{said} and stays {one.kept} on {target}; the brokers of {target} say: {why}"


MIN_ISR = "min.insync.replicas"


class ConfigOrigin(Enum):
    """The source of a property's value (KIP-226), as far as a mirror distinguishes it."""

    OVERRIDE = "override"
    """Set on the topic, or by an operator on brokers while they run."""

    DEFAULT = "default"
    """Kafka's own default, or a line of ``server.properties``."""


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One property of one topic.

    Attributes:
        value: None where the broker does not show it.
        on_topic: It is set on the topic itself.
        carried: Neither read-only nor secret.
    """

    value: str | None
    origin: ConfigOrigin
    on_topic: bool
    carried: bool = True


def cleanup_policies(entries: Mapping[str, ConfigEntry]) -> frozenset[str]:
    """The values of ``cleanup.policy`` (compact, delete); empty where the broker does not show it."""
    entry = entries.get("cleanup.policy")
    return frozenset(word.strip() for word in (entry.value or "" if entry else "").split(",") if word.strip())


@dataclass(frozen=True, slots=True)
class SetConfig:
    """A property that gets a value on the target's topic."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ResetConfig:
    """A property whose override is removed from the target's topic."""

    name: str


@dataclass(frozen=True, slots=True)
class KeptConfig:
    """A property that is left as it is, and why."""

    name: str
    reason: str


ConfigStep = SetConfig | ResetConfig | KeptConfig


@dataclass(frozen=True, slots=True)
class ConfigRules:
    """Which configs a flow mirrors.

    Attributes:
        accepts: ``config.properties.exclude``: whether a property is mirrored.
        defaults_from: ``use.defaults.from``: where the source has a default, the target gets its own, or the source's.
    """

    accepts: Callable[[str], bool]
    defaults_from: Literal["source", "target"]


def plan_topic_configs(
    source: Mapping[str, ConfigEntry], target: Mapping[str, ConfigEntry], rules: ConfigRules
) -> list[ConfigStep]:
    """The steps that make the target topic's configs like the source topic's, in the order of the names.

    Args:
        source: The source topic's properties.
        target: The target topic's properties; empty for a topic that is to be created.
        rules: The flow's rules.
    """
    steps: list[ConfigStep] = []
    for name, entry in sorted(source.items()):
        there, value = target.get(name), entry.value
        if not entry.carried or value is None or not rules.accepts(name):
            continue
        is_set = entry.origin is ConfigOrigin.OVERRIDE or rules.defaults_from == "source"
        if there is None:
            steps += [SetConfig(name, value)] if is_set else []
        elif (there.value != value or not there.on_topic) if is_set else there.on_topic:
            if name == MIN_ISR and _lowers(value, there.value):
                theirs = f"the source's {'' if is_set else 'default '}{value}"
                kept = f"the target's value {there.value} is safer than {theirs}"
                steps.append(KeptConfig(name, kept))
            else:
                steps.append(SetConfig(name, value) if is_set else ResetConfig(name))
    return steps


def _lowers(value: str, there: str | None) -> bool:
    return there is not None and there.isdigit() and value.isdigit() and int(value) < int(there)


FOR_EVER = (1 << 63) - 1
"""Kafka's own value for no limit at all, in milliseconds."""
RAISE = "mmtool.on.timestamp.refused = raise-limit"
"""The setting with which mmtool raises timestamp limits, so that a target topic accepts every record."""
BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
_EITHER = "message.timestamp.difference.max.ms"
TIME_BOUNDS = frozenset({BEFORE, AFTER, _EITHER})
"""Topic configs that limit a timestamp's distance from the broker's clock (KIP-937); the last one exists until 3.9."""


@dataclass(frozen=True, slots=True)
class TargetLimits:
    """A topic's limits, in bytes and milliseconds.

    Attributes:
        max_batch_bytes: ``max.message.bytes``; else a broker's own default less its overhead.
        before_max_ms, after_max_ms: How far a record's timestamp may lie before and after the broker's clock.
        either_max_ms: One limit for both directions, used where those two are not set: brokers before 4.0 have it.
    """

    max_batch_bytes: int = 1 << 20
    before_max_ms: int = FOR_EVER
    after_max_ms: int = FOR_EVER
    either_max_ms: int = FOR_EVER

    @classmethod
    def of(cls, entries: Mapping[str, ConfigEntry]) -> TargetLimits:
        """The limits that a topic's configs set, as far as they are known; LogAppendTime refuses no timestamp."""
        values = {name: entry.value for name, entry in entries.items() if entry.value}
        keeps_times = values.get("message.timestamp.type") != "LogAppendTime"
        return cls(
            int(values.get("max.message.bytes", cls().max_batch_bytes)),
            *(
                int(values.get(name, FOR_EVER)) if keeps_times else FOR_EVER
                for name in (BEFORE, AFTER, _EITHER)
            ),
        )

    @property
    def before(self) -> tuple[str, int]:
        """The config that limits timestamps before the broker's clock, and its limit in milliseconds."""
        return self._told_by(BEFORE, self.before_max_ms)

    @property
    def after(self) -> tuple[str, int]:
        """The config that limits timestamps after the broker's clock, and its limit in milliseconds."""
        return self._told_by(AFTER, self.after_max_ms)

    def _told_by(self, name: str, bound: int) -> tuple[str, int]:
        return (name, bound) if bound < FOR_EVER else (_EITHER, self.either_max_ms)

    @property
    def any_time(self) -> list[SetConfig]:
        """The configs to set so that the topic accepts every timestamp; empty where it already does."""
        bounds = {BEFORE: self.before_max_ms, AFTER: self.after_max_ms, _EITHER: self.either_max_ms}
        return [SetConfig(name, str(FOR_EVER)) for name, bound in bounds.items() if bound < FOR_EVER]
