"""Read offsets of many partitions from their leaders, and the first record that a mirror lacks."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError

from mmtool.errors import RefusedError
from mmtool.kafka.batches import NO_TIMESTAMP, AbortedFilter, BatchError, iter_batches, raw_records
from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.errors import NO_LEADER, failure_of, is_passing, unreachable
from mmtool.kafka.patience import seconds_of_a_try
from mmtool.kafka.ports import Answers, Bounds
from mmtool.kafka.wire.cluster import ConnectionLostError, by_leader
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.fetch import FetchPartition, FetchRequest
from mmtool.kafka.wire.metadata import EARLIEST, LATEST, ListOffsetsRequest
from mmtool.plan.topics.facts import name_problem
from mmtool.runtime.threads import run_loop, within

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from mmtool.config import ClusterSettings
    from mmtool.errors import MmtoolError
    from mmtool.kafka.ports import FirstMissing
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.fetch import FetchedPartition
    from mmtool.kafka.wire.metadata import ListedOffset, TopicMetadata
    from mmtool.translation.types import TopicPartition


_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
_UNKNOWN_SECONDS = 2.0
"""How long, in seconds, a partition that metadata does not list is retried: brokers hear late of a new topic."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a request for a partition is retried, in seconds.

    Attributes:
        answer: Where a leader is known, and does not answer, or cannot yet.
        leader: Where the partition has no leader. A live replica is elected at once, so there is none.
    """

    answer: float
    leader: float


class _Wait(NamedTuple):
    """Why a partition has no answer yet, and how long it is asked again; ``failure`` None: it is taken for gone."""

    failure: MmtoolError | None
    seconds: float


async def read_bounds(
    wire: WireCluster,
    cluster: ClusterSettings,
    places: Collection[TopicPartition],
    patience: Patience,
    *,
    committed: bool,
) -> Answers[TopicPartition, Bounds]:
    """Each partition's first and next offset; with ``committed`` the last stable offset as its end.

    Unlike `scan.log_bounds` it returns an error for each partition that failed. Starts are read before ends, so that
    retention can only make the range larger.

    Raises:
        UnreachableError: no broker answers.
    """
    starts = await _Lookup(wire, cluster, patience, committed=False).run(dict.fromkeys(places, EARLIEST))
    ends = await _Lookup(wire, cluster, patience, committed=committed).run(dict.fromkeys(starts, LATEST))
    found = Answers({place: Bounds(min(starts[place], end), end) for place, end in ends.items()})
    found.failed = starts.failed | ends.failed
    return found


def impossible(alias: str, problem: str) -> RefusedError:
    """The refusal for a topic name that no cluster accepts, with the reason that `name_problem` gives."""
    return RefusedError(
        f"cluster {alias} cannot have a topic of this name: {problem}",
        remedy="exclude the topic with topics.exclude; mmtool.topic.rename.format can give mirrors other names only in"
        " a flow that has mirrored no topic yet",
        code="partition_missing",
    )


class _Lookup:
    """One question about many partitions, repeated for those that have no answer yet."""

    def __init__(
        self, wire: WireCluster, cluster: ClusterSettings, patience: Patience, *, committed: bool
    ) -> None:
        self._wire = wire
        self._cluster = cluster
        self._patience = patience
        self._committed = committed
        self._open: dict[TopicPartition, int] = {}
        self._waits: dict[TopicPartition, _Wait] = {}
        self._found: Answers[TopicPartition, int] = Answers()

    async def run(self, timestamps: Mapping[TopicPartition, int]) -> Answers[TopicPartition, int]:
        self._open = dict(timestamps)
        problems = {topic: name_problem(topic) for topic in {place.topic for place in self._open}}
        for place in [
            place for place in self._open if problems[place.topic]
        ]:  # no cluster accepts their topics
            self._fail(place, impossible(self._cluster.alias, problems[place.topic]))
        now = asyncio.get_running_loop().time
        began, pause = now(), _FIRST_PAUSE_SECONDS
        while self._open:
            await self._attempt(now() - began)
            self._give_up(now() - began)
            if self._open:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return self._found

    async def _attempt(self, waited: float) -> None:
        """Ask once about all partitions without an answer."""
        self._waits = {}
        seconds = seconds_of_a_try(self._patience.answer)
        try:
            topics = {place.topic for place in self._open}
            known = await within(seconds, self._wire.refresh(topics))
        except (ConnectionLostError, TimeoutError) as error:
            if waited >= self._patience.answer:
                what = "reading offsets"
                raise unreachable(self._cluster.alias, what, error) from error
            self._wait(self._open, str(error))
            return
        asked = [place for place in list(self._open) if self._is_led(place, known[place.topic])]
        led = by_leader(self._wire, asked)
        await asyncio.gather(*(self._ask(node, of, seconds) for node, of in led.items()))

    def _is_led(self, place: TopicPartition, topic: TopicMetadata) -> bool:
        """Whether a partition's leader can be asked; otherwise note the error, or the reason to wait, from metadata."""
        if topic.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            self._await_metadata(place)
        elif topic.error_code != Code.NONE:
            self._note(place, topic.error_code)
        elif place.partition not in {partition.partition for partition in topic.partitions}:
            self._await_metadata(place)
        elif self._wire.leader(*place) is None:
            error = unreachable(
                self._cluster.alias, f"reading offsets of {place}", "the partition has no leader", NO_LEADER
            )
            self._waits[place] = _Wait(error, self._patience.leader)
        else:
            return True
        return False

    def _await_metadata(self, place: TopicPartition) -> None:
        self._waits[place] = _Wait(None, min(self._patience.leader, _UNKNOWN_SECONDS))

    async def _ask(self, node: int, places: list[TopicPartition], seconds: float) -> None:
        request = ListOffsetsRequest({place: self._open[place] for place in places}, self._committed)
        try:
            answer = await within(seconds, self._wire.send(node, request, purpose="metadata"))
        except (ConnectionLostError, TimeoutError) as error:
            silent = f"broker {node} did not answer within {seconds:g} s"
            self._wait(places, error if str(error) else silent)
            return
        for place in places:
            self._take(place, answer[place])

    def _take(self, place: TopicPartition, listed: ListedOffset) -> None:
        if listed.error_code == Code.NONE:
            del self._open[place]
            if listed.offset >= 0:
                self._found[place] = listed.offset
        elif listed.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:  # deleted meanwhile, or its leader is late
            self._waits[place] = _Wait(None, self._patience.leader)
        else:
            self._note(place, listed.error_code)

    def _note(self, place: TopicPartition, code: int) -> None:
        """Note an error code: a retriable one as a reason to ask again, any other as the partition's failure."""
        error = KafkaError(code)
        failure = failure_of(
            self._cluster,
            error,
            f"reading offsets of {place}",
            right=f"DESCRIBE on topic {place.topic}",
        )
        if is_passing(error):
            self._waits[place] = _Wait(failure, self._patience.answer)
        else:
            self._fail(place, failure)

    def _wait(self, places: Iterable[TopicPartition], why: object) -> None:
        for place in places:
            error = unreachable(self._cluster.alias, f"reading offsets of {place}", why or "no answer")
            self._waits[place] = _Wait(error, self._patience.answer)

    def _give_up(self, waited: float) -> None:
        for place, wait in self._waits.items():
            if waited < wait.seconds:
                continue
            if wait.failure is None:
                del self._open[place]
            else:
                self._fail(place, wait.failure)

    def _fail(self, place: TopicPartition, error: MmtoolError) -> None:
        del self._open[place]
        self._found.failed[place] = error


