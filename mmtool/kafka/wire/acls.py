"""ACL requests: DescribeAcls (29), CreateAcls (30), DeleteAcls (31); and a cluster's own rights and configs.

librdkafka sends these to one broker. Each broker uses its own copy of the rules, and only that broker knows which it
has: so mmtool asks each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.codec import NO_TAGS, Cursor, array, int8, string
from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.rights import Rights, rights_of
from mmtool.plan.failover.acl_rules import CLUSTER, LITERAL, PREFIXED, TOPIC, TRANSACTIONAL_ID, Binding

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from mmtool.translation.known import Unknown

_BROKER = 4
_ANY = 1
_RESOURCES = {2: TOPIC, 4: CLUSTER, 5: TRANSACTIONAL_ID}
_PATTERNS = {3: LITERAL, 4: PREFIXED}
_PERMISSIONS = {2: "DENY", 3: "ALLOW"}
_OPERATIONS = {
    2: "ALL",
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
    13: "CREATE_TOKENS",
    14: "DESCRIBE_TOKENS",
    15: "TWO_PHASE_COMMIT",
}
"""Kafka's numbers and names in its enums ``ResourceType``, ``PatternType``, ``AclPermissionType``, ``AclOperation``."""


class ListedBindings(NamedTuple):
    """A broker's answer."""

    error_code: int
    bindings: frozenset[Binding]


@dataclass(frozen=True, slots=True)
class DescribeAclsRequest(WireRequest[ListedBindings]):
    """Every rule that a broker applies to one kind of resource (KIP-140, patterns since KIP-290: Kafka 2.0).

    Attributes:
        name: Only the rules for this topic by its name.
        resource: The kind; None for rules about every kind.
    """

    API_KEY = 29
    VERSIONS = (1,)

    name: str | None = None
    resource: str | None = TOPIC

    def body(self, version: int) -> bytes:  # noqa: ARG002  one version
        kind = _ANY if self.resource is None else _number(_RESOURCES, self.resource)
        return int8(kind) + string(self.name) + int8(_ANY) + string(None) * 2 + int8(_ANY) * 2

    def answer(self, version: int, cursor: Cursor) -> ListedBindings:  # noqa: ARG002  one version
        cursor.int32()
        error, _message = cursor.int16(), cursor.string()
        return ListedBindings(error, frozenset(b for of in cursor.array(lambda: _listed(cursor)) for b in of))


def _listed(cursor: Cursor) -> list[Binding]:
    resource = _named(_RESOURCES, cursor.int8())
    name, pattern = cursor.string() or "", _named(_PATTERNS, cursor.int8())
    return cursor.array(lambda: Binding(name, pattern, *_entry(cursor), resource))


def _entry(cursor: Cursor) -> tuple[str, str, str, str]:
    who, host = cursor.string() or "", cursor.string() or ""
    return who, host, _named(_OPERATIONS, cursor.int8()), _named(_PERMISSIONS, cursor.int8())


def _named(names: Mapping[int, str], number: int) -> str:
    """Kafka's name of a number, or the number itself where a newer broker has more of them."""
    return names.get(number, str(number))


def _number(names: Mapping[int, str], wanted: str) -> int:
    return next(number for number, name in names.items() if name == wanted)


def _written(binding: Binding) -> bytes:
    """Encode an ACL, or the filter that matches that ACL alone: both have the same format."""
    kind, pattern, permission, operation = (
        _number(names, wanted)
        for names, wanted in (
            (_RESOURCES, binding.resource),
            (_PATTERNS, binding.pattern),
            (_PERMISSIONS, binding.permission),
            (_OPERATIONS, binding.operation),
        )
    )
    names = string(binding.principal) + string(binding.host)
    return int8(kind) + string(binding.name) + int8(pattern) + names + int8(operation) + int8(permission)


