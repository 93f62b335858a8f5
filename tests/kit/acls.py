"""ACL rules on running clusters, made by whoever may do everything there; a rule is mmtool's own `Binding`."""

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
from mmtool.lab.cluster import Shape
from mmtool.lab.ports import wait_until
from mmtool.plan.failover.acl_rules import ANY_HOST, CLUSTER, LITERAL, PREFIXED, TOPIC, Binding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from kit.fences import GuardedCluster

Row = dict[str, Any]
"""A row of ``mmtool acls -o json``."""
_AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
GUARDED = {**_AUTHORIZER, "super.users": "User:ANONYMOUS"}
"""Broker properties that allow ACLs, and that bind no principal of the lab itself."""
OPEN = Shape(properties={**_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"})
"""What has no rule is free, brokers' own talk included."""
_SECONDS = 20.0
_WORDS = {
    "topic": "(?:source |target )?topics? ",
    "group": "group ",
    "transactional_id": "transactional id ",
    "cluster": "the cluster",
}
"""How messages name each type of resource; a topic of a flow also by its side."""
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_CALLED = {CLUSTER: "BROKER"}
"""By confluent-kafka, as librdkafka does."""


def rule(
    name: str,
    user: str,
    operation: str,
    resource: str = TOPIC,
    *,
    pattern: str = LITERAL,
    permission: str = "ALLOW",
) -> Binding:
    """A rule about a user, from any host."""
    return Binding(name, pattern, f"User:{user}", ANY_HOST, operation, permission, resource)


class Acls:
    """The rules of a cluster.

    Args:
        bootstrap: Where a client without a login may do everything.
    """

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})

    def all(self) -> set[Binding]:
        """Those that the broker lists."""
        return {
            Binding(
                *(found.name, found.resource_pattern_type.name, found.principal, found.host),
                *(found.operation.name, found.permission_type.name),
                CLUSTER if found.restype is ResourceType.BROKER else found.restype.name,
            )
            for found in self._admin.describe_acls(_every()).result(_SECONDS)
        }

    def make(self, *rules: Binding) -> None:
        """Create rules; the controller has them at once, the broker a moment later."""
        made = self._admin.create_acls([AclBinding(*_parts(rule)) for rule in rules])
        for done in made.values():
            done.result(_SECONDS)
        wait_until(lambda: self.all() >= set(rules), "rules to be there", _SECONDS, poll=0.02)

    def delete(self, rule: Binding) -> None:
        """Delete one rule."""
        self._delete(AclBindingFilter(*_parts(rule)))
        wait_until(lambda: rule not in self.all(), "a rule to be gone", _SECONDS, poll=0.02)

    def delete_all(self, user: str | None = None, permission: str = "ANY") -> None:
        """Delete every rule, or those of a user or with a permission."""
        self._delete(_every(user and f"User:{user}", permission))

    def _delete(self, which: AclBindingFilter) -> None:
        self._admin.delete_acls([which])[which].result(_SECONDS)


def _parts(rule: Binding) -> tuple[Any, ...]:
    return (
        *(ResourceType[_CALLED.get(rule.resource, rule.resource)], rule.name),
        *(ResourcePatternType[rule.pattern], rule.principal, rule.host),
        *(AclOperation[rule.operation], AclPermissionType[rule.permission]),
    )


def _every(principal: str | None = None, permission: str = "ANY") -> AclBindingFilter:
    anything = (ResourceType.ANY, None, ResourcePatternType.ANY)
    return AclBindingFilter(*anything, principal, None, AclOperation.ANY, AclPermissionType[permission])


def deny_everybody(acls: Acls, resource: str, prefix: str, operation: str) -> None:
    """Take one operation away from everybody on an `OPEN` cluster, and leave them all others."""
    everything = rule(prefix, "ANONYMOUS", "ALL", resource, pattern=PREFIXED)
    acls.make(everything, everything._replace(operation=operation, permission="DENY"))


# --- the rights that `mmtool acls` lists ------------------------------------------------------------------


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
    """The rules of one user, from which single ones are taken away."""

    clusters: Mapping[str, GuardedCluster]
    user: str

    def replace(self, rows: Iterable[Row]) -> None:
        """Give the user these rights, and no others."""
        for alias in self.clusters:
            self._of(alias).delete_all(self.user)
        for row in rows:
            self._make(row, "ALLOW")

    @contextlib.contextmanager
    def without(self, row: Row) -> Iterator[None]:
        """Deny one right, and afterwards remove all denials: ACL sync may have copied it to the target."""
        self._make(row, "DENY")
        try:
            yield
        finally:
            for alias in self.clusters:
                self._of(alias).delete_all(self.user, "DENY")

    def _make(self, row: Row, permission: str) -> None:
        resource, pattern = row["resource_type"].upper(), row["pattern"].upper()
        about = (row["name"], self.user, row["operation"], resource)
        self._of(row["cluster"]).make(rule(*about, pattern=pattern, permission=permission))

    def _of(self, alias: str) -> Acls:
        return Acls(self.clusters[alias].lab.bootstrap)
