"""Topics of the lab: create them, read them to their end, and compare what was read record by record.

The comparison uses nothing but the records themselves: no offsets, no stored state. A record is its key, value,
headers and timestamp.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from mmtool.errors import GateError, MmtoolError
from mmtool.lab.ports import patience, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import Consumer, Message
    from confluent_kafka.admin import AdminClient


Isolation = Literal["read_committed", "read_uncommitted"]
_READY_SECONDS = 20.0
_ASK_SECONDS = 10.0
_CONSUME_SECONDS = 0.1  # consume() waits that long for the last, smaller handful


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a consumer sees it; ``timestamp_ms`` is -1 where the log has none, as in Kafka."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def create_topic(bootstrap: str, name: str, partitions: int = 1, replicas: int = 1, **config: str) -> None:
    """Create a topic and wait until it can be written to; ``config`` names its settings.

    Raises:
        MmtoolError: The broker refused, for instance because the topic exists.
        GateError: A partition has no leader in time.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": "mmtool-lab-topics", "log_level": 2})
    topic = NewTopic(name, partitions, replicas, config=config)
    try:
        admin.create_topics([topic], operation_timeout=_READY_SECONDS)[name].result(_READY_SECONDS)
    except KafkaException as error:
        raise MmtoolError(f"topic {name}: {error.args[0].str()}", code="topic") from error
    wait_until(
        lambda: _led(admin, name) == partitions, f"leaders of all partitions of {name}", _READY_SECONDS
    )


def _led(admin: AdminClient, topic: str) -> int:
    """The number of partitions with a leader: brokers learn of a new topic after the controller (KRaft)."""
    found = admin.list_topics(topic, timeout=_READY_SECONDS).topics[topic].partitions.values()
    return sum(partition.leader >= 0 for partition in found)


def topics_of(bootstrap: str) -> dict[str, int]:
    """Every topic with its number of partitions."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    topics = admin.list_topics(timeout=_READY_SECONDS).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def read_topic(
    bootstrap: str, topic: str, *, isolation: Isolation = "read_committed", timeout: float = 60.0
) -> list[Record]:
    """Every record from log start to the end that the isolation level allows, per partition in order.

    Raises:
        GateError: The end was not reached in ``timeout`` seconds.
    """
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(_reader_settings(bootstrap, isolation))
    try:
        partitions = consumer.list_topics(topic, _READY_SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        records = list(_until_the_ends(consumer, topic, len(partitions), timeout))
    finally:
        consumer.close()
    return sorted(records, key=lambda record: (record.partition, record.offset))


def _reader_settings(bootstrap: str, isolation: Isolation) -> Mapping[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": "mmtool-lab-reader",
        "group.id": "mmtool-lab-reader",  # asked for by the client; nothing is committed
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "log_level": 2,
    }


def _until_the_ends(consumer: Consumer, topic: str, partitions: int, timeout: float) -> Iterator[Record]:
    from confluent_kafka import KafkaError

    ended: set[int] = set()
    deadline = time.monotonic() + patience(timeout)
    while len(ended) < partitions:
        messages = consumer.consume(10_000, _CONSUME_SECONDS)
        if not messages and time.monotonic() > deadline:
            raise GateError(f"topic {topic} could not be read to its end in {timeout:.0f} s", code="timeout")
        for message in messages:
            error = message.error()
            if error is None:
                yield _record(message)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                ended.add(message.partition())
            else:
                raise MmtoolError(f"reading topic {topic}: {error.str()}", code="read")


def _record(message: Message) -> Record:
    return Record(
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )


def end_offsets(bootstrap: str, topic: str, *, isolation: Isolation = "read_uncommitted") -> dict[int, int]:
    """The end of each partition for a reader; empty while the topic or one of its leaders is missing."""
    from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    from mmtool.kafka.errors import ErrorSubject, is_passing, kind_of

    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": "mmtool-lab-topics", "log_level": 2})
    try:
        known = admin.list_topics(timeout=_READY_SECONDS).topics.get(topic)
        wanted = [TopicPartition(topic, partition) for partition in (known.partitions if known else ())]
        latest = {partition: OffsetSpec.latest() for partition in wanted}
        level = IsolationLevel[isolation.upper()]
        options = {"isolation_level": level, "request_timeout": _ASK_SECONDS}
        asked = admin.list_offsets(latest, **options) if wanted else {}
        ends = {p.partition: answer.result(_READY_SECONDS).offset for p, answer in asked.items()}
    except KafkaException as error:
        if is_passing(error.args[0]) or kind_of(error.args[0].code()) is ErrorSubject.GONE:
            return {}
        raise MmtoolError(f"end offsets of {topic}: {error.args[0].str()}", code="topic") from error
    unanswered = any(end < 0 for end in ends.values())  # OFFSET_INVALID: a leader gave no answer in time
    return {} if unanswered else ends


Headers = tuple[tuple[str, bytes | None], ...]


class Content(NamedTuple):
    """The parts of a record that a consumer gets. Timestamp in ms, -1 where the log has none."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


