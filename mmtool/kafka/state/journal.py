"""The journal topic of a target cluster, ``mmtool-journal.internal``: read and append entries."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.errors import unreachable
from mmtool.kafka.state.log_reader import newest_records, read_log, unreadable
from mmtool.kafka.state.own_log import append_records, make_missing
from mmtool.kafka.wire.blocking_client import BlockingWireClient
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.records.documents import UnreadableDocumentError
from mmtool.plan.records.identity import JOURNAL_TOPIC
from mmtool.plan.records.journal import Entry, Kind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mmtool.config import ClusterSettings
    from mmtool.kafka.state.log_reader import LogRecord
    from mmtool.kafka.wire.cluster import WireCluster


class KafkaJournal:
    """A `JournalPort`. The topic is created when the first entry is written."""

    def __init__(self, target: ClusterSettings, replication_factor: int, seconds: float) -> None:
        """Take the target's settings, the topic's replication factor, and the time of one request in seconds."""
        self._target = target
        self._factor = replication_factor
        self._seconds = seconds
        self._wire = BlockingWireClient(wire_cluster(target, "journal", role="producer"), seconds)
        self._is_there = False

    def prepare(self) -> None:
        """Create the journal topic if it is missing.

        Raises:
            UnreachableError, NotAuthorisedError, MmtoolError: the topic cannot be created.
        """
        if not self._is_there:
            make = partial(
                make_missing, settings=self._target, topic=JOURNAL_TOPIC, replication_factor=self._factor
            )
            self._ask(make, f"creating {JOURNAL_TOPIC}")
            self._is_there = True

    def append(self, entries: Sequence[Entry]) -> None:
        self.prepare()
        records = [(entry.key, entry.encode()) for entry in entries]
        append = partial(append_records, topic=JOURNAL_TOPIC, records=records)
        self._ask(append, f"writing to {JOURNAL_TOPIC}")

    def _ask(self, question: Callable[[WireCluster], Awaitable[None]], what: str) -> None:
        try:
            self._wire.ask(question, what)
        except ConnectionLostError as lost:
            raise unreachable(self._target.alias, what, lost) from lost

    def entries(self) -> list[Entry]:
        records = read_log(self._target, JOURNAL_TOPIC, patience_seconds=self._seconds)
        newest = newest_records(records)
        return [
            _decoded(record, record.value, self._target.alias)
            for record in newest
            if record.value is not None
        ]


class FollowedJournal:
    """The journal without the groups' offsets, for repeated reads: only new entries are read."""

    def __init__(self, target: ClusterSettings) -> None:
        self._target = target
        self._entries: dict[bytes, Entry] = {}
        self._next: dict[int, int] = {}

    def entries(self) -> list[Entry]:
        """Every entry except those of single groups, in the order of the log.

        Raises:
            UnreachableError, NotAuthorisedError: as `read_log`.
            RefusedError: an entry cannot be read.
        """
        for record in read_log(self._target, JOURNAL_TOPIC, start=self._next):
            if record.offset < self._next.get(record.partition, 0):
                self._entries.clear()  # the topic was deleted and recreated
            self._next[record.partition] = record.offset + 1
            if record.value is not None:
                entry = _decoded(record, record.value, self._target.alias)
                if entry.kind not in {Kind.GROUP, Kind.OUTCOME}:
                    self._entries[record.key] = entry
        return list(self._entries.values())


def _decoded(record: LogRecord, value: bytes, alias: str) -> Entry:
    try:
        return Entry.decode(value)
    except UnreadableDocumentError as error:
        where = f"{JOURNAL_TOPIC} on {alias}"
        raise unreadable(where, record.partition, record.offset, str(error)) from error
