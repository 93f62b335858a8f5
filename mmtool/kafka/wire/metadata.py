"""Metadata (API 3): brokers, and each partition's leader, with topic ids where the broker has them (KIP-516)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mmtool.kafka.wire.codec import NO_TOPIC_ID, known_as
from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.rights import RIGHTS, Rights
from mmtool.kafka.wire.schema import array_of, row
from mmtool.translation.known import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mmtool.translation.types import TopicId


class BrokerAddress(NamedTuple):
    """One broker, as its cluster advertises it."""

    node: int
    host: str
    port: int


class PartitionLeader(NamedTuple):
    """The leader and replicas of a partition; ``error_code`` 5 and ``leader`` -1 while there is none."""

    partition: int
    error_code: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()


class TopicMetadata(NamedTuple):
    """One topic; where it has no id its name takes the id's place (see `known_as`).

    Attributes:
        rights: The client's operations on it, where they were requested and the broker returns them.
    """

    name: str
    topic_id: TopicId
    error_code: int
    partitions: list[PartitionLeader]
    rights: Rights | Unknown = UNKNOWN


class MetadataAnswer(NamedTuple):
    """A cluster as one broker sees it."""

    cluster_id: str
    brokers: list[BrokerAddress]
    topics: list[TopicMetadata]


def _topic(name: str, topic_id: TopicId = NO_TOPIC_ID, **others: Any) -> TopicMetadata:
    return TopicMetadata(name, known_as(name, topic_id), **others)


class MetadataRequest(WireRequest[MetadataAnswer], api=3, versions=(7, 11, 12), flexible=9):
    """Metadata of ``topics``, or of every topic that the client may see when it is None; never creates one.

    ``with_rights``: and what we may do with them (KIP-430).
    """

    topics: Sequence[str] | None
    with_rights: bool = False
    BODY = row(
        "topics:topics _create:bool=0 with_rights:bool@8",
        topics=array_of(row("_id:uuid=zero@10 name:string")).converted(
            out=lambda names: names and [{"name": name} for name in names]
        ),
    )
    _PARTITION = row(
        "error_code:int16 partition:int32 leader:int32 leader_epoch:int32"
        " replicas:[int32] in_sync:[int32] _offline:[int32]",
        PartitionLeader,
    )
    _TOPIC = row(
        "error_code:int16 name:string topic_id:uuid@10 _internal:bool partitions:[partition] rights:rights@8",
        _topic,
        partition=_PARTITION,
        rights=RIGHTS,
    )
    ANSWER = row(
        "_throttle:int32 brokers:[broker] cluster_id:string _controller:int32 topics:[topic]",
        MetadataAnswer,
        broker=row("node:int32 host:string port:int32 _rack:string", BrokerAddress),
        topic=_TOPIC,
    )
