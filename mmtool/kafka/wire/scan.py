"""Read logs over the wire: the bounds of many partitions, all batches of a range, and the producers of a partition."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from mmtool.kafka.batches import AbortedFilter, iter_batches
from mmtool.kafka.errors import CUT_SHORT, NO_LEADER, THROTTLED
from mmtool.kafka.wire.cluster import (
    PATIENCE_SECONDS,
    ConnectionLostError,
    OutOfRangeError,
    UnreadableLogError,
    by_leader,
    retrying,
)
from mmtool.kafka.wire.codes import RETRIABLE, Code, name_of
from mmtool.kafka.wire.fetch import FetchPartition, FetchRequest
from mmtool.kafka.wire.metadata import CLIENT, EARLIEST, LATEST, ListOffsetsRequest
from mmtool.kafka.wire.request import UnsupportedByBrokerError
from mmtool.kafka.wire.transactions import DescribeProducersRequest
from mmtool.runtime.threads import within
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.metadata import ListedOffset
    from mmtool.kafka.wire.request import WireRequest
    from mmtool.kafka.wire.transactions import ProducerState
    from mmtool.translation.types import TopicId, TopicPartition

A = TypeVar("A")

_FETCH_BYTES = 8 << 20
_ROUNDS = 50
_PAUSE_SECONDS = 0.1
_BY_QUOTA = "throttled by a quota"
_LOG_ENDS = "the log now ends there, as its leader has changed"
_WHYS = {_BY_QUOTA: THROTTLED, _LOG_ENDS: CUT_SHORT}
"""The causes, as in `REMEDIES`, of fetches without a record."""
_PASSES = RETRIABLE | {Code.UNKNOWN_SERVER_ERROR}
"""Error codes after which a fetch read nothing and may be repeated."""


class AtMost(int):
    """A stop offset that the log may not have reached: it may end before."""


async def list_offsets(
    cluster: WireCluster,
    timestamps: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
    seconds: float = PATIENCE_SECONDS,
    replica: int = CLIENT,
) -> dict[TopicPartition, int]:
    """Read the offsets at timestamps from the partitions' leaders, with one request for each leader.

    Left out are partitions that do not exist, and those without a record at or after the timestamp. ``replica`` as of
    the request.

    Raises:
        UnreachableError: when a partition, named in the message, has no leader, or one without an answer, for
            ``seconds``.
    """
    found: dict[TopicPartition, ListedOffset] = {}
    missing = dict(timestamps)

    async def attempt() -> tuple[int, None]:
        await cluster.refresh({tp.topic for tp in missing})
        late: dict[TopicPartition, int] = {}
        asked = _of_leaders(cluster, missing, read_committed=read_committed, replica=replica)
        sent = (cluster.send(leader, request, purpose="metadata") for leader, request in asked.items())
        for answer in await asyncio.gather(*sent):
            for tp, listed in answer.items():
                cluster.check_denied(listed.error_code, f"DESCRIBE on topic {tp.topic}")
                if listed.error_code in _PASSES and listed.error_code != Code.UNKNOWN_TOPIC_OR_PARTITION:
                    late[tp] = listed.error_code
                else:
                    found[tp] = listed
        for tp in found:
            missing.pop(tp, None)
        for tp in [tp for tp in missing if cluster.topic_id(tp.topic) is None]:
            del missing[tp]  # no such topic
        if lone := sorted(tp for tp in missing if cluster.leader(*tp) is None):
            raise ConnectionLostError(without_leader(cluster.alias, lone), NO_LEADER)
        if first := min(missing, default=None):
            why = name_of(late.get(first, Code.LEADER_NOT_AVAILABLE))
            raise ConnectionLostError(f"{first} of {cluster.alias}: {why}", why)
        return Code.NONE, None

    if missing:
        await retrying(
            attempt,
            what=f"reading offsets of cluster {cluster.alias}",
            alias=cluster.alias,
            seconds=seconds,
        )
    return {
        tp: listed.offset
        for tp, listed in found.items()
        if listed.error_code == Code.NONE and listed.offset >= 0
    }


def without_leader(alias: str, places: Sequence[TopicPartition]) -> str:
    """The problem text for partitions without a leader: the first one, and how many more there are."""
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    return f"{places[0]} of {alias} has no leader{more}"


async def log_bounds(
    cluster: WireCluster, partitions: Collection[TopicPartition], *, read_committed: bool = False
) -> dict[TopicPartition, tuple[int, int]]:
    """Each partition's log start, and its log end or last stable offset; errors and omissions as in `list_offsets`."""
    starts, ends = await asyncio.gather(
        list_offsets(cluster, dict.fromkeys(partitions, EARLIEST), read_committed=False),
        list_offsets(cluster, dict.fromkeys(partitions, LATEST), read_committed=read_committed),
    )
    return {tp: (starts[tp], ends[tp]) for tp in partitions if tp in starts and tp in ends}


async def offsets_now(
    cluster: WireCluster,
    timestamps: Mapping[TopicPartition, int],
    seconds: float | None = None,
    *,
    replica: int = CLIENT,
) -> dict[TopicPartition, int]:
    """Offsets at timestamps that the leaders return within ``seconds``, with one try; others are left out.

    -1 is the offset of a partition without a record at or after the timestamp. ``replica`` as in `list_offsets`.
    """
    requests = _of_leaders(cluster, timestamps, read_committed=False, replica=replica)
    answers = await answers_of(cluster, requests, "metadata", seconds=seconds, lost=(Exception,))
    return {
        tp: listed.offset
        for answer in answers.values()
        for tp, listed in answer.items()
        if listed.error_code == Code.NONE
    }