_AT_ONCE = 100
_LEAST_SECONDS = 0.1
_SMALL_BYTES = 32 << 10
"""Bytes that are fetched of each partition: batches of default producers fit (``batch.size`` 16 KiB).

A partition whose first batch is larger may come without records; it is then fetched alone."""
_ANSWER_BYTES = 8 << 20


async def _times(
    cluster: WireCluster, places: Collection[FirstMissing], *, read_committed: bool, until: float
) -> dict[FirstMissing, int]:
    await cluster.start()
    try:
        with suppress(ConnectionLostError):  # nobody leads anything then, as far as is known
            await cluster.refresh({place.topic for place in places})
        led = by_leader(cluster, sorted(places))
        looks = [_Look(cluster, leader, read_committed=read_committed) for leader in led]
        work = [look.ask(of, until) for look, of in zip(looks, led.values(), strict=True)]
        await asyncio.gather(*work)
        return {place: ms for look in looks for place, ms in look.found.items()}
    finally:
        await cluster.close()


def first_missing_times(
    cluster: ClusterSettings, places: Collection[FirstMissing], seconds: float, *, read_committed: bool
) -> dict[FirstMissing, int]:
    """Timestamps (ms since 1970, as in the record) of the first records at or after the given offsets.

    Left out are offsets with no such record yet, with one without a timestamp, without READ on the topic, without a
    leader, or without an answer in time.

    Args:
        cluster: The log's cluster.
        places: Partitions and the offset to look from; a partition may be given with several offsets.
        seconds: The time limit of the whole call.
        read_committed: Skip records of aborted transactions.

    Raises:
        UnreachableError, NotAuthorisedError: the cluster does not answer, or denies mmtool.
    """
    if not places:
        return {}
    wire = wire_cluster(cluster, "status", role="consumer")
    until = time.monotonic() + seconds
    return run_loop(_times(wire, places, read_committed=read_committed, until=until))


