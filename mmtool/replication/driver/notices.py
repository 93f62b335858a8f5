"""Deduplicated notices of a running flow, also about refused topic configs: each is reported once until it changes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError
from mmtool.plan.topics.configs import adjustment_sentences
from mmtool.plan.words import first_part, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mmtool.config import FlowSettings
    from mmtool.plan.topics.configs import ConfigAdjustment, ConfigEntry


def retried(error: Exception) -> str:
    """An error that mmtool retries by itself, as one sentence: its remedy asks for no command to be run again."""
    return joined(str(error) or type(error).__name__, first_part(getattr(error, "remedy", "")))


def awaited(error: Exception) -> str:
    """The notice of a cluster's error that mmtool retries by itself; a cluster that denies a right has answered."""
    waits = "" if isinstance(error, NotAuthorisedError) else "waiting for the clusters: "
    return f"{waits}{retried(error)}; mmtool keeps trying"


@dataclass(slots=True)
class NoticeDeduplicator:
    """Reports a problem when it starts, not at every check."""

    say: Callable[[str], None]
    _said: dict[str, str] = field(default_factory=dict)

    def once(self, about: str, sentence: str) -> None:
        """Report the sentence, unless it is the last one that was reported about the same subject."""
        if self._said.get(about) != sentence:
            self._said[about] = sentence
            self.say(sentence)

    def is_well(self, about: str) -> bool:
        """Clear the report about the subject, so that the same problem is reported again when it returns.

        Returns whether there was such a report.
        """
        return self._said.pop(about, None) is not None


@dataclass(slots=True)
class ConfigNotices:
    """The refused configs of one flow that were reported; topic creation and config sync share them."""

    _said: set[tuple[str, str, str | None, str | None]] = field(default_factory=set)

    def of(
        self,
        flow: FlowSettings,
        adjustments: Iterable[ConfigAdjustment],
        target: Mapping[str, Mapping[str, ConfigEntry]],
    ) -> list[str]:
        """Sentences about the adjustments that were not reported yet; from now on they count as reported.

        Args:
            flow: The flow whose topics were adjusted.
            adjustments: The adjustments that were just made.
            target: The configs of the target's topics, as far as they are known.
        """
        fresh = []
        for one in adjustments:
            about = (one.topic, one.name, one.wanted, one.given)
            if about not in self._said:
                self._said.add(about)
                entry = target.get(one.topic, {}).get(one.name)
                fresh.append(replace(one, kept=entry.value if entry is not None else None))
        return adjustment_sentences(fresh, flow.source.alias, flow.target.alias)
