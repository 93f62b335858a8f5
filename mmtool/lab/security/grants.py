"""Grant rights on a secured cluster of the lab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.lab.security.kinds import principal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from confluent_kafka.admin import AclBinding

    from mmtool.config.settings import Settings
    from mmtool.lab.cluster import Cluster
    from mmtool.rights.scope import NeededRight

_SECONDS = 30.0


def grant_flow_rights(clusters: Mapping[str, Cluster], user: str, settings: Settings) -> None:
    """Grant a user what ``mmtool acls`` lists for every purpose, and nothing else.

    Raises:
        MmtoolError: A cluster refused.
    """
    from mmtool.rights.needs import Purpose
    from mmtool.rights.scope import rights_of_flows

    rights = rights_of_flows(settings.flows, Purpose, settings.heartbeats_only)
    for alias, cluster in clusters.items():
        grant(cluster, user, (right for right in rights if right.cluster == alias))


def grant(cluster: Cluster, user: str, rights: Iterable[NeededRight]) -> None:
    """Grant a user rights on a running cluster; those that it has already stay.

    Raises:
        MmtoolError: The cluster refused.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({**cluster.operator_client(), "client.id": "mmtool-lab-grants", "log_level": 2})
    try:
        for granted in admin.create_acls([_binding(user, right) for right in rights]).values():
            granted.result(_SECONDS)
    except TimeoutError as error:
        raise MmtoolError(
            f"cluster {cluster.name} did not grant rights to {principal(user)} within {_SECONDS:g} s",
            remedy="run the same command again when this host has less to do",
            code="grants",
        ) from error
    except KafkaException as error:
        raise MmtoolError(
            f"cluster {cluster.name} did not grant rights to {principal(user)}: {error.args[0].str()}",
            remedy=f"read the logs of the brokers in {cluster.directory}",
            code="grants",
        ) from error


def _binding(user: str, right: NeededRight) -> AclBinding:
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    # confluent-kafka calls the cluster BROKER, as librdkafka does
    kind = "broker" if right.resource_type == "cluster" else right.resource_type
    return AclBinding(
        ResourceType[kind.upper()],
        right.name,
        ResourcePatternType[right.pattern.upper()],
        principal(user),
        "*",
        AclOperation[right.operation],
        AclPermissionType.ALLOW,
    )
