"""Group requests: coordinators, listings, members, deletion, and offsets: commits (8, 9, 47)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

from mmtool.kafka.wire.acls import RIGHTS, Rights
from mmtool.kafka.wire.codec import Cursor
from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.schema import KINDS, array_of, by_key, by_topic, only, row
from mmtool.translation.types import UNKNOWN, TopicPartition, Unknown


class FetchedOffset(NamedTuple):
    """One partition's commit; ``offset`` is -1 on the wire without a commit."""

    offset: int
    metadata: str
    error_code: int


class FetchedOffsets(NamedTuple):
    """All commits of one group."""

    error_code: int
    partitions: dict[TopicPartition, FetchedOffset]


_FETCHED = by_topic("offset:int64 _leader_epoch:int32 metadata:string error_code:int16", FetchedOffset)


class OffsetFetchRequest(WireRequest[FetchedOffsets], api=9, versions=(5, 7), flexible=6):
    """All commits of ``group``.

    With ``stable`` a partition under an open transaction is refused (UNSTABLE_OFFSET_COMMIT, KIP-447); brokers before
    2.5 cannot say so, and answer what was committed before it.
    """

    group: str
    stable: bool
    BODY = row("group:string _topics:[string]=null stable:bool@7")
    ANSWER = row("_throttle:int32 partitions:fetched error_code:int16", FetchedOffsets, fetched=_FETCHED)


WHOLE_GROUPS = array_of(row("name:string _topics:[string]=null")).converted(
    out=lambda groups: [{"name": group} for group in groups]
)
"""The type of groups in a request that asks for all partitions of each."""


class OffsetFetchOfGroupsRequest(
    WireRequest[dict[str, FetchedOffsets]], api=9, versions=(8,), flexible=6, name="OffsetFetch"
):
    """All commits of many ``groups`` of one coordinator, by group (KIP-709: Kafka 3.0).

    ``stable`` as in `OffsetFetchRequest`.
    """

    groups: Collection[str]
    stable: bool
    BODY = row("groups:groups stable:bool", groups=WHOLE_GROUPS)
    ANSWER = row(
        "_throttle:int32 groups:groups",
        only,
        groups=by_key("key:string partitions:fetched error_code:int16", FetchedOffsets, fetched=_FETCHED),
    )


class OffsetCommitRequest(WireRequest[dict[TopicPartition, int]], api=8, versions=(5, 7)):
    """Commits for a group without members; the answer is an error code for each partition.

    Never with a leader epoch: consumers would wait without end for an epoch of another cluster (KIP-320).
    """

    group: str
    offsets: Mapping[TopicPartition, tuple[int, str]]
    BODY = row(
        "group:string _generation:int32=-1 _member:string=empty _instance:string=null@7 offsets:offsets",
        offsets=by_topic("offset:int64 _leader_epoch:int32=-1@6 metadata:string").converted(
            out=lambda offsets: {
                place: {"offset": offset, "metadata": text} for place, (offset, text) in offsets.items()
            }
        ),
    )
    ANSWER = row("_throttle:int32 partitions:errors", only)


class DeletedOffsets(NamedTuple):
    """The result of a deletion: of the whole request, and of each partition."""

    error_code: int
    partitions: dict[TopicPartition, int]


class OffsetDeleteRequest(WireRequest[DeletedOffsets], api=47, versions=(0,)):
    """Deletes a memberless group's commits of some partitions (KIP-496)."""

    group: str
    places: Collection[TopicPartition]
    BODY = row("group:string places:places")
    ANSWER = row("error_code:int16 _throttle:int32 partitions:errors", DeletedOffsets)


_COUNTED = 6
_CLOSED_EPOCH = -2


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


class FindCoordinatorRequest(WireRequest[Coordinator], api=10, versions=(1, 2)):
    """The coordinator of one group or transactional id."""

    key: str
    kind: Coordinated
    BODY = row("key:string kind:int8")
    ANSWER = row(
        "_throttle:int32 error_code:int16 _message:string node:int32 host:string port:int32", Coordinator
    )


class FindCoordinatorsRequest(
    WireRequest[dict[str, Coordinator]], api=10, versions=(4,), flexible=3, name="FindCoordinator"
):
    """The coordinators of many groups or transactional ids, by name (KIP-699: Kafka 3.0)."""

    keys: Sequence[str]
    kind: Coordinated
    BODY = row("kind:int8 keys:[string]")
    ANSWER = row(
        "_throttle:int32 found:found",
        only,
        found=by_key(
            "key:string node:int32 host:string port:int32 error_code:int16 _message:string", Coordinator
        ),
    )


