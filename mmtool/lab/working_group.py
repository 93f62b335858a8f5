"""A group that goes on consuming beside a test, and commits as it goes."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Consumer

_POLL_SECONDS = 0.2
_JOIN_SECONDS = 90.0


class Beside(ABC):
    """Runs a piece of work again and again until its context ends; a cluster that is away is asked again."""

    def __init__(self, name: str) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(_JOIN_SECONDS)

    @abstractmethod
    def _run(self) -> None:
        """Until ``_over`` is set."""


class WorkingGroup(Beside):
    """One consumer that reads slower than it is written, and commits where it stands."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], records_per_second: float) -> None:
        super().__init__(f"group {group}")
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 45_000,
            "log_level": 2,
        }
        self._topics = list(topics)
        self._each = max(1, round(records_per_second * _POLL_SECONDS))

    def _run(self) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(self._settings)
        consumer.subscribe(self._topics)
        while not self._over.wait(_POLL_SECONDS):
            self._work(consumer)
        consumer.close()

    def _work(self, consumer: Consumer) -> None:
        from confluent_kafka import KafkaException

        if any(message.error() is None for message in consumer.consume(self._each, 0.05)):
            with suppress(KafkaException):  # its broker may be away: the next commit holds more
                consumer.commit(asynchronous=False)
