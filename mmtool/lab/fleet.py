"""Several clusters at once, with their users' rights and the MirrorMaker 2 properties file that connects them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from mmtool.errors import MmtoolError
from mmtool.lab.artifacts import classpath
from mmtool.lab.cluster import Cluster, Shape, properties_text
from mmtool.lab.security.kinds import MMTOOL, principal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from confluent_kafka.admin import AclBinding

    from mmtool.config.settings import Settings
    from mmtool.rights.scope import NeededRight


# What MM2 and its Connect herders create; their default of 3 cannot be met by one broker.
_REPLICATED = (
    "replication.factor",
    "offset-syncs.topic.replication.factor",
    "checkpoints.topic.replication.factor",
    "heartbeats.topic.replication.factor",
    "config.storage.replication.factor",
    "offset.storage.replication.factor",
    "status.storage.replication.factor",
)


class Fleet:
    """Named clusters, each in a folder of its own name below ``directory``."""

    def __init__(self, clusters: Sequence[Cluster]) -> None:
        self.clusters = {cluster.name: cluster for cluster in clusters}

    @classmethod
    def of(cls, directory: Path, *names: str, shape: Shape | None = None) -> Self:
        """A fleet of equal clusters; for unequal ones, use the constructor."""
        return cls([Cluster(name, directory / name, shape) for name in names])

    def __getitem__(self, name: str) -> Cluster:
        return self.clusters[name]

    def __iter__(self) -> Iterator[Cluster]:
        return iter(self.clusters.values())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all clusters together; if one fails, all are stopped.

        Raises:
            MmtoolError: A cluster did not start; the message is that of the first one.
        """
        for version in {cluster.shape.version for cluster in self}:
            classpath("broker", version)
        with ThreadPoolExecutor(len(self.clusters)) as pool:
            starts = [pool.submit(cluster.start) for cluster in self]
        failures = [error for error in (start.exception() for start in starts) if error is not None]
        if failures:
            self.kill()
            raise failures[0]

    def stop(self) -> None:
        with ThreadPoolExecutor(len(self.clusters)) as pool:
            list(pool.map(Cluster.stop, self))

    def kill(self) -> None:
        for cluster in self:
            cluster.kill()

    def remove_data(self) -> None:
        """Delete the brokers' data; logs stay."""
        for cluster in self:
            cluster.remove_data()

    def grant_rights(self, properties: Path) -> None:
        """Grant the user `MMTOOL` what the flows of a properties file need on secured clusters.

        Raises:
            ConfigError: The file is wrong.
            MmtoolError: A cluster refused.
        """
        from mmtool.config import load_settings
        from mmtool.lab.fleet import grant_flow_rights

        secured = {name: cluster for name, cluster in self.clusters.items() if cluster.shape.security}
        if secured:
            grant_flow_rights(secured, MMTOOL, load_settings(properties, {}))

    def properties(self, flows: Sequence[tuple[str, str]] = (), **extra: str) -> str:
        """The text of a ``connect-mirror-maker.properties``, for MirrorMaker 2 and mmtool alike.

        On secured clusters it connects as the user `MMTOOL`, and has placeholders for secrets.

        ``flows`` are (source, target) names, by default the first cluster to the second; ``extra`` wins:
        ``fleet.properties([("a", "b")], **{"a->b.topics": "orders.*"})``.
        """
        names = list(self.clusters)
        chosen = flows or [(names[0], names[1])]
        settings = {
            "clusters": ", ".join(self.clusters),
            **{f"{cluster.name}.bootstrap.servers": cluster.bootstrap for cluster in self},
            **self._logins(),
            **{f"{source}->{target}.enabled": "true" for source, target in chosen},
            **dict.fromkeys(_REPLICATED, str(self._replicas())),
        }
        return properties_text({**settings, **extra})

    def _logins(self) -> dict[str, str]:
        from mmtool.config.placeholders import provider_declarations

        logins = {
            f"{cluster.name}.{key}": value
            for cluster in self
            if cluster.shape.security is not None
            for key, value in cluster.shape.security.placeholders(MMTOOL).items()
        }
        return {**provider_declarations(["file"]), **logins} if logins else {}

    def _replicas(self) -> int:
        return min(3, *(cluster.shape.brokers for cluster in self))


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
