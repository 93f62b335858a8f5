"""Read a small topic once, from its beginning or from the last read offset to its current end."""

from __future__ import annotations

import time
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

from mmtool.errors import RefusedError, UnreachableError
from mmtool.kafka.clients import blocking_wire, lent_reader, shared
from mmtool.kafka.errors import Kind, failure_of, kind_of
from mmtool.kafka.state.own_log import MARK
from mmtool.kafka.wire.codes import DENIED, Code
from mmtool.runtime.threads import Unawaited

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from mmtool.config import ClusterSettings
    from mmtool.errors import MmtoolError

FOREIGN_RECORD = (
    "run the mmtool release that wrote the record; if another program wrote it, stop that program and write a"
    " tombstone (the same key, a null value), after which compaction removes the record"
)
"""The remedy where a record of another internal topic cannot be read: it cannot be derived from the logs."""

_POLL_SECONDS = 0.5
_BATCH = 5_000
_PATIENCE_SECONDS = 10.0
_STALL_SECONDS = 30.0
_END_SECONDS = 2.0
_seen: set[tuple[str, str]] = set()
"""Bootstrap servers and topics that were found once; they are not checked again."""
_FROM_THE_START: Mapping[int, int] = MappingProxyType({})


class LogRecord(NamedTuple):
    """One record of an internal topic; a null value is a tombstone."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[tuple[str, bytes | None]] = ()

    @property
    def is_ours(self) -> bool:
        """Whether it has mmtool's mark."""
        return any(name.encode() == MARK[0][0] for name, _ in self.headers)


def read_log(
    cluster: ClusterSettings,
    topic: str,
    partitions: list[int] | None = None,
    start: Mapping[int, int] = _FROM_THE_START,
    *,
    committed: bool = False,
    patience_seconds: float = _PATIENCE_SECONDS,
    stall_seconds: float = _STALL_SECONDS,
) -> Iterator[LogRecord]:
    """Read a topic's records up to its present end, in order within a partition; records without a key are left out.

    Args:
        cluster: The topic's cluster.
        topic: The topic's name.
        partitions: The partitions to read; None for all.
        start: Offsets to begin at, by partition; one that the log no longer holds means the log start.
        committed: Leave out records of aborted and open transactions; internal topics hold none, only markers.
        patience_seconds: How long to wait for the answer whether the topic exists.
        stall_seconds: How long to wait for the next record, or for the end, of any partition.

    A topic that does not exist has no records.

    Raises:
        UnreachableError: the cluster does not answer, or stops answering.
        NotAuthorisedError: without READ on the topic.
    """
    if not _is_there(cluster, topic, patience_seconds):
        return
    try:
        with lent_reader(cluster, committed=committed) as consumer:
            # asked in any case: it also tells the client the leaders
            there = _partitions(consumer, cluster, topic, patience_seconds)
            places = [p for p in there if partitions is None or p in partitions]
            if places:
                consumer.assign([TopicPartition(topic, p, start.get(p, OFFSET_BEGINNING)) for p in places])
                yield from _until_the_end(consumer, cluster, topic, set(places), stall_seconds)
    except KafkaException as error:
        raise _unread(cluster, error.args[0], topic) from error


def _unread(cluster: ClusterSettings, error: Any, topic: str) -> MmtoolError:
    return failure_of(cluster, error, f"reading {topic}", right=f"READ on topic {topic}")


def _is_there(cluster: ClusterSettings, topic: str, patience_seconds: float) -> bool:
    """Whether the topic exists; True where the cluster does not answer yet, since a consumer retries.

    Asked over the wire client: a consumer would make its broker look for a coordinator, which creates
    ``__consumer_offsets``.

    Raises:
        NotAuthorisedError: without DESCRIBE on the topic.
    """
    key = (cluster.bootstrap_servers_for("consumer"), topic)
    if key not in _seen:
        # all such questions share a connection: a login takes several round trips
        connect = partial(blocking_wire, cluster, "reader", "consumer", patience_seconds)
        wire = shared(cluster, f"questions, {patience_seconds} s", connect)
        try:
            found = wire.ask(lambda asked: asked.refresh([topic]), f"reading {topic}")
        except UnreachableError:
            return True
        code = found[topic].error_code
        if code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        if code in DENIED:
            raise _unread(cluster, KafkaError(code), topic)
        _seen.add(key)
    return True


def _partitions(consumer: Any, cluster: ClusterSettings, topic: str, patience_seconds: float) -> list[int]:
    metadata = consumer.list_topics(topic, timeout=patience_seconds).topics[topic]
    if metadata.error is not None:
        if metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return []
        raise _unread(cluster, metadata.error, topic)
    return sorted(metadata.partitions)


