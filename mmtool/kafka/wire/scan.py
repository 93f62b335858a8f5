"""Read logs over the wire: the bounds of many partitions, all batches of a range, and the producers of a partition."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from mmtool.errors import RefusedError
from mmtool.kafka.batches import AbortedFilter, BatchView, iter_batches
from mmtool.kafka.errors import (
    CUT_SHORT,
    NO_LEADER,
    THROTTLED,
    failure_of,
    is_passing,
    unreachable,
)
from mmtool.kafka.patience import RetriableError, seconds_of_a_try
from mmtool.kafka.ports import Answers, Bounds
from mmtool.kafka.wire.answers import NoSuchItemError, Question, answers_of
from mmtool.kafka.wire.cluster import (
    PATIENCE_SECONDS,
    ConnectionLostError,
    OutOfRangeError,
    UnreadableLogError,
    WireCluster,
    by_leader,
)
from mmtool.kafka.wire.codes import RETRIABLE, Code, name_of
from mmtool.kafka.wire.fetch import FetchPartition, FetchRequest
from mmtool.kafka.wire.metadata import CLIENT, EARLIEST, LATEST, ListedOffset, ListOffsetsRequest
from mmtool.kafka.wire.request import UnsupportedByBrokerError
from mmtool.kafka.wire.transactions import DescribeProducersRequest, ProducerState
from mmtool.plan.topics.facts import name_problem
from mmtool.translation.types import UNKNOWN, TopicId, TopicPartition, Unknown

_FETCH_BYTES = 8 << 20
_ROUNDS = 50
_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 1.0
_ALL = sys.maxsize
_READING = "reading offsets of"
_BY_QUOTA = "throttled by a quota"
_LOG_ENDS = "the log now ends there, as its leader has changed"
_WHYS = {_BY_QUOTA: THROTTLED, _LOG_ENDS: CUT_SHORT}
"""The causes, as in `REMEDIES`, of fetches without a record."""
_PASSES = RETRIABLE | {Code.UNKNOWN_SERVER_ERROR}
"""Error codes after which a fetch read nothing and may be repeated."""


class AtMost(int):
    """A stop offset that the log may not have reached: it may end before."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a partition is asked about again, in seconds.

    Attributes:
        answer: Where a leader is known, and does not answer, or cannot yet.
        leader: Where the partition has no leader. A live replica is elected at once, so there is none.
        unknown: Where metadata does not list the partition: brokers hear late of a new topic. None for readers of logs
            that they know: a topic that metadata does not show is left out at once, as one that its leader does not
            know, and a partition that it does not list has no leader yet.
    """

    answer: float
    leader: float
    unknown: float | None = 2.0


def impossible(alias: str, problem: str) -> RefusedError:
    """The refusal for a topic name that no cluster accepts, with the reason that `name_problem` gives."""
    return RefusedError(
        f"cluster {alias} cannot have a topic of this name: {problem}",
        remedy="exclude the topic with topics.exclude; mmtool.topic.rename.format can give mirrors other names only in"
        " a flow that has mirrored no topic yet",
        code="partition_missing",
    )


@dataclass(slots=True)
class _Offsets:
    """One question about offsets to the leaders of partitions: the four steps of a `Question`.

    Attributes:
        lost: Why no broker gave metadata at the last try; None where one did.
    """

    cluster: WireCluster
    timestamps: Mapping[TopicPartition, int]
    patience: Patience
    read_committed: bool
    known: dict[str, tuple[int, set[int]]] = field(default_factory=dict)
    lost: Exception | None = None

    async def prepare(self, places: list[TopicPartition]) -> None:
        self.lost = TimeoutError()  # unless one comes
        topics = {place.topic for place in places}
        try:
            found = await self.cluster.refresh({topic for topic in topics if not name_problem(topic)})
        except ConnectionLostError as error:
            self.lost = error
            raise
        self.lost = None
        for name, topic in found.items():
            self.known[name] = (topic.error_code, {p.partition for p in topic.partitions})

    def node_of(self, place: TopicPartition) -> int:
        if problem := name_problem(place.topic):
            raise impossible(self.cluster.alias, problem)
        unknown, (code, there) = self.patience.unknown, self.known[place.topic]
        if unknown is None and code != Code.NONE:
            raise NoSuchItemError(str(place))
        if unknown is not None and (
            code == Code.UNKNOWN_TOPIC_OR_PARTITION or (code == Code.NONE and place.partition not in there)
        ):
            raise RetriableError(NoSuchItemError(str(place)), min(self.patience.leader, unknown))
        if code != Code.NONE:
            raise self._failure(place, code)
        leader = self.cluster.leader(*place)
        if leader is None:
            what, why = f"{_READING} {place}", "the partition has no leader"
            raise RetriableError(unreachable(self.cluster.alias, what, why, NO_LEADER), self.patience.leader)
        return leader

    async def send(self, node: int, places: list[TopicPartition]) -> dict[TopicPartition, ListedOffset]:
        wanted = {place: self.timestamps[place] for place in places}
        request = ListOffsetsRequest(wanted, self.read_committed)
        return await self.cluster.send(node, request, purpose="metadata")

    def take(self, place: TopicPartition, listed: ListedOffset) -> int:
        if listed.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:  # deleted meanwhile, or its leader is late
            seconds = 0.0 if self.patience.unknown is None else self.patience.leader
            raise RetriableError(NoSuchItemError(str(place)), seconds)
        if listed.error_code != Code.NONE:
            raise self._failure(place, listed.error_code)
        if listed.offset < 0:
            raise NoSuchItemError(str(place))
        return listed.offset

    def _failure(self, place: TopicPartition, code: int) -> Exception:
        error = KafkaError(code)
        right = f"DESCRIBE on topic {place.topic}"
        failure = failure_of(self.cluster, error, f"{_READING} {place}", right=right)
        return RetriableError(failure) if code in _PASSES or is_passing(error) else failure


async def offsets_each(
    cluster: WireCluster,
    timestamps: Mapping[TopicPartition, int],
    patience: Patience,
    *,
    read_committed: bool,
) -> Answers[TopicPartition, int]:
    """Read the offsets at timestamps from the partitions' leaders, with one request for each leader.

    Left out are partitions that do not exist, and those without a record at or after the timestamp; errors are in
    ``failed``.

    Raises:
        UnreachableError: no broker answers.
    """
    asked = _Offsets(cluster, timestamps, patience, read_committed)
    question = Question(
        *(cluster.alias, _READING, asked.prepare, asked.node_of, asked.send, asked.take, patience.answer),
        try_seconds=seconds_of_a_try(patience.answer) or None,
        at_once=_ALL,
        longest_pause=_LONGEST_PAUSE_SECONDS,
    )
    found = await question.ask(timestamps)
    if asked.lost is not None:
        raise unreachable(cluster.alias, "reading offsets", asked.lost)
    return found


async def read_bounds(
    cluster: WireCluster, places: Iterable[TopicPartition], patience: Patience, *, committed: bool
) -> Answers[TopicPartition, Bounds]:
    """Each partition's first and next offset; with ``committed`` the last stable offset as its end.

    Unlike `log_bounds` it returns an error for each partition that failed. Starts are read before ends, so that
    retention can only make the range larger.

    Raises:
        UnreachableError: no broker answers.
    """
    firsts, lasts = dict.fromkeys(places, EARLIEST), dict.fromkeys(places, LATEST)
    starts = await offsets_each(cluster, firsts, patience, read_committed=False)
    there = {place: lasts[place] for place in starts}
    ends = await offsets_each(cluster, there, patience, read_committed=committed)
    found = Answers({place: Bounds(min(starts[place], end), end) for place, end in ends.items()})
    found.failed = starts.failed | ends.failed
    return found


async def list_offsets(
    cluster: WireCluster,
    timestamps: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
    seconds: float = PATIENCE_SECONDS,
) -> dict[TopicPartition, int]:
    """Read the offsets at timestamps as `offsets_each`, of all partitions that exist.

    Left out are also partitions of which a leader cannot look up a timestamp.

    Raises:
        UnreachableError: when a partition, named in the message, has no leader, or one without an answer, for
            ``seconds``.
    """
    if not timestamps:
        return {}
    patience = Patience(seconds, seconds, unknown=None)
    found = await offsets_each(cluster, timestamps, patience, read_committed=read_committed)
    found.failed = {
        place: error for place, error in found.failed.items() if not isinstance(error, RefusedError)
    }
    return found.complete()


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

    -1 is the offset of a partition without a record at or after the timestamp. ``replica`` as of the request.
    """
    requests = {
        leader: ListOffsetsRequest({tp: timestamps[tp] for tp in of}, read_committed=False, replica=replica)
        for leader, of in by_leader(cluster, timestamps).items()
    }
    answers = await answers_of(cluster, requests, "metadata", seconds=seconds, lost=(Exception,))
    return {
        tp: listed.offset
        for answer in answers.values()
        for tp, listed in answer.items()
        if listed.error_code == Code.NONE
    }


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
