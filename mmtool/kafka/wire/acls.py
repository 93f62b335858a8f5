"""ACL requests: DescribeAcls (29), CreateAcls (30), DeleteAcls (31); and the client's own rights (KIP-430)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import chain
from typing import Any, NamedTuple

from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.schema import KINDS, FieldType, array_of, only, row
from mmtool.plan.failover.acl_rules import CLUSTER, LITERAL, PREFIXED, TOPIC, TRANSACTIONAL_ID, Binding
from mmtool.translation.types import UNKNOWN, Unknown

_NOT_ASKED = -(1 << 31)


class AclOperation(IntEnum):
    """Kafka's numbers of the operations (``AclOperation``)."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Rights(NamedTuple):
    """The bits; on a cluster without an authorizer every operation is allowed."""

    operations: int

    def may(self, operation: AclOperation) -> bool:
        """Whether the client has the right to an operation on the resource."""
        return bool(self.operations >> operation & 1)


def _rights(operations: int) -> Rights | Unknown:
    return UNKNOWN if operations == _NOT_ASKED else Rights(operations)


RIGHTS = KINDS["int32"].converted(_rights)
"""The type of the authorized operations in a response; UNKNOWN where they were not requested."""


_ANY = 1


def _words(names: dict[int, str]) -> FieldType:
    """The type of Kafka's numbers by their names, or a number itself where a newer broker has more of them.

    None is written as Kafka's word for any.
    """
    numbers: dict[str | None, int] = {name: number for number, name in names.items()} | {None: _ANY}
    return KINDS["int8"].converted(lambda number: names.get(number, str(number)), numbers.__getitem__)


_PERMISSIONS = {2: "DENY", 3: "ALLOW"}
KNOWN_WORDS = frozenset((*_PERMISSIONS.values(), *AclOperation.__members__))
"""The permissions and operations that a rule can be created with; others are numbers of a newer broker."""
_WORDS = {
    "resource": _words({2: TOPIC, 4: CLUSTER, 5: TRANSACTIONAL_ID}),
    "pattern": _words({3: LITERAL, 4: PREFIXED}),
    "permission": _words(_PERMISSIONS),
    "operation": _words({operation.value: operation.name for operation in AclOperation}),
}
"""Kafka's enums ``ResourceType``, ``PatternType``, ``AclPermissionType`` and ``AclOperation``."""
_ACL = "principal:string host:string operation:operation permission:permission"
_BINDING = row(f"resource:resource name:string pattern:pattern {_ACL}", **_WORDS).converted(
    out=Binding._asdict
)
"""An ACL, or the filter that matches that ACL alone: both have the same format."""


class ListedBindings(NamedTuple):
    """A broker's answer."""

    error_code: int
    bindings: frozenset[Binding]


def _of_resource(acls: list[dict[str, str]], **of: Any) -> list[Binding]:
    return [Binding(**acl, **of) for acl in acls]


class DescribeAclsRequest(WireRequest[ListedBindings], api=29, versions=(1,)):
    """Every rule that a broker applies to one kind of resource (KIP-140, patterns since KIP-290: Kafka 2.0).

    Attributes:
        name: Only the rules for this topic by its name.
        resource: The kind; None for rules about every kind.
    """

    name: str | None = None
    resource: str | None = TOPIC
    BODY = row(
        "resource:resource name:string _pattern:int8=1 _principal:string=null _host:string=null"
        " _operation:int8=1 _permission:int8=1",
        **_WORDS,
    )
    _RESOURCE = row(
        "resource:resource name:string pattern:pattern acls:[acl]",
        _of_resource,
        acl=row(_ACL, **_WORDS),
        **_WORDS,
    )
    ANSWER = row(
        "_throttle:int32 error_code:int16 _message:string bindings:bindings",
        ListedBindings,
        bindings=array_of(_RESOURCE).converted(lambda listed: frozenset(chain.from_iterable(listed))),
    )


class CreateAclsRequest(WireRequest[list[int]], api=30, versions=(1,)):
    """Creates rules; an error code for each. Any broker forwards it to the controller (KIP-590)."""

    bindings: Sequence[Binding]
    BODY = row("bindings:[binding]", binding=_BINDING)
    ANSWER = row("_throttle:int32 errors:[error]", only, error=row("error_code:int16 _message:string", only))


def _deleted(error_code: int, errors: list[int]) -> int:
    return next((code for code in (error_code, *errors) if code), 0)


class DeleteAclsRequest(WireRequest[list[int]], api=31, versions=(1,)):
    """Deletes exactly these rules, where they exist; an error code for each."""

    bindings: Sequence[Binding]
    BODY = row("bindings:[binding]", binding=_BINDING)
    _MATCH = row(
        "error_code:int16 _message:string _resource:int8 _name:string _pattern:int8 _principal:string _host:string"
        " _operation:int8 _permission:int8",
        only,
    )
    _DELETED = row("error_code:int16 _message:string errors:[match]", _deleted, match=_MATCH)
    ANSWER = row("_throttle:int32 errors:[deleted]", only, deleted=_DELETED)


class ClusterRights(NamedTuple):
    """The operations that the client may do on the cluster."""

    error_code: int
    rights: Rights | Unknown


class DescribeClusterRequest(WireRequest[ClusterRights], api=60, versions=(0,), flexible=0):
    """The client's rights on the cluster (KIP-700: Kafka 2.8)."""

    BODY = row("_with_rights:bool=1")
    ANSWER = row(
        "_throttle:int32 error_code:int16 _message:string _id:string _controller:int32 _brokers:[broker] rights:rights",
        ClusterRights,
        broker=row("_node:int32 _host:string _port:int32 _rack:string"),
        rights=RIGHTS,
    )
