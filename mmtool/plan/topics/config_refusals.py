"""Topic configs that the target's brokers refuse: each is adjusted or left out on its own.

A broker names one wrong config at a time, in text only. Which configs it refuses is found by sending fewer of them
again (`mmtool.kafka.admin.config_trials`); this module reads from its text the value that it would accept instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mmtool.events import Event, Notice
from mmtool.plan.words import named_topics

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

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
