"""The demo's producers on east: plain ``orders`` and transactional ``payments``.

Each producer writes its history as fast as it can, and continues at a steady rate until it is stopped. It keeps
a list of acknowledged and committed records, to compare with what a reader finds later.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError
from mmtool.lab.records import RecordMaker
from mmtool.lab.worker import Worker
from mmtool.plan.words import counted

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

PARTITIONS = 3
ORDERS = "orders"
PAYMENTS = "payments"
TOPICS = (ORDERS, PAYMENTS)
_RECORD_BYTES = 400
_ABORT_EVERY = 5  # transactions; seldom enough to look like business, often enough to matter
_CUSTOMERS = 500
_FLUSH_SECONDS = 60.0
_PACE_SECONDS = 0.1

Ledger = dict[int, list[int]]
"""The numbers of the committed records of each partition, in the order in which they were written."""


@dataclass(frozen=True, slots=True)
class Volume:
    """How much to write: records written at once, in batches of a given size, and then per second."""

    history: int
    handful: int
    per_second: int


class Writer:
    """A running producer of one topic; with ``transactional``, each batch is one transaction."""

    def __init__(self, bootstrap: str, topic: str, volume: Volume, *, transactional: bool = False) -> None:
        self.topic = topic
        self.committed: Ledger = {partition: [] for partition in range(PARTITIONS)}
        self.aborted = 0
        self.worker = Worker(f"producer of {topic}", self._write)
        self._volume = volume
        self._transactional = transactional
        self._bootstrap = bootstrap
        self._maker = RecordMaker(_RECORD_BYTES)
        self._numbers = [itertools.count() for _ in range(PARTITIONS)]
        self._handfuls = itertools.count(1)
        self._failures: list[str] = []

    @property
    def written(self) -> int:
        """The number of records that are acknowledged and committed by now."""
        return sum(map(len, self.committed.values()))

    @property
    def has_history(self) -> bool:
        return self.written + self.aborted >= self._volume.history

    def _write(self) -> None:
        producer = _producer(self._bootstrap, self.topic, transactional=self._transactional)
        if self._transactional:
            producer.init_transactions(_FLUSH_SECONDS)
        while not self.has_history and not self.worker.stopping.is_set():
            self._handful(producer, self._volume.handful)
        began, base = time.monotonic(), self.written + self.aborted
        while not self.worker.stopping.wait(_PACE_SECONDS):
            due = int((time.monotonic() - began) * self._volume.per_second) + base
            self._handful(producer, due - self.written - self.aborted)

    def _handful(self, producer: Producer, size: int) -> None:
        if size <= 0:
            return
        aborts = self._transactional and next(self._handfuls) % _ABORT_EVERY == 0
        if self._transactional:
            producer.begin_transaction()
        sent = [self._send(producer, number % PARTITIONS) for number in range(size)]
        self._settle(producer)
        if self._transactional:
            (producer.abort_transaction if aborts else producer.commit_transaction)(_FLUSH_SECONDS)
        if aborts:
            self.aborted += size
            return
        for partition, number in sent:
            self.committed[partition].append(number)

    def _send(self, producer: Producer, partition: int) -> tuple[int, int]:
        number = next(self._numbers[partition])
        producer.produce(
            self.topic,
            key=b"customer-%d" % (number * 31 % _CUSTOMERS),
            value=self._maker.value(partition, number),
            headers=[("trace-id", b"%d-%d" % (partition, number)), ("version", b"1")],
            partition=partition,
            on_delivery=self._on_failure,
        )
        return partition, number

    def _on_failure(self, error: KafkaError, _: object) -> None:
        self._failures.append(error.str())

    def _settle(self, producer: Producer) -> None:
        """Flush the producer and raise its first failure; also before an abort, which would purge queued records."""
        left = producer.flush(_FLUSH_SECONDS)
        if left:
            self._failures.append(f"{counted(left, 'record')} not acknowledged in {_FLUSH_SECONDS:.0f} s")
        if self._failures:
            raise MmtoolError(f"writing {self.topic}: {self._failures[0]}", code="load")


def _producer(bootstrap: str, topic: str, *, transactional: bool) -> Producer:
    from confluent_kafka import Producer

    settings: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "client.id": f"demo-{topic}",
        "compression.type": "lz4",
        "linger.ms": 5,
        "batch.num.messages": 250,
        "enable.idempotence": True,
        "delivery.report.only.error": True,
        "log_level": 2,
    }
    return Producer({**settings, **({"transactional.id": f"demo-{topic}"} if transactional else {})})
