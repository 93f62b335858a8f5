"""Sync of topics: mirrors get the configs and the READ rules of their source topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.events import flow_notice
from mmtool.kafka.admin.fences import KafkaFences
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.errors import remedy_of
from mmtool.plan.topics.configs import KeptConfig, plan_acls, plan_topic_configs
from mmtool.plan.topics.facts import configs_hidden
from mmtool.plan.words import counted
from mmtool.replication.topics.mirror_topics import config_rules
from mmtool.runtime.threads import in_thread
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config import FlowSettings
    from mmtool.plan.topics.configs import ResetConfig, SetConfig
    from mmtool.replication.background import ExtraTurn
    from mmtool.replication.driver.notices import ConfigNotices


_ACL_SECONDS = 30.0
_BY_HAND = "add the ACL on {alias} with kafka-acls.sh"
"""The remedy where the error is no broker's, or has none of its own."""


@dataclass(slots=True)
class TopicAcls:
    """Adds the source's ACLs on the target; does nothing where the source has no authorizer (as MM2)."""

    flow: FlowSettings
    name: str = "ACLs"
    extra: ExtraTurn = ""

    @property
    def seconds(self) -> float:
        return float(self.flow.sync_topic_acls_interval_seconds)

    async def perform(self) -> None:
        """Compare the topic ACLs of both clusters, and add those that the target lacks.

        Raises:
            MmtoolError: ACLs could not be read, or some could not be added.
        """
        await in_thread(self._perform)

    def _perform(self) -> None:
        here = KafkaFences(self.flow.source, _ACL_SECONDS).topic_rules()
        if here is UNKNOWN:
            return
        target = KafkaFences(self.flow.target, _ACL_SECONDS)
        there = target.topic_rules()
        if there is UNKNOWN:
            raise MmtoolError(
                f"cluster {self.flow.target.alias} has no authorizer, so topic ACLs are not copied",
                remedy=f"configure an authorizer on the brokers of {self.flow.target.alias}, or set"
                f" {self.flow.name}.sync.topic.acls.enabled = false",
            )
        missing = plan_acls(
            sorted(here), there, mirrors=self.flow.mirrors_topic, remote_topic=self.flow.remote_topic
        )
        failed = target.add(missing)
        if failed:
            first = next(iter(failed))
            example = "for example for" if len(failed) > 1 else "for"
            raise MmtoolError(
                f"{counted(len(failed), 'ACL')} could not be added on {self.flow.target.alias}, {example} topic"
                f" {first.name}: {failed[first]}",
                remedy=remedy_of(failed[first].name, self.flow.target.alias, otherwise=_BY_HAND),
            )


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
                f" {failed[first].by_name}",
                remedy=remedy_of(failed[first].name, self.flow.target.alias, otherwise=_EXCLUDE),
            )
        if hidden := [configs_hidden(names, alias) for names, alias in unseen if names]:
            raise MmtoolError("; ".join(hidden))

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self.say(flow_notice(self.flow.name, sentence))
