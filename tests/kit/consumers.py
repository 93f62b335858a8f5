"""A consuming application of the lab: a group member that reads until it has enough, commits, and leaves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message

from mmtool.errors import GateError
from mmtool.lab.ports import patience

if TYPE_CHECKING:
    from collections.abc import Sequence

_POLL_SECONDS = 0.5
_SECONDS = 60.0


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
