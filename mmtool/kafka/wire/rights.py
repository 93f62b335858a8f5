"""The client's rights on a topic, a group or the cluster, as brokers return them (KIP-430): a bit per operation."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from mmtool.kafka.wire.schema import KINDS
from mmtool.translation.known import UNKNOWN, Unknown

_NOT_ASKED = -(1 << 31)


class Operation(IntEnum):
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


def _rights(operations: int) -> Rights | Unknown:
    return UNKNOWN if operations == _NOT_ASKED else Rights(operations)


RIGHTS = KINDS["int32"].converted(_rights)
"""The type of the authorized operations in a response; UNKNOWN where they were not requested."""
