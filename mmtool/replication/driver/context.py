"""One flow in the driver: its settings, its identity and its connections to both clusters."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.kafka.admin.cluster_facts import check_cluster_id, check_distinct
from mmtool.kafka.clients import wire_cluster, wire_options
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.records.identity import FlowIdentity

if TYPE_CHECKING:
    from mmtool.config import FlowSettings
    from mmtool.config.scopes import Role
    from mmtool.kafka.wire.cluster import WireCluster

_SOURCE_ROLE: Role = "consumer"
_TARGET_ROLE: Role = "producer"


@dataclass(slots=True, eq=False)
class FlowContext:
    """A flow whose clusters have both answered with the cluster ids that were expected.

    Attributes:
        settings: The settings in force; replaced when the properties file has changed.
        shows_register: Whether the source has listed its producer register before: if it is not listed now, access was
            denied.
    """

    settings: FlowSettings
    identity: FlowIdentity
    source: WireCluster
    target: WireCluster
    shows_register: bool = False

    async def answers(self) -> bool:
        """Whether both clusters answer a metadata request now."""
        try:
            await asyncio.gather(self.source.refresh(()), self.target.refresh(()))
        except ConnectionLostError:
            return False
        return True

    def renew_credentials(self) -> None:
        """Connect with the credentials of `settings` from now on; open connections stay.

        Raises:
            ConfigError: as `wire_options`.
        """
        self.source.renew_credentials(wire_options(self.settings.source, role=_SOURCE_ROLE))
        self.target.renew_credentials(wire_options(self.settings.target, role=_TARGET_ROLE))

    async def close(self) -> None:
        await asyncio.gather(self.source.close(), self.target.close())


async def connect(settings: FlowSettings) -> FlowContext:
    """Connect to both clusters of a flow, and check that they are the expected ones.

    Raises:
        UnreachableError, NotAuthorisedError: a cluster does not answer, or denies access.
        RefusedError: ``mmtool.cluster.id`` names another cluster than the one that answered.
        ConfigError: both aliases are one cluster.
    """
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # lost connections are our own affair
    source = wire_cluster(settings.source, "driver", role=_SOURCE_ROLE)
    target = wire_cluster(settings.target, "driver", role=_TARGET_ROLE)
    try:
        await asyncio.gather(source.start(), target.start())
        check_cluster_id(settings.source, source.cluster_id)
        check_cluster_id(settings.target, target.cluster_id)
        identity = FlowIdentity(
            source.identify(), target.identify(), settings.source.alias, settings.target.alias
        )
        check_distinct(identity)
    except BaseException:
        await asyncio.gather(source.close(), target.close())
        raise
    return FlowContext(settings, identity, source, target)
