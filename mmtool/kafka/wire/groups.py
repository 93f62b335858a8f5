"""Group requests: coordinators, listings, members, deletion.

FindCoordinator (10), DescribeGroups (15), ListGroups (16), DeleteGroups (42), ConsumerGroupDescribe (69).

librdkafka describes consumer groups only: it refuses the groups of Kafka Connect's workers, whose protocol type is
``connect``. And it can end the whole process when a broker goes away while it describes one (its issue 4605), which a
`replicate` that outlives a region must not risk.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.codec import NO_TAGS, Cursor, array, compact_array, compact_string, int8, string
from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.rights import Rights, rights_of
from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence


_COUNTED = 6
_CLOSED_EPOCH = -2
_WITH_INSTANCE = 4  # of DescribeGroups: the member's group instance id (KIP-345), and rights
_WITH_STATES = 4  # of ListGroups (KIP-518)
_WITH_TYPES = 5  # of ListGroups (KIP-848)


class Coordinated(IntEnum):
    """What a coordinator is responsible for, by Kafka's own numbers (FindCoordinator, ``key_type``)."""

    GROUP = 0
    TRANSACTION = 1


class Coordinator(NamedTuple):
    """The broker that coordinates a group or a transactional id."""

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


@dataclass(frozen=True, slots=True)
class DeleteGroupRequest(WireRequest[int]):
    """Deletes a group without members, with its commits; the answer is an error code (KIP-229)."""

    API_KEY = 42
    VERSIONS = (0, 1)

    group: str

    def body(self, version: int) -> bytes:  # noqa: ARG002  both versions are alike
        return array([string(self.group)])

    def answer(self, version: int, cursor: Cursor) -> int:  # noqa: ARG002  both versions are alike
        cursor.int32()
        ((_name, code),) = cursor.array(lambda: (cursor.string(), cursor.int16()))
        return code


@dataclass(frozen=True, slots=True)
class FindCoordinatorsRequest(WireRequest[dict[str, Coordinator]]):
    """The coordinators of many groups or transactional ids, by name (KIP-699: Kafka 3.0)."""

    API_KEY = 10
    VERSIONS = (4,)
    FLEXIBLE_FROM = 3

    keys: Sequence[str]
    kind: Coordinated

    def body(self, version: int) -> bytes:  # noqa: ARG002  one version
        return int8(self.kind) + compact_array(map(compact_string, self.keys)) + NO_TAGS

    def answer(self, version: int, cursor: Cursor) -> dict[str, Coordinator]:  # noqa: ARG002  one version
        cursor.int32()
        found = dict(cursor.compact_array(lambda: _coordinator(cursor)))
        cursor.tags()
        return found


def _coordinator(cursor: Cursor) -> tuple[str, Coordinator]:
    key, node = cursor.compact_string() or "", cursor.int32()
    host, port = cursor.compact_string() or "", cursor.int32()
    error, _message = cursor.int16(), cursor.compact_string()
    cursor.tags()
    return key, Coordinator(error, node, host, port)


class GroupMember(NamedTuple):
    """One member, as it names itself and as the broker sees it.

    Attributes:
        assignment: The assignment by its leader, in the protocol's own format; empty while the group rebalances.
        instance_id: Its ``group.instance.id``, if it is a static member.
        has_closed: Whether it has left until it joins again. Only the new protocol tells (KIP-848): a static member
            that closes commits the epoch -2.
    """

    client_id: str
    host: str
    assignment: bytes
    instance_id: str = ""
    has_closed: bool = False

    @property
    def holds_partitions(self) -> bool:
        """Whether a consumer's assignment has any topic.

        The format is a version (2 bytes), then a counted list of topics (ConsumerProtocol).
        """
        return (
            len(self.assignment) >= _COUNTED and int.from_bytes(self.assignment[2:_COUNTED], signed=True) > 0
        )


class DescribedGroup(NamedTuple):
    """One classic group of any protocol type.

    Attributes:
        state: Kafka's word, as Stable or Empty; Dead for a group that does not exist.
        protocol_type: ``consumer``, ``connect``, or any other word of its members.
        rights: The client's operations on it, where they were requested and the broker returns them.
    """

    group: str
    error_code: int
    state: str
    protocol_type: str
    members: tuple[GroupMember, ...]
    rights: Rights | Unknown = UNKNOWN


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest(WireRequest[dict[str, DescribedGroup]]):
    """States, members and the client's rights (KIP-430) of ``groups``, by name; sent to their coordinator."""

    API_KEY = 15
    VERSIONS = (2, 4)

    groups: Sequence[str]
    with_rights: bool = False

    def body(self, version: int) -> bytes:
        return array(map(string, self.groups)) + (
            int8(self.with_rights) if version >= _WITH_INSTANCE else b""
        )

    def answer(self, version: int, cursor: Cursor) -> dict[str, DescribedGroup]:
        cursor.int32()
        return {found.group: found for found in cursor.array(lambda: _group(version, cursor))}


def _group(version: int, cursor: Cursor) -> DescribedGroup:
    error, group = cursor.int16(), cursor.string() or ""
    state, protocol_type, _protocol = (cursor.string() or "" for _ in range(3))
    members = tuple(cursor.array(lambda: _member(version, cursor)))
    rights = rights_of(cursor) if version >= _WITH_INSTANCE else UNKNOWN
    return DescribedGroup(group, error, state, protocol_type, members, rights)


