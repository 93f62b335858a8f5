"""Set topic configs when a broker refuses some: find the refused ones, and set all others.

A broker refuses a topic's configs as a whole. The wrong one is read from the broker's text where it names it in
Kafka's words; else each config is tried on its own, without effect (``validate_only``). All refused topics are handled
together: a step is one request for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from mmtool.plan.topics.config_refusals import ABOUT_CONFIGS, ConfigAdjustment, named_config, nearest_value

if TYPE_CHECKING:
    from collections.abc import Mapping

Changes = dict[str, "str | None"]
"""Configs of one topic by name; None removes the override."""


class Attempt(Protocol):
    """One request for several topics; a sentence, ``CODE: text``, for each that is refused."""

    def __call__(self, changes: Mapping[str, Changes], *, validate_only: bool) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result for the topics.

    Attributes:
        failed: Topics that were refused for a reason other than one of their configs.
        adjustments: Configs of the other topics that were adjusted or left out.
    """

    failed: dict[str, str] = field(default_factory=dict)
    adjustments: list[ConfigAdjustment] = field(default_factory=list)


def apply_configs(
    wanted: Mapping[str, Changes], attempt: Attempt, needed: frozenset[str] = frozenset()
) -> TrialResult:
    """Set the configs of each topic; adjust or leave out those that the broker refuses.

    Args:
        wanted: The configs to set, by topic.
        attempt: The request that creates topics with the configs, or alters them.
        needed: Configs that are never adjusted or left out: a topic for which one is refused fails.
    """
    return _Trials(wanted, attempt, needed).run()


class _Trials:
    def __init__(self, wanted: Mapping[str, Changes], attempt: Attempt, needed: frozenset[str]) -> None:
        self._wanted = wanted
        self._attempt = attempt
        self._needed = needed
        self._changes = {topic: dict(changes) for topic, changes in wanted.items()}
        self._reasons: dict[str, dict[str, str]] = defaultdict(dict)
        self._tried: set[tuple[str, str, str | None]] = set()

    def run(self) -> TrialResult:
        failed = dict(self._attempt(self._changes, validate_only=False)) if self._changes else {}
        refused = self._about_configs(failed)
        while named := {topic for topic in refused if self._settle_named(topic, failed[topic])}:
            failed |= self._again(named, failed)
            refused = self._about_configs(failed) & (named | refused)
        if refused:
            failed |= self._one_by_one(refused, failed)
        return TrialResult(failed, [one for topic in self._reasons for one in self._adjusted(topic, failed)])

    def _about_configs(self, failed: Mapping[str, str]) -> set[str]:
        return {t for t, why in failed.items() if _code(why) in ABOUT_CONFIGS and self._changes[t]}

    def _again(self, topics: set[str], failed: dict[str, str]) -> Mapping[str, str]:
        """Repeat the request for some topics with their remaining configs; clear their earlier failures."""
        for topic in topics:
            del failed[topic]
        return self._attempt({topic: self._changes[topic] for topic in topics}, validate_only=False)

    def _settle_named(self, topic: str, why: str) -> bool:
        """Adjust or leave out the config that a refusal names; False where it names none, or a needed one."""
        name = named_config(why, self._changes[topic])
        if name is None or name in self._needed:
            return False
        self._settle(topic, name, why)
        return True

    def _settle(self, topic: str, name: str, why: str) -> None:
        """Give a refused config the nearest value that was not tried yet, or leave it out."""
        changes, text = self._changes[topic], _text(why)
        value = changes.pop(name)
        self._tried.add((topic, name, value))
        nearest = None if value is None else nearest_value(value, text)
        if nearest is not None and (topic, name, nearest) not in self._tried:
            changes[name] = nearest
        self._reasons[topic].setdefault(name, text)

    def _one_by_one(self, topics: set[str], failed: dict[str, str]) -> Mapping[str, str]:
        """Add the configs of some topics one after the other, and leave out those that are refused."""
        full = {topic: self._changes[topic] for topic in topics}
        self._changes |= {topic: {} for topic in topics}
        bare = self._attempt(self._changes_of(topics), validate_only=True)
        topics = {
            topic for topic in topics if topic not in bare
        }  # the others are refused without any config too
        for place in range(max((len(full[topic]) for topic in topics), default=0)):
            names = {topic: sorted(full[topic])[place] for topic in topics if place < len(full[topic])}
            self._add(names, full)
        return self._again(topics, failed)

    def _add(self, names: Mapping[str, str], full: Mapping[str, Changes]) -> None:
        """Add one more config to each topic; only a refusal because of that config removes it."""
        for topic, name in names.items():
            self._changes[topic][name] = full[topic][name]
        trying = set(names)
        while trying:
            answers = self._attempt(self._changes_of(trying), validate_only=True)
            refused = {
                topic: why
                for topic, why in answers.items()
                if _code(why) in ABOUT_CONFIGS and names[topic] not in self._needed
            }
            for topic, why in refused.items():
                self._settle(topic, names[topic], why)
            trying = {topic for topic in refused if names[topic] in self._changes[topic]}

    def _changes_of(self, topics: set[str]) -> dict[str, Changes]:
        return {topic: self._changes[topic] for topic in sorted(topics)}

    def _adjusted(self, topic: str, failed: Mapping[str, str]) -> list[ConfigAdjustment]:
        if topic in failed:
            return []
        wanted, given = self._wanted[topic], self._changes[topic]
        return [
            ConfigAdjustment(topic, name, wanted[name], given.get(name), why)
            for name, why in self._reasons[topic].items()
        ]


def _code(why: str) -> str:
    return why.partition(":")[0]


def _text(why: str) -> str:
    return why.partition(": ")[2] or why
