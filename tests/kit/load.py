"""The load generator: realistic, numbered records, written at a given rate, plainly or in transactions."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from confluent_kafka import KafkaException, Producer

from mmtool.errors import MmtoolError
from mmtool.lab.records import RecordMaker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from confluent_kafka import KafkaError

Message = dict[str, object]

_CHUNK = 500  # records of one partition in a row: long enough for produce_batch, short enough to interleave
_PACED_SECONDS = 0.01  # a throttled load comes in handfuls of this much time
_FLUSH_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Transactions:
    """Every ``records`` records are one transaction; every ``abort_every``-th is aborted, 0 aborts none."""

    transactional_id: str
    records: int = 100
    abort_every: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """What to write. Sizes in bytes, times in ms where named so.

    ``keys``: none; ``sequence``, each record its own; ``cyclic``, ``key_count`` keys per partition in turn
    (what compaction needs). ``first_sequence`` continues where an earlier load ended. ``first_timestamp_ms``
    0 means the time of sending, else timestamps start there and step by ``timestamp_step_ms``.
    """

    topic: str
    count: int
    partitions: int = 1
    record_bytes: int = 1000
    codec: str = "lz4"
    records_per_second: float = math.inf
    keys: Literal["none", "sequence", "cyclic"] = "none"
    key_count: int = 100
    headers: tuple[tuple[str, bytes], ...] = ()
    batch_bytes: int = 262_144
    linger_ms: float = 20.0
    transactions: Transactions | None = None
    first_sequence: int = 0
    first_timestamp_ms: int = 0
    timestamp_step_ms: int = 1
    client: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The acknowledged records. ``aborted`` holds (partition, number) of records in aborted transactions."""

    seconds: float
    next_sequence: Mapping[int, int]
    aborted: frozenset[tuple[int, int]]


def produce(bootstrap: str, load: Load) -> Loaded:
    """Write the load and wait until every record is acknowledged by all in-sync replicas.

    Raises:
        MmtoolError: A record was refused or not acknowledged within two minutes.
    """
    run = _Run(bootstrap, load)
    started = time.perf_counter()
    try:
        run.in_transactions(load.transactions) if load.transactions else run.plainly()
    except KafkaException as error:
        raise MmtoolError(f"load into {load.topic}: {error.args[0].str()}", code="load") from error
    return Loaded(time.perf_counter() - started, run.next_sequence, frozenset(run.aborted))


class _Run:
    def __init__(self, bootstrap: str, load: Load) -> None:
        self._load = load
        self._maker = RecordMaker(load.record_bytes)
        self._failures: list[str] = []
        settings: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "client.id": "mmtool-lab-load",
            "compression.type": load.codec,
            "batch.size": load.batch_bytes,
            "batch.num.messages": 100_000,
            "linger.ms": load.linger_ms,
            "enable.idempotence": True,
            "delivery.report.only.error": True,
            "queue.buffering.max.messages": 200_000,
            "log_level": 2,  # brokers that tests stop on purpose are no news
            **load.client,
        }
        if load.transactions:
            settings["transactional.id"] = load.transactions.transactional_id
        self._producer = Producer(settings)
        self._started = time.perf_counter()
        self._sent = 0
        self.next_sequence = dict.fromkeys(range(load.partitions), load.first_sequence)
        self.aborted: set[tuple[int, int]] = set()

    def plainly(self) -> None:
        handful = self._load.records_per_second * _PACED_SECONDS
        for partition, numbers in chunks(self._load, int(max(1, min(_CHUNK, handful)))):
            self._send(partition, numbers)
        self._settle()

    def in_transactions(self, how: Transactions) -> None:
        """Write the load in transactions over all partitions."""
        self._producer.init_transactions(_FLUSH_SECONDS)
        parts = chunks(self._load, max(1, how.records // self._load.partitions))
        for number in itertools.count(1):
            together = list(itertools.islice(parts, self._load.partitions))
            if not together:
                return
            self._producer.begin_transaction()
            for partition, numbers in together:
                self._send(partition, numbers)
            self._settle()  # also before an abort, which would purge what is still in the client's queue
            if how.abort_every and number % how.abort_every == 0:
                self._producer.abort_transaction(_FLUSH_SECONDS)
                self.aborted |= {(partition, n) for partition, numbers in together for n in numbers}
            else:
                self._producer.commit_transaction(_FLUSH_SECONDS)

    def _send(self, partition: int, numbers: range) -> None:
        due = self._started + self._sent / self._load.records_per_second
        while (ahead := due - time.perf_counter()) > 0:
            self._producer.poll(min(ahead, 0.1))
        messages = [self._message(partition, number) for number in numbers]
        if self._load.headers or self._load.first_timestamp_ms:
            self._send_singly(messages, partition)
        else:
            self._send_together(messages, partition)
        self._sent += len(numbers)
        self.next_sequence[partition] = numbers.stop
        self._producer.poll(0)

    def _message(self, partition: int, sequence: int) -> Message:
        load = self._load
        message: Message = {"value": self._maker.value(partition, sequence)}
        if load.keys == "sequence":
            message["key"] = b"%d-%d" % (partition, sequence)
        elif load.keys == "cyclic":
            message["key"] = b"%d-%d" % (partition, sequence % load.key_count)
        if load.first_timestamp_ms:
            steps = sequence - load.first_sequence
            message["timestamp"] = load.first_timestamp_ms + steps * load.timestamp_step_ms
        return message

    def _send_together(self, messages: list[Message], partition: int) -> None:
        """Send by ``produce_batch``, and send records again that did not fit into the client's queue."""
        while messages:
            self._producer.produce_batch(
                self._load.topic, messages, partition=partition, on_delivery=self._on_failure
            )
            messages = [message for message in messages if self._found_no_room(message.pop("_error", None))]
            if messages:
                self._producer.poll(0.01)

    def _found_no_room(self, error: KafkaError | None) -> bool:
        if error is not None and error.name() != "_QUEUE_FULL":
            raise MmtoolError(f"load into {self._load.topic}: {error.str()}", code="load")
        return error is not None

    def _send_singly(self, messages: list[Message], partition: int) -> None:
        """Send records one by one: ``produce_batch`` supports neither headers nor timestamps."""
        how = {"partition": partition, "headers": list(self._load.headers), "on_delivery": self._on_failure}
        for message in messages:
            while True:
                try:
                    self._producer.produce(self._load.topic, **how, **message)
                    break
                except BufferError:
                    self._producer.poll(0.01)

    def _on_failure(self, error: KafkaError, _: object) -> None:
        self._failures.append(error.str())

    def _settle(self) -> None:
        left = self._producer.flush(_FLUSH_SECONDS)
        if left:
            self._failures.append(f"{left} records were not acknowledged in {_FLUSH_SECONDS:.0f} s")
        if self._failures:
            raise MmtoolError(f"load into {self._load.topic}: {self._failures[0]}", code="load")


def chunks(load: Load, size: int) -> Iterator[tuple[int, range]]:
    """The numbers of the load's records, dealt out to the partitions in turn, ``size`` of them at a time."""
    following = dict.fromkeys(range(load.partitions), load.first_sequence)
    left = load.count
    for partition in itertools.cycle(range(load.partitions)):
        if left <= 0:
            return
        first, count = following[partition], min(size, left)
        following[partition] += count
        left -= count
        yield partition, range(first, first + count)