def _of_leaders(
    cluster: WireCluster, timestamps: Mapping[TopicPartition, int], *, read_committed: bool, replica: int
) -> dict[int, ListOffsetsRequest]:
    """A request for each leader of some of the partitions."""
    return {
        leader: ListOffsetsRequest({tp: timestamps[tp] for tp in of}, read_committed, replica)
        for leader, of in by_leader(cluster, timestamps).items()
    }


_LOST = (ConnectionLostError, TimeoutError, UnsupportedByBrokerError)


async def answers_of(
    cluster: WireCluster,
    requests: Mapping[int, WireRequest[A]],
    purpose: str = "",
    *,
    seconds: float | None = None,
    lost: tuple[type[Exception], ...] = _LOST,
) -> dict[int, A]:
    """Send each broker its request, all at once and with one try; return the answers that come within ``seconds``.

    ``lost`` are the failures after which a broker is left out; any other one is raised.
    """
    sent = (
        within(seconds, cluster.send(node, request, purpose=purpose)) for node, request in requests.items()
    )
    found: dict[int, A] = {}
    for node, answer in zip(requests, await asyncio.gather(*sent, return_exceptions=True), strict=True):
        if not isinstance(answer, BaseException):
            found[node] = answer
        elif not isinstance(answer, lost):
            raise answer
    return found


async def read_range(
    cluster: WireCluster,
    topic: str,
    topic_id: TopicId,
    partition: int,
    start: int,
    stop: int,
    *,
    read_committed: bool,
    fetch_bytes: int = _FETCH_BYTES,
) -> AsyncIterator[BatchView]:
    """Read every batch from ``start`` (the whole batch around it) up to ``stop``.

    With ``read_committed`` aborted and control batches are left out. A fetch requests ``fetch_bytes``. A log that seems
    to end before ``stop`` has a new leader, which is asked again, unless ``stop`` is `AtMost`. A log that reaches
    ``stop`` and returns no batch has a hole there, as compaction leaves it.

    Raises:
        NotAuthorisedError: without READ on the topic.
        ConnectionLostError: when the range cannot be read; the message has the reason.
        UnreadableLogError: when the error is permanent.
        OutOfRangeError: when ``start`` is not in the log.
    """
    position, quiet, is_hole, why = start, 0, False, ""
    while position < stop:
        if quiet >= _ROUNDS and is_hole:
            return
        if quiet >= _ROUNDS:
            raise ConnectionLostError(
                f"{topic}-{partition} of {cluster.alias} cannot be read at offset {position}: {why}",
                _WHYS.get(why, why),
            )
        place = FetchPartition(topic, topic_id, partition, position, fetch_bytes)
        request = FetchRequest([place], 200, 1, fetch_bytes, read_committed=read_committed)
        answer = await cluster.send_to_leader(topic, partition, request, purpose="scan")
        quiet += 1
        if not answer.partitions:  # so answers whoever keeps a quota (KIP-219)
            is_hole, why = False, _BY_QUOTA
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        part = answer.partitions[0]
        if part.error_code in _PASSES:
            is_hole, why = False, name_of(part.error_code)
            await cluster.refresh([topic])
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        _check(cluster, topic, partition, part.error_code)
        admitted = AbortedFilter(part.aborted)
        for view in iter_batches(part.records):
            quiet = 0 if view.header.next_offset > position else quiet  # else the fetch may bring it for ever
            position = max(position, view.header.next_offset)
            if view.header.base_offset >= stop:
                return
            if not read_committed or admitted.admits(view):
                yield view
        end = part.last_stable_offset if read_committed else part.high_watermark
        is_hole = (end >= stop or isinstance(stop, AtMost)) and not answer.throttle_ms
        why = _LOG_ENDS if end < stop else _BY_QUOTA
        if quiet and position >= end and isinstance(stop, AtMost):
            return


def _check(cluster: WireCluster, topic: str, partition: int, code: int) -> None:
    """Raise `read_range`'s error for an error code that no retry helps."""
    cluster.check_denied(code, f"READ on topic {topic}")
    if code != Code.NONE:
        lost = OutOfRangeError if code == Code.OFFSET_OUT_OF_RANGE else UnreadableLogError
        raise lost(f"{topic}-{partition} of {cluster.alias}: {name_of(code)}", name_of(code))


async def active_producers(
    cluster: WireCluster, place: TopicPartition, *, purpose: str
) -> Sequence[ProducerState] | Unknown:
    """List the producers that a partition's leader remembers (DescribeProducers), or UNKNOWN.

    UNKNOWN where the leader is unreachable, is older than 2.8, or denies READ on the topic.
    """
    try:
        answers = await cluster.send_to_leader(*place, DescribeProducersRequest([place]), purpose=purpose)
    except (ConnectionLostError, UnsupportedByBrokerError):
        return UNKNOWN
    found = answers.get(place)
    return UNKNOWN if found is None or found.error_code != Code.NONE else found.producers


async def active_producers_of_all(
    cluster: WireCluster, places: Collection[TopicPartition], *, purpose: str
) -> dict[TopicPartition, Sequence[ProducerState]]:
    """List the producers of many partitions, with one request for each leader, as `active_producers` does for one.

    Partitions for which a leader gives no answer are left out.
    """
    requests = {node: DescribeProducersRequest(of) for node, of in by_leader(cluster, places).items()}
    return {
        place: one.producers
        for answer in (await answers_of(cluster, requests, purpose)).values()
        for place, one in answer.items()
        if one.error_code == Code.NONE
    }
