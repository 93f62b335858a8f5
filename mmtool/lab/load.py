"""The load generator: realistic, numbered records, written at a given rate, by threads that can be stopped."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self

from mmtool.errors import GateError, MmtoolError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from confluent_kafka import KafkaError, Producer


_TEMPLATES = 256
_NOISE_BYTES = 4 << 20  # longer than any batch, so that a batch seldom holds the same slice twice
_NOISE_SHARE, _NOISE_SPARED = 0.255, 5  # the frame of a short record is not free either
_GOLDEN = 0.618_034  # multiples of this share of a range stay as far apart as they can
_PRINTABLE = bytes(c for c in range(0x21, 0x7F) if c not in b'"\\')
_HEAD = b'{"id":"%d-%012d",'
_HEAD_PATTERN = re.compile(rb'\{"id":"(\d+)-(\d+)"')
_ROOM_FOR_FIELDS = 450
SMALLEST_RECORD = 64

_WORDS = {
    "status": ("created", "paid", "packed", "shipped", "delivered", "returned", "cancelled"),
    "country": ("DE", "FR", "IT", "ES", "PL", "NL", "SE", "AT", "US", "JP"),
    "currency": ("EUR", "USD", "SEK", "PLN", "JPY"),
    "channel": ("web", "app", "store", "partner", "phone"),
    "warehouse": ("north-1", "north-2", "south-1", "east-3", "west-2"),
    "customer_segment": ("private", "business", "reseller", "public sector"),
}
_PHRASES = (
    "handed to the carrier at the loading bay and scanned once more, ",
    "the customer asked by phone for delivery after six in the evening, ",
    "address checked against the register, house number added by hand, ",
    "stock is reserved in the regional warehouse until the payment has cleared, ",
    "two of the three items left today, the last one follows on its own, ",
    "returned unopened, refund released without a second inspection, ",
    "invoice sent as PDF to accounting and filed under the yearly agreement, ",
    "gift wrapping chosen, the price is left out of the delivery note, ",
)


class RecordMaker:
    """Makes values of exactly ``size`` bytes, each with its partition and its number in that partition.

    Valid JSON; equal seeds make equal records.

    Raises:
        UsageError: ``size`` is below 64.
    """

    def __init__(self, size: int, seed: int = 1) -> None:
        if size < SMALLEST_RECORD:
            raise UsageError(
                f"records of {size} bytes are too small: at least {SMALLEST_RECORD} bytes are needed"
            )
        self._size = size
        chance = random.Random(seed)
        self._noise = chance.randbytes(_NOISE_BYTES).translate((_PRINTABLE * 3)[:256])
        self._noise_length = int(size * _NOISE_SHARE) - _NOISE_SPARED
        self._places = _NOISE_BYTES - self._noise_length
        self._stride = int(self._places * _GOLDEN)
        self._templates = [_template(size, chance) for _ in range(_TEMPLATES)]
        self._cut: dict[int, list[bytes]] = {}

    def value(self, partition: int, sequence: int) -> bytes:
        head = _HEAD % (partition, sequence)
        tails = self._cut.get(len(head)) or self._tails(len(head))
        place = (sequence + 977 * partition) * self._stride % self._places
        noise = self._noise[place : place + self._noise_length]
        return b'%b"k":"%b","note":"%b' % (head, noise, tails[sequence % _TEMPLATES])

    def _tails(self, head_length: int) -> list[bytes]:
        """The templates, cut in their free text so that the whole record has its size."""
        length = self._size - head_length - self._noise_length - len(b'"k":"","note":"')
        return self._cut.setdefault(head_length, [template[-length:] for template in self._templates])


def numbered(value: bytes) -> tuple[int, int]:
    """The partition, and the number in it, of a record that a RecordMaker made.

    Raises:
        ValueError: The record was not made by one.
    """
    found = _HEAD_PATTERN.match(value)
    if found is None:
        raise ValueError(f"not a record of the lab: {value[:40]!r}")
    return int(found.group(1)), int(found.group(2))


def _template(size: int, chance: random.Random) -> bytes:
    """The tail of a record: free text that may be cut at its front, its closing quote, and fields if there is room."""
    fields = json.dumps({name: chance.choice(words) for name, words in _WORDS.items()})
    ending = b'",' + fields.encode()[1:] if size > _ROOM_FOR_FIELDS else b'"}'
    text = "".join(chance.choices(_PHRASES, k=size // 40))
    return text.encode() + ending


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


Keys = Literal["none", "sequence", "cyclic"]
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

    def aborts(self, number: int) -> bool:
        """Whether transaction ``number``, counted from 1, is aborted."""
        return self.abort_every > 0 and number % self.abort_every == 0


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
    keys: Keys = "none"
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

    records: int
    value_bytes: int
    seconds: float
    next_sequence: Mapping[int, int]
    aborted: frozenset[tuple[int, int]]

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds


@dataclass(frozen=True, slots=True)
class _Chunk:
    partition: int
    first: int
    size: int


def produce(bootstrap: str, load: Load) -> Loaded:
    """Write the load and wait until every record is acknowledged by all in-sync replicas.

    Raises:
        MmtoolError: A record was refused or not acknowledged within two minutes.
    """
    from confluent_kafka import KafkaException

    run = _Run(bootstrap, load)
    started = time.perf_counter()
    try:
        aborted = run.in_transactions(load.transactions) if load.transactions else run.plainly()
    except KafkaException as error:
        raise MmtoolError(f"load into {load.topic}: {error.args[0].str()}", code="load") from error
    seconds = time.perf_counter() - started
    return Loaded(load.count, load.count * load.record_bytes, seconds, run.next_sequence, aborted)


class _Run:
    def __init__(self, bootstrap: str, load: Load) -> None:
        self._load = load
        self._maker = RecordMaker(load.record_bytes)
        self._failures: list[str] = []
        self._producer = _producer(bootstrap, load)
        self._started = time.perf_counter()
        self._sent = 0
        self.next_sequence = dict.fromkeys(range(load.partitions), load.first_sequence)

    def plainly(self) -> frozenset[tuple[int, int]]:
        handful = self._load.records_per_second * _PACED_SECONDS
        for chunk in _chunks(self._load, int(max(1, min(_CHUNK, handful)))):
            self._send(chunk)
        self._settle()
        return frozenset()

    def in_transactions(self, how: Transactions) -> frozenset[tuple[int, int]]:
        """Write the load in transactions over all partitions; return the (partition, number) of aborted records."""
        aborted: set[tuple[int, int]] = set()
        self._producer.init_transactions(_FLUSH_SECONDS)
        per_partition = max(1, how.records // self._load.partitions)
        chunks = _chunks(self._load, per_partition)
        for number in itertools.count(1):
            batch = list(itertools.islice(chunks, self._load.partitions))
            if not batch:
                return frozenset(aborted)
            if self._transaction(batch, abort=how.aborts(number)):
                aborted.update((c.partition, c.first + i) for c in batch for i in range(c.size))
        raise AssertionError("unreachable")

    def _transaction(self, chunks: list[_Chunk], *, abort: bool) -> bool:
        self._producer.begin_transaction()
        for chunk in chunks:
            self._send(chunk)
        self._settle()  # also before an abort, which would purge what is still in the client's queue
        if abort:
            self._producer.abort_transaction(_FLUSH_SECONDS)
        else:
            self._producer.commit_transaction(_FLUSH_SECONDS)
        return abort

    def _send(self, chunk: _Chunk) -> None:
        self._wait_for_turn()
        messages = [self._message(chunk.partition, chunk.first + i) for i in range(chunk.size)]
        if self._load.headers or self._load.first_timestamp_ms:
            self._send_singly(messages, chunk.partition)
        else:
            self._send_together(messages, chunk.partition)
        self._sent += chunk.size
        self.next_sequence[chunk.partition] = chunk.first + chunk.size
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
        for message in messages:
            while not self._sent_one(message, partition):
                self._producer.poll(0.01)

    def _sent_one(self, message: Message, partition: int) -> bool:
        try:
            self._producer.produce(
                self._load.topic,
                partition=partition,
                headers=list(self._load.headers),
                on_delivery=self._on_failure,
                **message,
            )
        except BufferError:
            return False
        return True

    def _on_failure(self, error: KafkaError, _: object) -> None:
        self._failures.append(error.str())

    def _wait_for_turn(self) -> None:
        due = self._started + self._sent / self._load.records_per_second
        while (ahead := due - time.perf_counter()) > 0:
            self._producer.poll(min(ahead, 0.1))

    def _settle(self) -> None:
        left = self._producer.flush(_FLUSH_SECONDS)
        if left:
            self._failures.append(f"{left} records were not acknowledged in {_FLUSH_SECONDS:.0f} s")
        if self._failures:
            raise MmtoolError(f"load into {self._load.topic}: {self._failures[0]}", code="load")


def _producer(bootstrap: str, load: Load) -> Producer:
    from confluent_kafka import Producer

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
    return Producer(settings)


def _chunks(load: Load, size: int) -> Iterator[_Chunk]:
    """The load's records in chunks, dealt out to the partitions in turn."""
    following = dict.fromkeys(range(load.partitions), load.first_sequence)
    left = load.count
    for partition in itertools.cycle(range(load.partitions)):
        if left <= 0:
            return
        chunk = _Chunk(partition, following[partition], min(size, left))
        following[partition] += chunk.size
        left -= chunk.size
        yield chunk