def _until_the_end(
    consumer: Any, cluster: ClusterSettings, topic: str, open_ones: set[int], stall_seconds: float
) -> Iterator[LogRecord]:
    ends = _Ends(consumer, topic)
    heard = time.monotonic()
    # librdkafka looks up the coordinator of every consumer, and a reader never uses its group
    passing = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._TRANSPORT)  # noqa: SLF001  a public name
    while open_ones:
        messages = consumer.consume(1, _POLL_SECONDS)
        if messages:
            messages += consumer.consume(_BATCH, 0)  # asked for many at once it waits until there are many
        if any(message.partition() in open_ones for message in messages):
            heard = time.monotonic()  # later records of a partition that is read say nothing of the others
        elif time.monotonic() - heard > stall_seconds:
            raise UnreachableError(
                f"cluster {cluster.alias} stopped answering while {topic} was read",
                remedy=f"check that every partition of {topic} has a leader on {cluster.alias}",
            )
        for message in messages:
            error = message.error()
            if error is None:
                ends.read_to[message.partition()] = message.offset() + 1
                if message.key() is not None:
                    yield LogRecord(
                        message.partition(),
                        message.offset(),
                        message.key(),
                        message.value(),
                        message.timestamp()[1],
                        message.headers() or (),
                    )
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  librdkafka's public name for it
                ends.shown[message.partition()] = message.offset()
            elif not error.retriable() and error.code() not in passing:
                raise _unread(cluster, error, topic)
        open_ones -= ends.reached(open_ones)


class _Ends:
    """Where partitions end, by their leaders' own word.

    One that was elected a moment ago has all of its log, and shows of it what followers had asked for, as if it ended
    there (KIP-207): what is acknowledged may lie behind. Asked where it ends, it says so only once it knows.

    Attributes:
        shown: Where partitions seemed to end.
        read_to: Behind the last record of each.
    """

    def __init__(self, consumer: Any, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic
        self._told: dict[int, int] = {}
        self.shown: dict[int, int] = {}
        self.read_to: dict[int, int] = {}

    def reached(self, partitions: Collection[int]) -> set[int]:
        """The partitions that are read to their leader's end offset, of those that seemed to end.

        The leaders are asked in parallel: each answer may take seconds.
        """
        untold = [p for p in partitions if p in self.shown and p not in self._told]
        if untold:
            with Unawaited() as pool:
                list(pool.map(self._ask, untold))
        return {p for p in self._told if max(self.shown[p], self.read_to.get(p, 0)) >= self._told[p]}

    def _ask(self, partition: int) -> None:
        """Ask a partition's leader for its end offset; a retriable error leaves it to be asked again.

        librdkafka knows no leader once connections were cut.
        """
        try:
            place = TopicPartition(self._topic, partition)
            _, end = self._consumer.get_watermark_offsets(place, timeout=_END_SECONDS, cached=False)
            self._told[partition] = end
        except KafkaException as error:
            code = error.args[0].code()
            if kind_of(code) is not Kind.AWAY and code != KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001  as above
                raise


def newest_records(records: Iterable[LogRecord]) -> list[LogRecord]:
    """The last record of each key, as compaction leaves it; tombstones stay."""
    return list({record.key: record for record in records}.values())


class StoredTopic:
    """A compacted topic that is read repeatedly, each time only what is new. Not safe for threads."""

    def __init__(self, cluster: ClusterSettings, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        """Take the topic's cluster, and ``patience_seconds`` as of `read_log`."""
        self._cluster = cluster
        self._patience = patience_seconds
        self._next: dict[int, int] = {}
        self._read_to: dict[int, int] = {}

    def follow(self, topic: str, forget: Callable[[], None]) -> list[LogRecord]:
        """The last record of each key among those that were not `taken` yet.

        Calls ``forget`` and returns all of them where the topic was recreated, or its log was cut.

        Raises:
            UnreachableError, NotAuthorisedError: as `read_log`.
        """
        found: dict[bytes, LogRecord] = {}
        self._read_to = dict(self._next)
        for record in read_log(self._cluster, topic, start=self._next, patience_seconds=self._patience):
            if record.offset < self._next.get(record.partition, 0):
                break
            found[record.key] = record
            self._read_to[record.partition] = record.offset + 1
        else:
            return list(found.values())
        forget()
        self._next = {}
        return self.follow(topic, forget)

    def taken(self) -> None:
        """Read on behind the returned records from now on; otherwise the next call returns them again."""
        self._next = self._read_to


def unreadable(
    where: str, partition: int, offset: int, why: str, remedy: str = FOREIGN_RECORD
) -> RefusedError:
    """The refusal for a stored record that cannot be read (``unreadable_state``); ``where`` names its topic."""
    return RefusedError(
        f"the record at offset {offset} in partition {partition} of {where} cannot be read: {why}",
        remedy=remedy,
        code="unreadable_state",
    )
