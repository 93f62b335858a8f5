"""The demo's applications: producers of plain and transactional records, consumer groups, and their proof."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from mmtool.errors import GateError, MmtoolError
from mmtool.lab.records import RecordMaker, numbered
from mmtool.lab.topics import Content, History, compare_consumption, compare_histories, end_offsets
from mmtool.plan.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka import Consumer, KafkaError, Message, Producer

    from mmtool.lab.topics import RecordsVerdict

    Log = Mapping[str, Mapping[int, History]]


JOIN_SECONDS = 60.0  # a busy machine's last commit and last fetch
END_SECONDS = 10.0  # of a tour that is not played to its end


class Worker:
    """Runs ``body`` in a thread; an error that ends it early is raised by ``check`` and ``finish``.

    As a context manager it starts, and finishes.
    """

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self.name = name
        self.stopping = threading.Event()
        self._body = body
        self._failure: BaseException | None = None
        # as a daemon it cannot keep a process alive that has been told to end
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.finish()

    def check(self) -> None:
        """Raise the error that ended the thread, if there is one."""
        if self._failure is not None:
            raise self._failure

    def finish(self) -> None:
        """Ask the thread to stop, and wait until its last work is done; raise its error.

        Raises:
            GateError: The thread did not stop within a minute.
        """
        self.stopping.set()
        self.wait()

    def wait(self) -> None:
        """Wait until the thread has ended by itself; raise its error, as `finish`."""
        self._thread.join(JOIN_SECONDS)
        self.check()
        if self._thread.is_alive():
            raise GateError(f"{self.name} did not end in {JOIN_SECONDS:.0f} s", code="timeout")

    def ended(self, seconds: float) -> bool:
        """Whether the thread ends within so many seconds, or never began; its error is not raised."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._body()
        except BaseException as error:  # noqa: BLE001 - whoever waits for the thread must hear of it
            self._failure = error


def end_together(workers: Sequence[Worker], seconds: float = END_SECONDS) -> None:
    """Ask all workers to stop, then wait for all of them for no longer than ``seconds``.

    Their clients close while the brokers still answer: librdkafka can hang forever in a client that closes while the
    leader of its partitions goes away (its issue 5476), and confluent-kafka then holds up every thread of the process.
    """
    for worker in workers:
        worker.stopping.set()
    deadline = time.monotonic() + seconds
    for worker in workers:
        worker.ended(max(0.0, deadline - time.monotonic()))


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


@dataclass
class Writer:
    """A running producer of one topic: it writes a history at full speed, and then at a steady rate.

    Attributes:
        history: Records of the history.
        handful: Records of one batch of it.
        per_second: Records per second after it.
        transactional: Each batch is one transaction.
        committed: What it has written, without aborted transactions.
        aborted: How many records are in those.
    """

    bootstrap: str
    topic: str
    history: int
    handful: int
    per_second: int
    transactional: bool = False
    committed: Ledger = field(default_factory=lambda: {partition: [] for partition in range(PARTITIONS)})
    aborted: int = 0

    def __post_init__(self) -> None:
        self.worker = Worker(f"producer of {self.topic}", self._write)
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
        return self.written + self.aborted >= self.history

    def _write(self) -> None:
        producer = _producer(self.bootstrap, self.topic, transactional=self.transactional)
        if self.transactional:
            producer.init_transactions(_FLUSH_SECONDS)
        while not self.has_history and not self.worker.stopping.is_set():
            self._handful(producer, self.handful)
        began, base = time.monotonic(), self.written + self.aborted
        while not self.worker.stopping.wait(_PACE_SECONDS):
            due = int((time.monotonic() - began) * self.per_second) + base
            self._handful(producer, due - self.written - self.aborted)

    def _handful(self, producer: Producer, size: int) -> None:
        if size <= 0:
            return
        aborts = self.transactional and next(self._handfuls) % _ABORT_EVERY == 0
        if self.transactional:
            producer.begin_transaction()
        sent = [self._send(producer, number % PARTITIONS) for number in range(size)]
        self._settle(producer)
        if self.transactional:
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


_HANDFUL = 500
_POLL_SECONDS = 0.1
_COMMIT_SECONDS = 0.5
_END_SECONDS = 45.0
TRY_LATER = "if this host is busy, run the demo again when it has less to do"

Reading = dict[str, dict[int, History]]
"""The records that were read, by the source's topic name and partition."""


def count(reading: Mapping[str, Mapping[int, History]]) -> int:
    """The number of records in a reading."""
    return sum(len(history) for partitions in reading.values() for history in partitions.values())


