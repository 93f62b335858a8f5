"""Which configs a mirrored topic gets: the source's, by MirrorMaker 2's rules, and only those that differ.

MM2 sends every property of every topic every ten minutes; mmtool sends only what differs. And a property that
returns to its default on the source returns to its default on the target, which MM2 misses where that default is the
broker's own (``STATIC_BROKER_CONFIG``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MIN_ISR = "min.insync.replicas"


class Origin(Enum):
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
    origin: Origin
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
        there = target.get(name)
        if not entry.carried or entry.value is None or not rules.accepts(name):
            continue
        if entry.origin is Origin.OVERRIDE or rules.defaults_from == "source":
            if there is None or there.value != entry.value or not there.on_topic:
                steps.append(_set(name, entry.value, there))
        elif there is not None and there.on_topic:
            steps.append(_reset(name, entry.value, there))
    return steps


def _set(name: str, value: str, there: ConfigEntry | None) -> ConfigStep:
    if name == MIN_ISR and there is not None and _lowers(value, there.value):
        return KeptConfig(name, f"the target's value {there.value} is safer than the source's {value}")
    return SetConfig(name, value)


def _reset(name: str, value: str, there: ConfigEntry) -> ConfigStep:
    if name == MIN_ISR and _lowers(value, there.value):
        return KeptConfig(
            name, f"the target's value {there.value} is safer than the source's default {value}"
        )
    return ResetConfig(name)


def _lowers(value: str, there: str | None) -> bool:
    return there is not None and there.isdigit() and value.isdigit() and int(value) < int(there)
