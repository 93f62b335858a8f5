"""A group that keeps consuming beside a test, and commits as it goes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException

from kit.consumers import consumer_of
from mmtool.lab.demo_apps import Worker
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

_POLL_SECONDS = 0.2


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
        self._each = max(1, round(records_per_second * _POLL_SECONDS))
        self.read_to: dict[TopicPartition, int] = {}

    def _consume(self) -> None:
        consumer = consumer_of(self._bootstrap, self._group)
        consumer.subscribe(self._topics)
        while not self.stopping.wait(_POLL_SECONDS):
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