@dataclass
class Application:
    """One consumer of a group on one cluster.

    ``topics`` maps the names to subscribe to onto the source's names; ``produced`` tells how many records
    there are by now. It has read ``share`` of them when it is stopped, and with 1 reads to the very end.
    """

    bootstrap: str
    group: str
    share: float
    topics: Mapping[str, str]
    produced: Callable[[], int]
    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    behind_marker: dict[tuple[str, int], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reading: Reading = {topic: {} for topic in self.topics.values()}
        self.worker = Worker(f"consumer of {self.group}", self._consume)
        self._read = 0
        self._committed_at = time.monotonic()

    def _consume(self) -> None:
        consumer = _consumer(self.bootstrap, self.group)
        try:
            consumer.subscribe(list(self.topics))
            while not self.worker.stopping.is_set():
                self._take(consumer, self._room())
            if self.share >= 1:
                self._to_the_end(consumer)
            self._commit(consumer)
        finally:
            consumer.close()  # leaves the group: it is empty from now on

    def _room(self) -> int:
        return min(_HANDFUL, int(self.share * self.produced()) - self._read)

    def _take(self, consumer: Consumer, most: int) -> None:
        if most <= 0 and self.share < 1:
            self.worker.stopping.wait(_POLL_SECONDS)
            return
        for message in consumer.consume(max(1, most), _POLL_SECONDS):
            self._keep(message)
        if time.monotonic() - self._committed_at > _COMMIT_SECONDS:
            self._commit(consumer)

    def _to_the_end(self, consumer: Consumer) -> None:
        """Read to the log ends, including the last transaction markers, after which a consumer's position ends."""
        ends = {(t, p): end for t in self.topics for p, end in end_offsets(self.bootstrap, t).items()}
        deadline = time.monotonic() + _END_SECONDS
        while any(self.positions.get(place, 0) < end for place, end in ends.items()):
            self._take(consumer, _HANDFUL)
            if time.monotonic() > deadline:
                raise GateError(
                    f"group {self.group} did not read its topics to the end in {_END_SECONDS:.0f} s",
                    remedy=TRY_LATER,
                )

    def _keep(self, message: Message) -> None:
        from confluent_kafka import KafkaError

        error, place = message.error(), (message.topic(), message.partition())
        if error is None:
            content = Content(
                message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1]
            )
            self.reading[self.topics[place[0]]].setdefault(place[1], []).append(content)
            self.positions[place], self.behind_marker[place] = message.offset() + 1, False
            self._read += 1
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
            passed = message.offset() > self.positions.get(place, 0)  # by something that is no record
            self.behind_marker[place] = passed or self.behind_marker.get(place, False)
            self.positions[place] = message.offset()
        elif not error.retriable():
            raise MmtoolError(f"group {self.group}: {error.str()}", code="read")

    def _commit(self, consumer: Consumer) -> None:
        from confluent_kafka import TopicPartition

        self._committed_at = time.monotonic()
        offsets = [TopicPartition(*place, offset) for place, offset in self.positions.items()]
        if offsets:
            consumer.commit(offsets=offsets, asynchronous=False)


def _consumer(bootstrap: str, group: str) -> Consumer:
    from confluent_kafka import Consumer

    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": f"demo-{group}",
            "group.id": group,
            "enable.auto.commit": False,  # what is committed is what was read, to the record
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 65_536,  # small bites, so that slow groups stand amid every partition
            "queued.min.messages": 2_000,
            "fetch.queue.backoff.ms": 10,  # a second by default, once that many wait
            "log_level": 2,
        }
    )


@dataclass(frozen=True, slots=True)
class GroupProof:
    """The comparison for one group, in records.

    Attributes:
        committed: Records in the log, which the group had to read.
        read_before: Read on the source.
        read_after: Read on the target.
        skipped: In the log and never read.
        reread: Read more often than they are in the log.
        foreign: Read and not in the log: another group's, aborted, or changed on the way.
        reordered: A partition's records came in another order.
    """

    group: str
    committed: int
    read_before: int
    read_after: int
    skipped: int
    reread: int
    foreign: int
    reordered: bool

    @property
    def holds(self) -> bool:
        """Whether the group read every committed record exactly once, in order."""
        return (self.skipped, self.reread, self.foreign, self.reordered) == (0, 0, 0, False)

    @property
    def verdict(self) -> str:
        """``exact``, or what is wrong with the records that the group read."""
        wrong = {"skipped": self.skipped, "re-read": self.reread, "foreign": self.foreign}
        said = [f"{number} {what}" for what, number in wrong.items() if number]
        return ", ".join([*said, *(["reordered"] if self.reordered else [])]) or "exact"


def prove(group: str, log: Log, before: Log, after: Log) -> GroupProof:
    """Compare what a group read on both clusters with ``log``, which it should have read from beginning to end.

    ``log``, ``before`` (read on the source) and ``after`` (on the target) are records by topic and partition,
    topics by the source's names.
    """
    verdicts = [
        verdict
        for topic in {*log, *before, *after}
        for verdict in compare_consumption(
            log.get(topic, {}), before.get(topic, {}), after.get(topic, {})
        ).values()
    ]
    return GroupProof(
        group,
        committed=count(log),
        read_before=count(before),
        read_after=count(after),
        skipped=sum(verdict.missing for verdict in verdicts),
        reread=sum(verdict.duplicated for verdict in verdicts),
        foreign=sum(verdict.foreign for verdict in verdicts),
        reordered=any(verdict.reordered for verdict in verdicts),
    )


def differences(expected: Log, found: Log) -> dict[str, RecordsVerdict]:
    """The verdicts of the partitions that differ between ``expected`` and ``found``, by ``topic-partition``."""
    return {
        f"{topic}-{partition}": verdict
        for topic in sorted({*expected, *found})
        for partition, verdict in compare_histories(expected.get(topic, {}), found.get(topic, {})).items()
        if not verdict.is_identical
    }


def numbers(partitions: Mapping[int, History]) -> dict[int, list[int]]:
    """The numbers in the records of one topic, by the partition that is written in the records.

    Raises:
        ValueError: A record has no number.
    """
    found: dict[int, list[int]] = {}
    for content in (content for history in partitions.values() for content in history):
        partition, number = numbered(content.value or b"")
        found.setdefault(partition, []).append(number)
    return found
