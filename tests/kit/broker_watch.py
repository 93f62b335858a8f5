"""Watch a cluster of the lab from outside: records that arrive, members that join."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from mmtool.errors import GateError, UnreachableError
from mmtool.lab.ports import patience
from mmtool.lab.topics import end_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ANSWER_SECONDS = 20.0
_WATCHER: dict[str, object] = {
    "group.id": "mmtool-lab-watcher",  # asked for by the client; nothing is committed
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 100,
    "log_level": 2,
}


def group_members(bootstrap: str, group: str) -> list[str]:
    """Client ids of a consumer group's members."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    described = admin.describe_consumer_groups([group])[group].result(_ANSWER_SECONDS)
    return [member.client_id for member in described.members]


def wait_for_new_records(bootstrap: str, topics: Sequence[str], timeout: float) -> float:
    """Wait until each topic has a record after its present ends, markers aside; return the seconds.

    A topic that does not exist yet counts from its beginning.

    Raises:
        GateError: A topic got no record in time.
    """
    started, silent = time.monotonic(), dict.fromkeys(topics, True)
    consumer = Consumer({**_WATCHER, "bootstrap.servers": bootstrap})
    ends = {topic: end_offsets(bootstrap, topic) for topic in topics}
    assigned: set[str] = set()
    try:
        while time.monotonic() - started < patience(timeout):
            for topic in silent.keys() - assigned:
                known = ends[topic] or dict.fromkeys(end_offsets(bootstrap, topic), 0)
                if known:
                    assigned.add(topic)
                    consumer.incremental_assign([TopicPartition(topic, *place) for place in known.items()])
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                silent.pop(message.topic(), None)
            if not silent:
                return time.monotonic() - started
    finally:
        consumer.close()
    raise GateError(f"no new record in {', '.join(silent)} within {timeout:.0f} s", code="timeout")


def committed(bootstrap: str, group: str, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """A group's commits in these partitions, by topic and partition, read with a consumer's request.

    Raises:
        UnreachableError: The cluster does not answer.
    """
    consumer = Consumer({**_WATCHER, "bootstrap.servers": bootstrap, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(*place) for place in places], _ANSWER_SECONDS)
    except KafkaException as error:
        raise UnreachableError(f"the coordinator of group {group} does not answer") from error
    finally:
        consumer.close()
    return {(at.topic, at.partition): at.offset for at in found if at.error is None and at.offset >= 0}


class MirrorWatch:
    """How long records are on their way: from a topic of one cluster to its mirror on another; a context manager.

    Both topics are read from their ends on, and a record is known by its value: none may be written twice.

    Args:
        source: The bootstrap servers, and the topic.
        target: Likewise, of the mirror.
    """

    def __init__(self, source: tuple[str, str], target: tuple[str, str]) -> None:
        self._ends, self._ended = threading.Event(), 0.0
        arrived = _from_the_end(*target)  # first: what arrives meanwhile would be seen on the source alone
        self._consumers = [_from_the_end(*source), arrived]
        self._seen: tuple[dict[bytes, float], ...] = ({}, {})
        self._threads = [
            threading.Thread(target=self._watch, args=pair, daemon=True)
            for pair in zip(self._consumers, self._seen, strict=True)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = time.monotonic()
        self._ends.set()
        for thread, consumer in zip(self._threads, self._consumers, strict=True):
            thread.join()
            consumer.close()

    @property
    def largest_delay(self) -> float:
        """The longest time that a record was on its way, in seconds; of one that has not arrived, until the end.

        Raises:
            ValueError: No record was seen on the source.
        """
        source, target = self._seen
        return max(target.get(value, self._ended) - since for value, since in source.items())

    def _watch(self, consumer: Consumer, seen: dict[bytes, float]) -> None:
        while not self._ends.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                seen.setdefault(message.value(), time.monotonic())


def _from_the_end(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer({**_WATCHER, "bootstrap.servers": bootstrap})
    consumer.assign([TopicPartition(topic, *place) for place in end_offsets(bootstrap, topic).items()])
    return consumer
