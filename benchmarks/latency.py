"""From producing on the source to consuming on the target, record by record, at a steady rate."""

from __future__ import annotations

import multiprocessing
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition
from workloads import PARTITIONS

from mmtool.lab.topics import end_offsets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

RECORDS_PER_SECOND = 500
_BATCHES_PER_SECOND = 500
_RECORD_BYTES = 200
_SENT_AT = struct.Struct(">q")  # nanoseconds of the machine's monotonic clock
_READY_SECONDS = 60.0
_LAST_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds."""

    p50: float
    p99: float
    p999: float
    records: int

    @classmethod
    def of(cls, took_ms: np.ndarray) -> Latency:
        return cls(*np.percentile(took_ms, (50, 99, 99.9)).tolist(), len(took_ms))


def measure(source: str, topic: str, target: str, target_topic: str, seconds: float) -> Latency:
    """Produce 500 records a second into the source while consuming the target; the first second does not count."""
    (seen,) = observe(source, topic, [(target, target_topic)], RECORDS_PER_SECOND, seconds + 1)
    sent, took = seen
    return Latency.of(took[sent > sent[0] + 1])


def observe(
    source: str, topic: str, places: Sequence[tuple[str, str]], rate: int, seconds: float
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Produce ``rate`` records a second while a process consumes each of ``places``, which are (address, topic).

    They come as 500 batches a second, each for one partition: so does a producer send whose records have no key.
    With a batch for each record the brokers would have no time left at 5,000 records a second.

    Returns when each record was sent, in seconds of the machine's monotonic clock, and after how many ms it was
    consumed, by place and in the order of consuming.
    """
    spawn = multiprocessing.get_context("spawn")
    readers = []
    for place in places:
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_consume, args=(*place, int(rate * seconds), theirs))
        process.start()
        readers.append((process, ours))
    try:
        for _, answer in readers:
            assert answer.poll(_READY_SECONDS), "the consumer is not ready"
            answer.recv()
        _produce(source, topic, rate, seconds)
        return [_times(answer) for _, answer in readers]
    finally:
        for process, _ in readers:
            process.terminate()
            process.join()


def _times(answer: Connection) -> tuple[np.ndarray, np.ndarray]:
    assert answer.poll(_LAST_SECONDS + 60), "the consumer has not ended"
    sent, seen = answer.recv()
    return sent / 1e9, (seen - sent) / 1e6


def _produce(bootstrap: str, topic: str, rate: int, seconds: float) -> None:
    together = max(1, rate // _BATCHES_PER_SECOND)
    linger = 0 if together == 1 else 1
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": linger, "acks": "all", "log_level": 2})
    filler = b"x" * (_RECORD_BYTES - _SENT_AT.size)
    began = time.monotonic()
    for number in range(int(seconds * rate)):
        batch, is_first = number // together, number % together == 0
        while is_first and (ahead := began + number / rate - time.monotonic()) > 0:
            time.sleep(ahead)
        producer.produce(topic, _SENT_AT.pack(time.monotonic_ns()) + filler, partition=batch % PARTITIONS)
        producer.poll(0)
    producer.flush(10)


def _consume(bootstrap: str, topic: str, count: int, answer: Connection) -> None:
    """Consume ``count`` records, or until none comes for ten seconds."""
    sent, seen = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    at = 0
    consumer = _consumer_at_end(bootstrap, topic)
    try:
        consumer.poll(0.5)  # the first fetch is on its way
        answer.send("ready")
        last = time.monotonic()
        while at < count and time.monotonic() < last + _LAST_SECONDS:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                last = time.monotonic()
                sent[at], seen[at] = _SENT_AT.unpack_from(message.value())[0], time.monotonic_ns()
                at += 1
    finally:
        consumer.close()
    answer.send((sent[:at], seen[:at]))


def _consumer_at_end(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "mmtool-bench", "log_level": 2})
    while len(ends := end_offsets(bootstrap, topic)) < PARTITIONS:  # a new topic elects its leaders
        time.sleep(0.1)
    consumer.assign([TopicPartition(topic, partition, end) for partition, end in ends.items()])
    return consumer
