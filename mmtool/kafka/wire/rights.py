"""The client's rights on a topic, a group or the cluster, as brokers return them (KIP-430): a bit per operation."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from mmtool.kafka.wire.codec import Cursor

_NOT_ASKED = -(1 << 31)


class Operation(IntEnum):
    """Kafka's numbers of the operations (``AclOperation``)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11


class Rights(NamedTuple):
    """The bits; on a cluster without an authorizer every operation is allowed."""

    operations: int

    def may(self, operation: Operation) -> bool:
        """Whether the client has the right to an operation on the resource."""
        return bool(self.operations >> operation & 1)

    @property
    def may_read(self) -> bool:
        """Whether the client has READ: on a topic and on a group it is needed to commit."""
        return self.may(Operation.READ)

    @property
    def may_write(self) -> bool:
        """Whether the client has WRITE on the topic."""
        return self.may(Operation.WRITE)

    @property
    def may_alter(self) -> bool:
        """Whether the client has ALTER: on the cluster it is needed to create and delete ACLs."""
        return self.may(Operation.ALTER)


def rights_of(cursor: Cursor) -> Rights | Unknown:
    """Read the authorized operations from a response; UNKNOWN where they were not requested."""
    operations = cursor.int32()
    return UNKNOWN if operations == _NOT_ASKED else Rights(operations)
