"""Group offset requests to the coordinator: OffsetCommit (8), OffsetFetch (9) and OffsetDelete (47)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.kafka.wire.request import WireRequest
from mmtool.kafka.wire.schema import array_of, by_key, by_topic, only, row
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


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


class OffsetFetchOfGroupsRequest(
    WireRequest[dict[str, FetchedOffsets]], api=9, versions=(8,), flexible=6, name="OffsetFetch"
):
    """All commits of many ``groups`` of one coordinator, by group (KIP-709: Kafka 3.0).

    ``stable`` as in `OffsetFetchRequest`.
    """

    groups: Collection[str]
    stable: bool
    BODY = row(
        "groups:groups stable:bool",
        groups=array_of(row("name:string _topics:[string]=null")).converted(
            out=lambda groups: [{"name": group} for group in groups]
        ),
    )
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
