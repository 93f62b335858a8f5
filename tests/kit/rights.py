"""A cluster that asks for rights and denies none, until one is taken away from everybody."""

from __future__ import annotations

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from mmtool.lab.cluster import Shape

OPEN = Shape(
    properties={
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",  # what has no rule is free, brokers' own talk included
    }
)
_SECONDS = 20


class Rights:
    """``rights(kind, prefix, operation)`` takes one away from everybody, and `give_back` gives all of them back."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})

    def __call__(self, kind: ResourceType, prefix: str, operation: AclOperation) -> None:
        rules = [
            AclBinding(kind, prefix, ResourcePatternType.PREFIXED, "User:ANONYMOUS", "*", what, how)
            for what, how in (
                (AclOperation.ALL, AclPermissionType.ALLOW),
                (operation, AclPermissionType.DENY),
            )
        ]
        for done in self._admin.create_acls(rules).values():
            done.result(_SECONDS)

    def give_back(self) -> None:
        """Removes every rule of the cluster."""
        every = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        self._admin.delete_acls([every])[every].result(_SECONDS)
