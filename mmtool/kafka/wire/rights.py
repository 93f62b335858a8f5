"""What we may do with a topic, a group or the cluster, as brokers tell it (KIP-430): a bit for each operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from mmtool.kafka.wire.codec import Cursor

_NOT_ASKED = -(1 << 31)
_READ = 3
_WRITE = 4
_ALTER = 7


class Rights(NamedTuple):
    """The bits; on a cluster without an authorizer everything is allowed."""

    operations: int

    @property
    def may_read(self) -> bool:
        """READ: of a topic to commit in it, of a group to commit for it."""
        return bool(self.operations >> _READ & 1)

    @property
    def may_write(self) -> bool:
        """WRITE: of a topic."""
        return bool(self.operations >> _WRITE & 1)

    @property
    def may_alter(self) -> bool:
        """ALTER: of the cluster to make and to delete ACLs."""
        return bool(self.operations >> _ALTER & 1)


def rights_of(cursor: Cursor) -> Rights | Unknown:
    """UNKNOWN where nobody asked."""
    operations = cursor.int32()
    return UNKNOWN if operations == _NOT_ASKED else Rights(operations)
