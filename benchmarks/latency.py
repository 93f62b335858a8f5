"""From producing on the source to consuming on the target, record by record, at a rate that strains nobody."""

from __future__ import annotations

import struct
import threading
import time
from dataclasses import dataclass
from statistics import quantiles

from confluent_kafka import Consumer, Producer, TopicPartition
from workloads import PARTITIONS

from mmtool.lab.topics import end_offsets

RECORDS_PER_SECOND = 500
_RECORD_BYTES = 200
_SENT_AT = struct.Struct(">q")  # nanoseconds of this process's monotonic clock


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds."""

    p50: float
    p99: float
    records: int


def measure(source: str, topic: str, target: str, target_topic: str, seconds: float) -> Latency:
    """Produce at a steady rate into the source while consuming the target; the first second does not count."""
    found: list[tuple[int, int]] = []
    ready, done = threading.Event(), threading.Event()
    reader = threading.Thread(target=_consume, args=(target, target_topic, found, ready, done))
    reader.start()
    ready.wait(30)
    begin = time.monotonic_ns()
    try:
        sent = _produce(source, topic, seconds + 1)
        deadline = time.monotonic() + 10
        while len(found) < sent and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        done.set()
        reader.join()
    took = [(seen - at) / 1e6 for at, seen in found if at > begin + 1_000_000_000]
    percentiles = quantiles(took, n=100)
    return Latency(percentiles[49], percentiles[98], len(took))


def _produce(bootstrap: str, topic: str, seconds: float) -> int:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all", "log_level": 2})
    filler = b"x" * (_RECORD_BYTES - _SENT_AT.size)
    began = time.monotonic()
    count = int(seconds * RECORDS_PER_SECOND)
    for number in range(count):
        while (ahead := began + number / RECORDS_PER_SECOND - time.monotonic()) > 0:
            time.sleep(ahead)
        producer.produce(topic, _SENT_AT.pack(time.monotonic_ns()) + filler, partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush(10)
    return count


def _consume(
    bootstrap: str, topic: str, found: list[tuple[int, int]], ready: threading.Event, done: threading.Event
) -> None:
    consumer = _consumer_at_end(bootstrap, topic)
    try:
        consumer.poll(0.5)  # the first fetch is on its way
        ready.set()
        while not done.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append((_SENT_AT.unpack_from(message.value())[0], time.monotonic_ns()))
    finally:
        consumer.close()


def _consumer_at_end(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "mmtool-bench", "log_level": 2})
    while len(ends := end_offsets(bootstrap, topic)) < PARTITIONS:  # a new topic elects its leaders
        time.sleep(0.1)
    consumer.assign([TopicPartition(topic, partition, end) for partition, end in ends.items()])
    return consumer
