"""Read and add topic ACLs on one cluster. Blocking; the engine calls it in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, admin

from mmtool.kafka.errors import failure_of
from mmtool.kafka.kept_clients import admin_client
from mmtool.plan.topics.acls import TopicAcl
from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.config import ClusterSettings

_TIMEOUT_SECONDS = 30.0
READ_ACLS = "DESCRIBE on the cluster (to read ACLs)"
_UNSPOKEN = frozenset({"UNKNOWN", "ANY"})
_NOT_KNOWN = "librdkafka does not know the operation or permission of this ACL"
"""Problem text for an ACL that is left out: librdkafka would refuse the whole request that contains it."""


class AclAdmin:
    """Admin calls about topic ACLs."""

    def __init__(self, cluster: ClusterSettings) -> None:
        self._cluster = cluster

    @property
    def _client(self) -> admin.AdminClient:
        return admin_client(self._cluster).client

    def topic_acls(self) -> list[TopicAcl] | Unknown:
        """List every ACL on a topic by its whole name (LITERAL); UNKNOWN where the cluster has no authorizer.

        Raises:
            NotAuthorisedError: without DESCRIBE on the cluster.
            UnreachableError: the cluster does not answer.
        """
        every = admin.AclBindingFilter(
            admin.ResourceType.TOPIC,
            None,
            admin.ResourcePatternType.LITERAL,
            None,
            None,
            admin.AclOperation.ANY,
            admin.AclPermissionType.ANY,
        )
        try:
            found = self._client.describe_acls(every, request_timeout=_TIMEOUT_SECONDS).result(
                _TIMEOUT_SECONDS + 5
            )
        except KafkaException as error:
            if error.args[0].code() == KafkaError.SECURITY_DISABLED:
                return UNKNOWN
            raise failure_of(
                self._cluster,
                error.args[0],
                "reading ACLs",
                right=READ_ACLS,
            ) from error
        return [
            TopicAcl(b.name, b.principal, b.host, b.operation.name, b.permission_type.name) for b in found
        ]

    def add(self, acls: Iterable[TopicAcl]) -> dict[TopicAcl, str]:
        """Create ACLs; return the broker's error as text for each ACL that could not be created."""
        wanted = list(acls)
        failed = {acl: _NOT_KNOWN for acl in wanted if _UNSPOKEN & {acl.operation, acl.permission}}
        bindings = {
            acl: admin.AclBinding(
                admin.ResourceType.TOPIC,
                acl.topic,
                admin.ResourcePatternType.LITERAL,
                acl.principal,
                acl.host,
                admin.AclOperation[acl.operation],
                admin.AclPermissionType[acl.permission],
            )
            for acl in wanted
            if acl not in failed
        }
        if not bindings:
            return failed
        futures: dict[Any, Any] = self._client.create_acls(
            list(bindings.values()), request_timeout=_TIMEOUT_SECONDS
        )
        for acl, binding in bindings.items():
            try:
                futures[binding].result(_TIMEOUT_SECONDS + 5)
            except KafkaException as error:
                failed[acl] = f"{error.args[0].name()}: {error.args[0].str()}"
        return failed
