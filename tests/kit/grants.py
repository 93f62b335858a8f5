"""A user of two guarded clusters with the rights that `mmtool acls` lists, from which single ones are taken away."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kit.fences import PASSWORD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from kit.fences import GuardedCluster

Row = dict[str, Any]
"""A row of ``mmtool acls -o json``."""
_TYPES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}
_WORDS = {
    "topic": "(?:source |target )?topics? ",
    "group": "group ",
    "transactional_id": "transactional id ",
    "cluster": "the cluster",
}
"""How messages name each type of resource; a topic of a flow also by its side."""
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def user_lines(clusters: Mapping[str, GuardedCluster], user: str) -> dict[str, str]:
    """The keys of a properties file by which mmtool logs in as a user, with the clusters' names as aliases."""
    lines = {"clusters": ", ".join(clusters)}
    for alias, cluster in clusters.items():
        lines |= {
            f"{alias}.bootstrap.servers": cluster.bootstrap,
            f"{alias}.security.protocol": "SASL_PLAINTEXT",
            f"{alias}.sasl.mechanism": "PLAIN",
            f"{alias}.sasl.jaas.config": f'{_MODULE} required username="{user}" password="{PASSWORD}";',
        }
    return lines


def write_file(path: Path, lines: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{name} = {value}\n" for name, value in lines.items()))
    return path


def is_named(row: Row, text: str) -> bool:
    """Whether a text names a right and its cluster; of a right by prefix, a name that begins so."""
    kind = _WORDS[row["resource_type"]]
    name = "" if row["resource_type"] == "cluster" else re.escape(row["name"])
    end = "" if row["pattern"] == "prefixed" else r"(?![\w-])"
    found = re.search(f"{row['operation']} on {kind}{name}{end}", text)
    return found is not None and row["cluster"] in text


@dataclass(frozen=True)
class Grants:
    """The ACL rules of one user."""

    clusters: Mapping[str, GuardedCluster]
    user: str

    def replace(self, rows: Iterable[Row]) -> None:
        """Give the user these rights, and no others."""
        for alias in self.clusters:
            self._delete(alias, AclPermissionType.ANY)
        for row in rows:
            self._create(row, AclPermissionType.ALLOW)

    @contextlib.contextmanager
    def without(self, row: Row) -> Iterator[None]:
        """Deny one right, and afterwards remove all denials: ACL sync may have copied it to the target."""
        self._create(row, AclPermissionType.DENY)
        try:
            yield
        finally:
            for alias in self.clusters:
                self._delete(alias, AclPermissionType.DENY)

    def _create(self, row: Row, permission: AclPermissionType) -> None:
        rule = AclBinding(
            _TYPES[row["resource_type"]],
            row["name"],
            ResourcePatternType[row["pattern"].upper()],
            f"User:{self.user}",
            "*",
            AclOperation[row["operation"]],
            permission,
        )
        admin = self._admin(row["cluster"])  # it has to outlive its futures
        admin.create_acls([rule])[rule].result(20)

    def _delete(self, alias: str, permission: AclPermissionType) -> None:
        every = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            f"User:{self.user}",
            None,
            AclOperation.ANY,
            permission,
        )
        admin = self._admin(alias)
        admin.delete_acls([every])[every].result(20)

    def _admin(self, alias: str) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.clusters[alias].lab.bootstrap, "log_level": 2})
