"""Who coordinates, and who is in a group: FindCoordinator (10), DescribeGroups (15).

librdkafka describes consumer groups only: it refuses the groups of Kafka Connect's workers, whose protocol type is
``connect``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.codec import Cursor, array, int8, string
from mmtool.kafka.wire.request import WireRequest

if TYPE_CHECKING:
    from collections.abc import Sequence


class Coordinated(IntEnum):
    """What a coordinator is asked for, by Kafka's own numbers (FindCoordinator, ``key_type``)."""

    GROUP = 0
    TRANSACTION = 1


class Coordinator(NamedTuple):
    """Which broker coordinates a group or a transactional id."""

    error_code: int
    node: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class FindCoordinatorRequest(WireRequest[Coordinator]):
    """The coordinator of one group or transactional id."""

    API_KEY = 10
    VERSIONS = (1, 2)

    key: str
    kind: Coordinated

    def body(self, version: int) -> bytes:  # noqa: ARG002  both versions are alike
        return string(self.key) + int8(self.kind)

    def answer(self, version: int, cursor: Cursor) -> Coordinator:  # noqa: ARG002  both versions are alike
        cursor.int32()
        error, _message = cursor.int16(), cursor.string()
        return Coordinator(error, cursor.int32(), cursor.string() or "", cursor.int32())


class GroupMember(NamedTuple):
    """One member, as it names itself and as the broker sees it."""

    client_id: str
    host: str


class DescribedGroup(NamedTuple):
    """One classic group of any protocol type.

    Attributes:
        state: Kafka's word, as Stable or Empty; Dead for a group that is not there.
        protocol_type: ``consumer``, ``connect``, or whatever its members call it.
    """

    group: str
    error_code: int
    state: str
    protocol_type: str
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest(WireRequest[list[DescribedGroup]]):
    """States and members of ``groups``; asked of their coordinator."""

    API_KEY = 15
    VERSIONS = (4,)

    groups: Sequence[str]

    def body(self, version: int) -> bytes:  # noqa: ARG002  one version
        return array(map(string, self.groups)) + int8(0)

    def answer(self, version: int, cursor: Cursor) -> list[DescribedGroup]:  # noqa: ARG002  one version
        cursor.int32()
        return cursor.array(lambda: _group(cursor))


def _group(cursor: Cursor) -> DescribedGroup:
    error, group = cursor.int16(), cursor.string() or ""
    state, protocol_type, _protocol = (cursor.string() or "" for _ in range(3))
    members = tuple(cursor.array(lambda: _member(cursor)))
    cursor.int32()  # authorised operations
    return DescribedGroup(group, error, state, protocol_type, members)


def _member(cursor: Cursor) -> GroupMember:
    cursor.string(), cursor.string()  # member id, group instance id
    member = GroupMember(cursor.string() or "", cursor.string() or "")
    cursor.records(), cursor.records()  # its metadata and assignment, which are its protocol's own
    return member