def _member(version: int, cursor: Cursor) -> GroupMember:
    cursor.string()  # member id
    instance_id = (cursor.string() or "") if version >= _WITH_INSTANCE else ""
    client_id, host = cursor.string() or "", cursor.string() or ""
    cursor.records()  # its subscription
    return GroupMember(client_id, host, bytes(cursor.records() or b""), instance_id)


class ListedGroup(NamedTuple):
    """One group that a broker coordinates; ``state`` is empty from brokers before 2.6."""

    group: str
    protocol_type: str
    state: str


class ListedGroups(NamedTuple):
    """A broker's answer."""

    error_code: int
    groups: tuple[ListedGroup, ...]


@dataclass(frozen=True, slots=True)
class ListGroupsRequest(WireRequest[ListedGroups]):
    """All groups that the broker coordinates, of every protocol type."""

    API_KEY = 16
    VERSIONS = (2, 4, 5)
    FLEXIBLE_FROM = 3

    def body(self, version: int) -> bytes:
        if version < _WITH_STATES:
            return b""
        filters = 2 if version >= _WITH_TYPES else 1
        return compact_array(()) * filters + NO_TAGS

    def answer(self, version: int, cursor: Cursor) -> ListedGroups:
        cursor.int32()
        error = cursor.int16()
        if version < _WITH_STATES:
            return ListedGroups(error, tuple(cursor.array(lambda: _listed(cursor))))
        return ListedGroups(error, tuple(cursor.compact_array(lambda: _listed_with_state(version, cursor))))


def _listed(cursor: Cursor) -> ListedGroup:
    return ListedGroup(cursor.string() or "", cursor.string() or "", "")


def _listed_with_state(version: int, cursor: Cursor) -> ListedGroup:
    listed = ListedGroup(*(cursor.compact_string() or "" for _ in range(3)))
    if version >= _WITH_TYPES:
        cursor.compact_string()
    cursor.tags()
    return listed


OTHER_KINDS = ("share", "streams")
"""ListGroups' types of groups that accept no consumer offsets (KIP-932, KIP-1071)."""


@dataclass(frozen=True, slots=True)
class OtherKindsRequest(WireRequest[dict[str, DescribedGroup]]):
    """Those of ``groups`` that are share or streams groups, by name; sent to their coordinator.

    DescribeGroups and ConsumerGroupDescribe call them dead. Brokers that do not list by type have none.
    """

    API_KEY = 16
    VERSIONS = (_WITH_TYPES,)
    FLEXIBLE_FROM = 3

    groups: Sequence[str]

    def body(self, version: int) -> bytes:  # noqa: ARG002  one version
        return compact_array(()) + compact_array(map(compact_string, OTHER_KINDS)) + NO_TAGS

    def answer(self, version: int, cursor: Cursor) -> dict[str, DescribedGroup]:
        cursor.int32()
        error = cursor.int16()
        listed = cursor.compact_array(lambda: _listed_with_state(version, cursor))
        if error:
            return {name: DescribedGroup(name, error, "", "", ()) for name in self.groups}
        asked = frozenset(self.groups)
        return {
            one.group: DescribedGroup(one.group, error, one.state, one.protocol_type, ())
            for one in listed
            if one.group in asked
        }


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescribeRequest(WireRequest[dict[str, DescribedGroup]]):
    """States and members of groups of the new protocol (KIP-848), which DescribeGroups reports as Dead; by name."""

    API_KEY = 69
    VERSIONS = (0,)
    FLEXIBLE_FROM = 0

    groups: Sequence[str]

    def body(self, version: int) -> bytes:  # noqa: ARG002  one version
        return compact_array(map(compact_string, self.groups)) + int8(0) + NO_TAGS

    def answer(self, version: int, cursor: Cursor) -> dict[str, DescribedGroup]:  # noqa: ARG002  one version
        cursor.int32()
        return {found.group: found for found in cursor.compact_array(lambda: _consumer_group(cursor))}


def _consumer_group(cursor: Cursor) -> DescribedGroup:
    error, _message = cursor.int16(), cursor.compact_string()
    group, state = cursor.compact_string() or "", cursor.compact_string() or ""
    cursor.int32(), cursor.int32(), cursor.compact_string()  # group epoch, assignment epoch, assignor
    members = tuple(cursor.compact_array(lambda: _consumer(cursor)))
    cursor.int32()  # authorised operations
    cursor.tags()
    return DescribedGroup(group, error, state, "consumer", members)


def _consumer(cursor: Cursor) -> GroupMember:
    _member_id, instance_id, _rack = (cursor.compact_string() or "" for _ in range(3))
    epoch = cursor.int32()
    client_id, host = cursor.compact_string() or "", cursor.compact_string() or ""
    cursor.compact_array(cursor.compact_string), cursor.compact_string()  # what it subscribes to
    for _ in range(2):  # what it has, and what it shall have
        cursor.compact_array(lambda: _assigned(cursor))
        cursor.tags()
    cursor.tags()
    return GroupMember(client_id, host, b"", instance_id, epoch == _CLOSED_EPOCH)


def _assigned(cursor: Cursor) -> None:
    cursor.topic_id(), cursor.compact_string(), cursor.compact_array(cursor.int32)
    cursor.tags()