class DeleteGroupsRequest(WireRequest[dict[str, int]], api=42, versions=(0, 1)):
    """Deletes groups without members, with their commits; the answer is an error code for each (KIP-229)."""

    groups: Sequence[str]
    BODY = row("groups:[string]")
    ANSWER = row("_throttle:int32 codes:codes", only, codes=by_key("key:string error_code:int16", only))


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


def _by_name(groups: list[DescribedGroup]) -> dict[str, DescribedGroup]:
    return {found.group: found for found in groups}


class DescribeGroupsRequest(WireRequest[dict[str, DescribedGroup]], api=15, versions=(2, 4)):
    """States, members and the client's rights (KIP-430) of ``groups``, by name; sent to their coordinator."""

    groups: Sequence[str]
    with_rights: bool = False
    BODY = row("groups:[string] with_rights:bool@3")
    _MEMBER = row(
        "_id:string instance_id:string@4 client_id:string host:string _subscription:bytes assignment:bytes",
        GroupMember,
    )
    _GROUP = row(
        "error_code:int16 group:string state:string protocol_type:string _protocol:string members:members"
        " rights:rights@3",
        DescribedGroup,
        members=array_of(_MEMBER).converted(tuple),
        rights=RIGHTS,
    )
    ANSWER = row("_throttle:int32 groups:[group]", _by_name, group=_GROUP)


class ListedGroup(NamedTuple):
    """One group that a broker coordinates; ``state`` is empty from brokers before 2.6."""

    group: str
    protocol_type: str
    state: str = ""


class ListedGroups(NamedTuple):
    """A broker's answer."""

    error_code: int
    groups: tuple[ListedGroup, ...]


class ListGroupsRequest(WireRequest[ListedGroups], api=16, versions=(2, 4, 5), flexible=3):
    """All groups that the broker coordinates, of every protocol type."""

    BODY = row("_states:[string]=empty@4 _types:[string]=empty@5")
    _GROUP = row("group:string protocol_type:string state:string@4 _type:string@5", ListedGroup)
    ANSWER = row(
        "_throttle:int32 error_code:int16 groups:groups",
        ListedGroups,
        groups=array_of(_GROUP).converted(tuple),
    )


_OTHER_KINDS = ("share", "streams")


class OtherKindsRequest(
    WireRequest[dict[str, DescribedGroup]], api=16, versions=(5,), flexible=3, name="ListGroups"
):
    """Those of ``groups`` that are share or streams groups, by name; sent to their coordinator.

    DescribeGroups and ConsumerGroupDescribe call them dead. Brokers that do not list by type have none.
    """

    groups: Sequence[str]
    BODY = row(
        "_states:[string]=empty _types:types",
        types=array_of(KINDS["string"]).converted(out=lambda _: _OTHER_KINDS),
    )
    ANSWER = ListGroupsRequest.ANSWER

    def answer(self, version: int, cursor: Cursor) -> dict[str, DescribedGroup]:
        answer: Any = super().answer(version, cursor)
        error, listed = answer
        if error:
            return {name: DescribedGroup(name, error, "", "", ()) for name in self.groups}
        asked = frozenset(self.groups)
        return {
            one.group: DescribedGroup(one.group, error, one.state, one.protocol_type, ())
            for one in listed
            if one.group in asked
        }


class ConsumerGroupDescribeRequest(WireRequest[dict[str, DescribedGroup]], api=69, versions=(0,), flexible=0):
    """States and members of groups of the new protocol (KIP-848), which DescribeGroups reports as Dead; by name."""

    groups: Sequence[str]
    BODY = row("groups:[string] _with_rights:bool=0")
    _ASSIGNED = row("_topics:[topic]", topic=row("_id:uuid _name:string _partitions:[int32]"))
    _MEMBER = row(
        "_id:string instance_id:string _rack:string has_closed:epoch client_id:string host:string"
        " _topics:[string] _pattern:string _assigned:assigned _target:assigned",
        partial(GroupMember, assignment=b""),
        epoch=KINDS["int32"].converted(lambda epoch: epoch == _CLOSED_EPOCH),
        assigned=_ASSIGNED,
    )
    _GROUP = row(
        "error_code:int16 _message:string group:string state:string _epoch:int32 _assigned_epoch:int32"
        " _assignor:string members:members _rights:int32",
        partial(DescribedGroup, protocol_type="consumer"),
        members=array_of(_MEMBER).converted(tuple),
    )
    ANSWER = row("_throttle:int32 groups:[group]", _by_name, group=_GROUP)


class HeartbeatTrial(WireRequest[int], api=12, versions=(1, 2), name="Heartbeat"):
    """A heartbeat (API 12) with a member id that no group has; its error code shows READ on the group."""

    group: str
    BODY = row("group:string _generation:int32=-1 _member:string=empty")
    ANSWER = row("_throttle:int32 error_code:int16", only)
