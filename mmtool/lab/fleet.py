"""Several clusters at once, with their users' rights and the MirrorMaker 2 properties file that connects them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from mmtool.errors import MmtoolError
from mmtool.lab.artifacts import classpath
from mmtool.lab.cluster import Cluster, Shape, properties_text
from mmtool.lab.security.kinds import MMTOOL, principal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

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
        """Grant the user `MMTOOL` what ``mmtool acls`` lists for the flows of a properties file, on secured clusters.

        Raises:
            ConfigError: The file is wrong.
            MmtoolError: A cluster refused.
        """
        from mmtool.config import load_settings
        from mmtool.rights.needs import Purpose
        from mmtool.rights.scope import rights_of_flows

        secured = [cluster for cluster in self if cluster.shape.security]
        settings = load_settings(properties, {}) if secured else None
        rights = rights_of_flows(settings.flows, Purpose, settings.heartbeats_only) if settings else []
        for cluster in secured:
            _grant(cluster, [right for right in rights if right.cluster == cluster.name])

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
            **dict.fromkeys(_REPLICATED, str(min(3, *(cluster.shape.brokers for cluster in self)))),
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


_SECONDS = 30.0


def _grant(cluster: Cluster, rights: Sequence[NeededRight]) -> None:
    """Grant the user `MMTOOL` rights on a running cluster; those that it has already stay."""
    from confluent_kafka import KafkaException, admin

    bindings = [
        admin.AclBinding(
            # confluent-kafka calls the cluster BROKER, as librdkafka does
            admin.ResourceType["BROKER" if right.resource_type == "cluster" else right.resource_type.upper()],
            right.name,
            admin.ResourcePatternType[right.pattern.upper()],
            principal(MMTOOL),
            "*",
            admin.AclOperation[right.operation],
            admin.AclPermissionType.ALLOW,
        )
        for right in rights
    ]
    client = admin.AdminClient(
        {**cluster.operator_client(), "client.id": "mmtool-lab-grants", "log_level": 2}
    )
    try:
        for granted in client.create_acls(bindings).values():
            granted.result(_SECONDS)
    except TimeoutError as error:
        raise MmtoolError(
            f"cluster {cluster.name} did not grant rights to {principal(MMTOOL)} within {_SECONDS:g} s",
            remedy="run the same command again when this host has less to do",
            code="grants",
        ) from error
    except KafkaException as error:
        raise MmtoolError(
            f"cluster {cluster.name} did not grant rights to {principal(MMTOOL)}: {error.args[0].str()}",
            remedy=f"read the logs of the brokers in {cluster.directory}",
            code="grants",
        ) from error
