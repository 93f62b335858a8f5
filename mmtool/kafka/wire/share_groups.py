"""Requests about where the share partitions of share groups start (KIP-932); brokers have them from 4.2 on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from mmtool.kafka.wire.groups import WHOLE_GROUPS
from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.schema import array_of, by_key, by_topic, only, row
from mmtool.translation.types import TopicPartition


class ShareStart(NamedTuple):
    """Where one share partition starts.

    Attributes:
        start: The first offset that is not acknowledged; -1 on the wire if the group has not been given the partition.
        error_code: Why the answer leaves it out.
        lag: Records from there on that are not acknowledged (KIP-1226); -1 on the wire if the broker has not counted.
    """

    start: int
    error_code: int
    lag: int = -1


class ShareStarts(NamedTuple):
    """All share partitions of one group."""

    error_code: int
    partitions: dict[TopicPartition, ShareStart]


class DescribeShareGroupOffsetsRequest(
    WireRequest[dict[str, ShareStarts]], api=90, versions=(0, 1), flexible=0
):
    """The share partitions of ``groups``, by group; sent to their coordinator, which finds no other kinds of groups."""

    groups: Collection[str]
    BODY = row("groups:groups", groups=WHOLE_GROUPS)
    _PARTITIONS = by_topic(
        "start:int64 _leader_epoch:int32 lag:int64@1 error_code:int16 _message:string",
        ShareStart,
        of_topic="_id:uuid",
    )
    ANSWER = row(
        "_throttle:int32 groups:groups",
        only,
        groups=by_key(
            "key:string partitions:starts error_code:int16 _message:string", ShareStarts, starts=_PARTITIONS
        ),
    )


class AlteredStarts(NamedTuple):
    """The result of a change: of the whole request, and of each partition."""

    error_code: int
    partitions: dict[TopicPartition, int]


class AlterShareGroupOffsetsRequest(WireRequest[AlteredStarts], api=91, versions=(0,), flexible=0):
    """Sets where share partitions of a group without members start; each partition is accepted or refused alone."""

    group: str
    starts: Mapping[TopicPartition, int]
    BODY = row(
        "group:string starts:starts",
        starts=by_topic("start:int64").converted(
            out=lambda starts: {place: {"start": start} for place, start in starts.items()}
        ),
    )
    ANSWER = row(
        "_throttle:int32 error_code:int16 _message:string partitions:codes",
        AlteredStarts,
        codes=by_topic("error_code:int16 _message:string", only, of_topic="_id:uuid"),
    )


class DeletedStarts(NamedTuple):
    """The result of a deletion: of the whole request, and of each topic."""

    error_code: int
    topics: dict[str, int]


class DeleteShareGroupOffsetsRequest(WireRequest[DeletedStarts], api=92, versions=(0,), flexible=0):
    """Deletes the share partitions of whole ``topics`` from a group without members."""

    group: str
    topics: Collection[str]
    BODY = row(
        "group:string topics:topics",
        topics=array_of(row("name:string")).converted(out=lambda names: [{"name": name} for name in names]),
    )
    ANSWER = row(
        "_throttle:int32 error_code:int16 _message:string topics:codes",
        DeletedStarts,
        codes=by_key("key:string _id:uuid error_code:int16 _message:string", only),
    )