class _Look:
    """Fetches from one leader: many partitions in a request, and alone those whose first batch is large."""

    def __init__(self, cluster: WireCluster, leader: int, *, read_committed: bool) -> None:
        self._cluster = cluster
        self._leader = leader
        self._read_committed = read_committed
        self.found: dict[FirstMissing, int] = {}

    async def ask(self, places: Iterable[FirstMissing], until: float) -> None:
        left = list(places)
        alone: list[FirstMissing] = []
        while left and time.monotonic() < until:
            some, left = _next_of(left)
            alone += await self._fetch(some, until)
        while alone and time.monotonic() < until:
            await self._fetch([alone.pop(0)], until)

    async def _fetch(self, places: list[FirstMissing], until: float) -> list[FirstMissing]:
        """Send one fetch; return the partitions of a fetch of several that came without records."""
        wanted = [FetchPartition(*place, _SMALL_BYTES) for place in places]
        request = FetchRequest(wanted, 0, 0, _ANSWER_BYTES, read_committed=self._read_committed)
        try:
            sent = self._cluster.send(self._leader, request, purpose="status")
            answer = await within(max(_LEAST_SECONDS, until - time.monotonic()), sent)
        except (ConnectionLostError, TimeoutError):
            return []
        known = {(name, p.partition): p for p in places for name in (p.topic_id, p.topic)}
        empty = []
        for part in answer.partitions:
            place = known.get((part.topic_id or part.topic, part.partition))
            if place is None or part.error_code != Code.NONE:
                continue
            if not part.records:
                empty.append(place)
            elif (first := _first_time(part, place.offset)) is not None:
                self.found[place] = first
        return empty if len(places) > 1 else []


def _next_of(places: list[FirstMissing]) -> tuple[list[FirstMissing], list[FirstMissing]]:
    """Split offsets into those of the next fetch, with each partition once, and the rest."""
    some: dict[tuple[str, int], FirstMissing] = {}
    left = []
    for place in places:
        if len(some) < _AT_ONCE and (place.topic, place.partition) not in some:
            some[place.topic, place.partition] = place
        else:
            left.append(place)
    return list(some.values()), left


def _first_time(part: FetchedPartition, offset: int) -> int | None:
    """The timestamp of the first fetched record at or after ``offset``; None without a record or a timestamp."""
    try:
        first = next(_record_times(part, offset), None)
    except BatchError:
        return None  # whoever mirrors it says what is wrong with it
    return None if first == NO_TIMESTAMP else first


def _record_times(part: FetchedPartition, offset: int) -> Iterator[int]:
    admitted = AbortedFilter(part.aborted)
    for view in iter_batches(part.records):
        if admitted.admits(view) and view.header.next_offset > offset:
            yield from (record.timestamp for record in raw_records(view) if record.offset >= offset)
