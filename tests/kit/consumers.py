"""Consuming applications: one reads until it has enough, commits and leaves; one goes on beside a test."""

from __future__ import annotations

import time
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import AcknowledgeType, Consumer, KafkaError, KafkaException, Message, ShareConsumer

from mmtool.errors import GateError
from mmtool.lab.demo_apps import Worker
from mmtool.lab.ports import patience
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_POLL_SECONDS = 0.5
_SECONDS = 60.0
_EACH_SECONDS = 0.2
_SILENT_SECONDS = 4.0


class Read(NamedTuple):
    """One record, as an application received it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def consume(
    bootstrap: str, group: str, topics: Sequence[str], at_most: int | None = None, seconds: float = _SECONDS
) -> list[Read]:
    """Consume as a group's only member, up to ``at_most`` records or the end; commit, leave, and return the records.

    Raises:
        GateError: Neither was reached in ``seconds``: a part of the records would look like all of them.
    """
    consumer, found, ended = consumer_of(bootstrap, group), list[Read](), set[tuple[str, int]]()
    consumer.subscribe(list(topics))
    deadline = time.monotonic() + patience(seconds)
    while (at_most is None or len(found) < at_most) and not _at_the_ends(consumer, topics, ended):
        if time.monotonic() > deadline:
            consumer.close()
            raise GateError(f"group {group} did not read its topics in {seconds:.0f} s", code="timeout")
        message = consumer.poll(_POLL_SECONDS)
        if message is not None:
            _take(message, found, ended)
    positions = [at for at in consumer.position(consumer.assignment()) if at.offset >= 0]
    if positions:
        consumer.commit(offsets=positions, asynchronous=False)
    consumer.close()
    return found


def _at_the_ends(consumer: Consumer, topics: Sequence[str], ended: set[tuple[str, int]]) -> bool:
    """Whether the consumer is at the end of every topic; of a new topic the assignment may come later."""
    assigned = {(at.topic, at.partition) for at in consumer.assignment()}
    return {topic for topic, _ in assigned} == set(topics) and assigned <= ended


def _take(message: Message, found: list[Read], ended: set[tuple[str, int]]) -> None:
    error, place = message.error(), (message.topic(), message.partition())
    if error is None:
        found.append(Read(*place, message.offset(), message.key(), message.value()))
        ended.discard(place)
    elif error.code() == KafkaError._PARTITION_EOF:
        ended.add(place)


def consumer_of(bootstrap: str, group: str) -> Consumer:
    """A consumer in a group, which reads committed records from the beginning and does not commit by itself."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "max.poll.interval.ms": 60_000,
            "log_level": 2,
        }
    )


class WorkingGroup(Worker):
    """One consumer that reads slower than the producers write, and commits its position.

    Attributes:
        read_to: Per partition, the offset behind the last record that it had read when it committed. The commit on a
            broker can be lower: of two commits in flight when the broker dies, the earlier one may be sent again after
            the later one.
    """

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], records_per_second: float) -> None:
        super().__init__(f"group {group}", self._consume)
        self._bootstrap, self._group, self._topics = bootstrap, group, list(topics)
        self._each = max(1, round(records_per_second * _EACH_SECONDS))
        self.read_to: dict[TopicPartition, int] = {}

    def _consume(self) -> None:
        consumer = consumer_of(self._bootstrap, self._group)
        consumer.subscribe(self._topics)
        while not self.stopping.wait(_EACH_SECONDS):
            self._work(consumer)
        consumer.close()

    def _work(self, consumer: Consumer) -> None:
        if any(message.error() is None for message in consumer.consume(self._each, 0.05)):
            self._note(consumer)
            # its broker may be away: the next commit holds more; who waited for a frozen one would wait for a minute
            with suppress(KafkaException):
                consumer.commit(asynchronous=True)

    def _note(self, consumer: Consumer) -> None:
        """Record the positions before they are committed, so that every commit that others see is recorded."""
        for at in consumer.position(consumer.assignment()):
            place = TopicPartition(at.topic, at.partition)
            self.read_to[place] = max(
                self.read_to.get(place, 0), at.offset
            )  # below zero: nothing was read yet


def share(
    bootstrap: str,
    group: str,
    topic: str,
    accepts: Callable[[Message], bool] = lambda _: True,
    batches: float = inf,
) -> list[Read]:
    """Consume as a member of a share group, up to a number of batches, or until the group has no record for a while.

    A record that is not accepted is released: the group is given it again, five times in all. The records that were
    accepted are returned.
    """
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "log_level": 2,
        }
    )
    consumer.subscribe([topic])
    found, silent_at = list[Read](), time.monotonic() + patience(_SILENT_SECONDS)
    while batches and time.monotonic() < silent_at:
        messages = [message for message in consumer.poll(_POLL_SECONDS) if message.error() is None]
        for message in messages:
            is_taken = accepts(message)
            consumer.acknowledge(message, AcknowledgeType.ACCEPT if is_taken else AcknowledgeType.RELEASE)
            if is_taken:
                place = message.topic(), message.partition(), message.offset()
                found.append(Read(*place, message.key(), message.value()))
        if messages:
            consumer.commit_sync(10)
            batches, silent_at = batches - 1, time.monotonic() + patience(_SILENT_SECONDS)
    consumer.close()
    return found
