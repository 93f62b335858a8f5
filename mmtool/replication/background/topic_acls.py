"""Sync topic ACLs: principals that may read a source topic may read its mirror."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.kafka.admin.acls import AclAdmin
from mmtool.kafka.remedies import remedy_of
from mmtool.plan.topics.acls import plan_acls
from mmtool.plan.words import counted
from mmtool.runtime.threads import in_thread
from mmtool.translation.known import UNKNOWN

if TYPE_CHECKING:
    from mmtool.config import FlowSettings
    from mmtool.replication.background import ExtraTurn

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
        here = AclAdmin(self.flow.source).topic_acls()
        if here is UNKNOWN:
            return
        target = AclAdmin(self.flow.target)
        there = target.topic_acls()
        if there is UNKNOWN:
            raise MmtoolError(
                f"cluster {self.flow.target.alias} has no authorizer, so topic ACLs are not copied",
                remedy=f"configure an authorizer on the brokers of {self.flow.target.alias}, or set"
                f" {self.flow.name}.sync.topic.acls.enabled = false",
            )
        missing = plan_acls(
            here, set(there), mirrors=self.flow.mirrors_topic, remote_topic=self.flow.remote_topic
        )
        failed = target.add(missing)
        if failed:
            first = next(iter(failed))
            example = "for example for" if len(failed) > 1 else "for"
            raise MmtoolError(
                f"{counted(len(failed), 'ACL')} could not be added on {self.flow.target.alias}, {example} topic"
                f" {first.topic}: {failed[first]}",
                remedy=remedy_of(failed[first].partition(":")[0], self.flow.target.alias, otherwise=_BY_HAND),
            )
