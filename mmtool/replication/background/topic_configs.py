"""Sync topic configs: mirrors get the configs of their source topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.events import flow_notice
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.remedies import remedy_of
from mmtool.plan.topics.configs import KeptConfig, plan_topic_configs
from mmtool.plan.topics.facts import configs_hidden
from mmtool.plan.words import counted
from mmtool.replication.topics.mirror_topics import config_rules
from mmtool.runtime.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config import FlowSettings
    from mmtool.plan.topics.configs import ResetConfig, SetConfig
    from mmtool.replication.background import ExtraTurn
    from mmtool.replication.driver.notices import ConfigNotices

_EXCLUDE = "set the config on {alias} with kafka-configs.sh, or add its name to config.properties.exclude"
"""The remedy where the broker's error has none of its own."""


@dataclass(slots=True)
class TopicConfigs:
    """Alters configs that differ; a config or topic that cannot be altered does not block the others.

    Attributes:
        flow: The flow.
        topics: The source's topics that are mirrored now, and their names on the target.
        say: Called once with each sentence for the operator.
        adjusted: The configs that the target refuses and that were already reported.
    """

    flow: FlowSettings
    topics: Callable[[], dict[str, str]]
    say: Callable[[str], None]
    adjusted: ConfigNotices
    name: str = "topic configs"
    extra: ExtraTurn = ""
    _said: set[str] = field(default_factory=set)

    @property
    def seconds(self) -> float:
        return float(self.flow.sync_topic_configs_interval_seconds)

    async def perform(self) -> None:
        """Compare the configs of every topic of the flow, and alter those that differ on the target.

        Raises:
            MmtoolError: the configs of some topics could not be read or altered; the message names an example.
        """
        await in_thread(self._perform, self.topics())

    def _perform(self, topics: dict[str, str]) -> None:
        target = TopicAdmin(self.flow.target)
        here, there = TopicAdmin(self.flow.source).configs(topics), target.configs(topics.values())
        steps: dict[str, list[SetConfig | ResetConfig]] = {}
        unseen = (
            ([topic for topic in topics if topic not in here], self.flow.source.alias),
            ([remote for remote in topics.values() if remote not in there], self.flow.target.alias),
        )
        for topic, remote in topics.items():
            if topic not in here or remote not in there:
                continue
            for step in plan_topic_configs(here[topic], there[remote], config_rules(self.flow)):
                if isinstance(step, KeptConfig):
                    kept = f"topic {remote}: {step.name} is not copied from the source: {step.reason}"
                    self._say_once(f"{kept}; nothing has to be done")
                else:
                    steps.setdefault(remote, []).append(step)
        result = target.alter_adjusted(steps)
        for sentence in self.adjusted.of(self.flow, result.adjustments, there):
            self.say(flow_notice(self.flow.name, sentence))
        if failed := result.failed:
            first = next(iter(failed))
            more = f" and {counted(len(failed) - 1, 'more topic')}" if len(failed) > 1 else ""
            raise MmtoolError(
                f"the configuration of topic {first}{more} on {self.flow.target.alias} could not be changed:"
                f" {failed[first]}",
                remedy=remedy_of(failed[first].partition(":")[0], self.flow.target.alias, otherwise=_EXCLUDE),
            )
        if hidden := [configs_hidden(names, alias) for names, alias in unseen if names]:
            raise MmtoolError("; ".join(hidden))

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self.say(flow_notice(self.flow.name, sentence))
