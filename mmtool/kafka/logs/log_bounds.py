"""Read offsets of many partitions from their leaders; a partition without an answer does not block the others.

librdkafka's ListOffsets waits for its whole timeout when one partition of many has no leader, and then names another
one. This module first reads the partitions and their leaders from metadata, and then asks each leader by itself.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError

from mmtool.errors import RefusedError
from mmtool.kafka.errors import failure_of, is_passing, unreachable
from mmtool.kafka.patience import seconds_of_a_try
from mmtool.kafka.ports import Answers, Bounds
from mmtool.kafka.remedies import NO_LEADER
from mmtool.kafka.wire.cluster import ConnectionLostError, by_leader
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.placement import EARLIEST, LATEST, ListOffsetsRequest
from mmtool.plan.topics.facts import name_problem
from mmtool.runtime.threads import within

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mmtool.config import ClusterSettings
    from mmtool.errors import MmtoolError
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.metadata import TopicMetadata
    from mmtool.kafka.wire.placement import ListedOffset
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
