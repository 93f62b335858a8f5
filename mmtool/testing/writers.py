"""A producer that runs beside a test, and the moment at which a mirror moves again."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from mmtool.errors import GateError
from mmtool.lab.load import Load, Transactions, produce
from mmtool.lab.topics import end_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RECORDS_OF_A_LOAD = 400
_JOIN_SECONDS = 60.0
_WATCHER: dict[str, object] = {
    "group.id": "mmtool-test-watcher",
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 100,
    "log_level": 2,
}


@dataclass
class RunningWriter:
    """Writes numbered records into a topic until its context ends.

    Attributes:
        transactions: Write in transactions of this many records, every third one aborted; 0 for none.
        failure: What ended it early; raised when the context ends.
    """

    bootstrap: str
    topic: str
    partitions: int
    records_per_second: float
    transactions: int = 0
    record_bytes: int = 300
    records: int = 0
    failure: BaseException | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name=f"writer of {self.topic}", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends after the load under way; every record is then acknowledged."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            for load in self._loads():
                loaded = produce(self.bootstrap, load)
                self.records += loaded.records - len(loaded.aborted)
        except BaseException as error:  # noqa: BLE001  whoever ends the context must hear of it
            self.failure = error

    def _loads(self) -> Iterator[Load]:
        first = 0
        while not self._stop.is_set():
            how = Transactions(f"w-{uuid.uuid4().hex}", self.transactions, 3) if self.transactions else None
            yield Load(
                self.topic,
                _RECORDS_OF_A_LOAD,
                self.partitions,
                self.record_bytes,
                records_per_second=self.records_per_second,
                transactions=how,
                first_sequence=first,
            )
            first += _RECORDS_OF_A_LOAD  # no two records are ever equal


def wait_for_new_records(bootstrap: str, topics: Sequence[str], timeout: float) -> float:
    """Until each topic got a record behind its present ends; the seconds it took. Markers do not count.

    A topic that is not there yet counts from its beginning.

    Raises:
        GateError: A topic got none in time.
    """
    from confluent_kafka import Consumer, TopicPartition

    started, silent = time.monotonic(), dict.fromkeys(topics, True)
    consumer = Consumer({**_WATCHER, "bootstrap.servers": bootstrap})
    ends = {topic: end_offsets(bootstrap, topic) for topic in topics}
    assigned: set[str] = set()
    try:
        while time.monotonic() - started < timeout:
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