History = list[Content]
"""The records of one partition in the order in which they were read."""


@dataclass(frozen=True, slots=True)
class RecordsVerdict:
    """How a partition's records differ from the expected ones.

    Attributes:
        expected: How many records there should be.
        missing: Expected and not found.
        duplicated: Found more often than expected.
        foreign: Found and not expected: changed, or written by another producer.
        reordered: Every record is there once, in another order.
        first_difference: Index of the first record that is not the expected one; None where all are.
    """

    expected: int
    missing: int = 0
    duplicated: int = 0
    foreign: int = 0
    reordered: bool = False
    first_difference: int | None = None

    @property
    def is_identical(self) -> bool:
        return self.first_difference is None

    def __str__(self) -> str:
        if self.is_identical:
            return f"{self.expected} records, identical"
        order = ", reordered" if self.reordered else ""
        return (
            f"{self.expected} records expected: {self.missing} missing, {self.duplicated} duplicated,"
            f" {self.foreign} foreign{order}; first difference at record {self.first_difference}, counted from 0"
        )


def compare(expected: Sequence[Content], found: Sequence[Content]) -> RecordsVerdict:
    """Compare the records of one partition with the expected ones."""
    if expected == found:
        return RecordsVerdict(len(expected))
    wanted, there = Counter(expected), Counter(found)
    surplus = there - wanted
    foreign = sum(count for content, count in surplus.items() if content not in wanted)
    return RecordsVerdict(
        len(expected),
        missing=(wanted - there).total(),
        duplicated=surplus.total() - foreign,
        foreign=foreign,
        reordered=wanted == there,
        first_difference=_first_difference(expected, found),
    )


def _first_difference(expected: Sequence[Content], found: Sequence[Content]) -> int:
    pairs = enumerate(zip(expected, found, strict=False))
    shorter = min(len(expected), len(found))
    return next((index for index, (one, other) in pairs if one != other), shorter)


def compare_histories(
    expected: Mapping[int, History], found: Mapping[int, History]
) -> dict[int, RecordsVerdict]:
    """As `compare`, for every partition of either side."""
    partitions = sorted({*expected, *found})
    return {p: compare(expected.get(p, []), found.get(p, [])) for p in partitions}


def histories(records: Iterable[Record]) -> dict[int, History]:
    """The records of each partition, in the order given."""
    by_partition: dict[int, History] = defaultdict(list)
    for record in records:
        content = Content(record.key, record.value, record.headers, record.timestamp_ms)
        by_partition[record.partition].append(content)
    return dict(by_partition)


def compare_consumption(
    log: Mapping[int, History], before: Mapping[int, History], after: Mapping[int, History]
) -> dict[int, RecordsVerdict]:
    """Compare what a group read ``before`` on the source and ``after`` on the target with ``log``, each record once.

    ``log`` has all records of each partition, from the first that the group should read.
    """
    read = {p: [*before.get(p, []), *after.get(p, [])] for p in {*before, *after}}
    return compare_histories(log, read)
