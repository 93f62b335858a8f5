"""The demo's consumer groups: each reads both topics, commits as it goes, and remembers what it received."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.errors import GateError, MmtoolError
from mmtool.lab.checker import Content, History
from mmtool.lab.topics import end_offsets
from mmtool.lab.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer, Message

_HANDFUL = 500
_POLL_SECONDS = 0.1
_COMMIT_SECONDS = 0.5
_END_SECONDS = 45.0
TRY_LATER = "if this host is busy, run the demo again when it has less to do"

Reading = dict[str, dict[int, History]]
"""The records that were read, by the source's topic name and partition."""


def count(reading: Mapping[str, Mapping[int, History]]) -> int:
    """The number of records in a reading."""
    return sum(len(history) for partitions in reading.values() for history in partitions.values())


@dataclass(frozen=True, slots=True)
class Habit:
    """A group, and the share of all records that it has read when it is stopped; 1 is all of them."""

    group: str
    share: float


class Application:
    """One consumer of a group on one cluster.

    ``topics`` maps the names to subscribe to onto the source's names; ``produced`` tells how many records
    there are by now. It stays ``share`` of them behind, and with 1 reads to the very end once it is stopped.
    """

    def __init__(
        self, bootstrap: str, habit: Habit, topics: Mapping[str, str], produced: Callable[[], int]
    ) -> None:
        self.habit = habit
        self.reading: Reading = {topic: {} for topic in topics.values()}
        self.positions: dict[tuple[str, int], int] = {}
        self.behind_marker: dict[tuple[str, int], bool] = {}
        self.worker = Worker(f"consumer of {habit.group}", self._consume)
        self._bootstrap = bootstrap
        self._topics = topics
        self._produced = produced
        self._read = 0
        self._committed_at = time.monotonic()

    def _consume(self) -> None:
        consumer = _consumer(self._bootstrap, self.habit.group)
        try:
            consumer.subscribe(list(self._topics))
            while not self.worker.stopping.is_set():
                self._take(consumer, self._room())
            if self.habit.share >= 1:
                self._to_the_end(consumer)
            self._commit(consumer)
        finally:
            consumer.close()  # leaves the group: it is empty from now on

    def _room(self) -> int:
        return min(_HANDFUL, int(self.habit.share * self._produced()) - self._read)

    def _take(self, consumer: Consumer, most: int) -> None:
        if most <= 0 and self.habit.share < 1:
            self.worker.stopping.wait(_POLL_SECONDS)
            return
        for message in consumer.consume(max(1, most), _POLL_SECONDS):
            self._keep(message)
        if time.monotonic() - self._committed_at > _COMMIT_SECONDS:
            self._commit(consumer)

    def _to_the_end(self, consumer: Consumer) -> None:
        """Read to the log ends, including the last transaction markers, after which a consumer's position ends."""
        ends = {(t, p): end for t in self._topics for p, end in end_offsets(self._bootstrap, t).items()}
        deadline = time.monotonic() + _END_SECONDS
        while any(self.positions.get(place, 0) < end for place, end in ends.items()):
            self._take(consumer, _HANDFUL)
            if time.monotonic() > deadline:
                raise GateError(
                    f"group {self.habit.group} did not read its topics to the end in {_END_SECONDS:.0f} s",
                    remedy=TRY_LATER,
                )

    def _keep(self, message: Message) -> None:
        from confluent_kafka import KafkaError

        error, place = message.error(), (message.topic(), message.partition())
        if error is None:
            content = Content(
                message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1]
            )
            self.reading[self._topics[place[0]]].setdefault(place[1], []).append(content)
            self.positions[place], self.behind_marker[place] = message.offset() + 1, False
            self._read += 1
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
            passed = message.offset() > self.positions.get(place, 0)  # by something that is no record
            self.behind_marker[place] = passed or self.behind_marker.get(place, False)
            self.positions[place] = message.offset()
        elif not error.retriable():
            raise MmtoolError(f"group {self.habit.group}: {error.str()}", code="read")

    def _commit(self, consumer: Consumer) -> None:
        from confluent_kafka import TopicPartition

        self._committed_at = time.monotonic()
        offsets = [TopicPartition(*place, offset) for place, offset in self.positions.items()]
        if offsets:
            consumer.commit(offsets=offsets, asynchronous=False)


def _consumer(bootstrap: str, group: str) -> Consumer:
    from confluent_kafka import Consumer

    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": f"demo-{group}",
            "group.id": group,
            "enable.auto.commit": False,  # what is committed is what was read, to the record
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 65_536,  # small bites, so that slow groups stand amid every partition
            "queued.min.messages": 2_000,
            "fetch.queue.backoff.ms": 10,  # a second by default, once that many wait
            "log_level": 2,
        }
    )
