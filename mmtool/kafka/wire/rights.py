"""What we may do with a topic or a group, as brokers tell it (KIP-430): one bit for each ``AclOperation``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from mmtool.kafka.wire.codec import Cursor

_NOT_ASKED = -(1 << 31)
_READ = 3


class Rights(NamedTuple):
    """The bits; on a cluster without an authorizer everything is allowed."""

    operations: int

    @property
    def may_read(self) -> bool:
        """READ: of a topic to commit in it, of a group to commit for it."""
        return bool(self.operations >> _READ & 1)


def rights_of(cursor: Cursor) -> Rights | Unknown:
    """UNKNOWN where nobody asked."""
    operations = cursor.int32()
    return UNKNOWN if operations == _NOT_ASKED else Rights(operations)
