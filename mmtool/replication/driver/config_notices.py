"""Notices about topic configs that the target refuses, each reported once per flow."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mmtool.plan.topics.config_refusals import adjustment_sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.config import FlowSettings
    from mmtool.plan.topics.config_refusals import ConfigAdjustment
    from mmtool.plan.topics.configs import ConfigEntry


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