@dataclass(frozen=True, slots=True)
class CreateAclsRequest(WireRequest[list[int]]):
    """Creates rules; an error code for each. Any broker forwards it to the controller (KIP-590)."""

    API_KEY = 30
    VERSIONS = (1,)

    bindings: Sequence[Binding]

    def body(self, version: int) -> bytes:  # noqa: ARG002  one version
        return array(map(_written, self.bindings))

    def answer(self, version: int, cursor: Cursor) -> list[int]:  # noqa: ARG002  one version
        cursor.int32()
        return cursor.array(lambda: (cursor.int16(), cursor.string())[0])


@dataclass(frozen=True, slots=True)
class DeleteAclsRequest(WireRequest[list[int]]):
    """Deletes exactly these rules, where they exist; an error code for each."""

    API_KEY = 31
    VERSIONS = (1,)

    bindings: Sequence[Binding]

    def body(self, version: int) -> bytes:  # noqa: ARG002  one version
        return array(map(_written, self.bindings))

    def answer(self, version: int, cursor: Cursor) -> list[int]:  # noqa: ARG002  one version
        cursor.int32()
        return cursor.array(lambda: _deleted(cursor))


def _deleted(cursor: Cursor) -> int:
    error, _message = cursor.int16(), cursor.string()
    return next((code for code in (error, *cursor.array(lambda: _match(cursor))) if code), 0)


def _match(cursor: Cursor) -> int:
    error, _message = cursor.int16(), cursor.string()
    cursor.int8(), cursor.string(), cursor.int8()
    _entry(cursor)
    return error


class ClusterRights(NamedTuple):
    """The operations that the client may do on the cluster."""

    error_code: int
    rights: Rights | Unknown


@dataclass(frozen=True, slots=True)
class DescribeClusterRequest(WireRequest[ClusterRights]):
    """The client's rights on the cluster (KIP-700: Kafka 2.8)."""

    API_KEY = 60
    VERSIONS = (0,)
    FLEXIBLE_FROM = 0

    def body(self, version: int) -> bytes:  # noqa: ARG002  one version
        return int8(1) + NO_TAGS

    def answer(self, version: int, cursor: Cursor) -> ClusterRights:  # noqa: ARG002  one version
        cursor.int32()
        error, _message, _id = cursor.int16(), cursor.compact_string(), cursor.compact_string()
        cursor.int32()  # the controller
        cursor.compact_array(lambda: _broker(cursor))
        return ClusterRights(error, rights_of(cursor))


def _broker(cursor: Cursor) -> None:
    cursor.int32(), cursor.compact_string(), cursor.int32(), cursor.compact_string()
    cursor.tags()


class BrokerConfig(NamedTuple):
    """Some of a broker's properties; those that are not set are not among them.

    Attributes:
        values: None for one that the broker hides (KIP-226: a property of unknown type may be a secret).
    """

    error_code: int
    values: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class DescribeBrokerConfigRequest(WireRequest[BrokerConfig]):
    """Some properties of one broker; sent to that broker."""

    API_KEY = 32
    VERSIONS = (1,)

    node: int
    names: Collection[str]

    def body(self, version: int) -> bytes:  # noqa: ARG002  one version
        of = int8(_BROKER) + string(str(self.node)) + array(map(string, self.names))
        return array([of]) + int8(0)

    def answer(self, version: int, cursor: Cursor) -> BrokerConfig:  # noqa: ARG002  one version
        cursor.int32()
        (config,) = cursor.array(lambda: _config(cursor))
        return config


def _config(cursor: Cursor) -> BrokerConfig:
    error, _message, _type, _name = cursor.int16(), cursor.string(), cursor.int8(), cursor.string()
    return BrokerConfig(error, dict(cursor.array(lambda: _entry_of(cursor))))


def _entry_of(cursor: Cursor) -> tuple[str, str | None]:
    name, value = cursor.string() or "", cursor.string()
    for _ in range(3):
        cursor.int8()  # read only, its source, sensitive
    cursor.array(lambda: (cursor.string(), cursor.string(), cursor.int8()))
    return name, value
