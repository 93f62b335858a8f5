"""The journal of a target cluster, ``mmtool-journal.internal``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mmtool.kafka.clients import wire_cluster
from mmtool.kafka.errors import unreachable
from mmtool.kafka.log_reader import newest_records, read_log, unreadable
from mmtool.kafka.own_log import append_records, make_missing
from mmtool.kafka.wire.beside import WireBeside
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.plan.documents import UnreadableDocumentError
from mmtool.plan.identity import JOURNAL_TOPIC
from mmtool.plan.journal import Entry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mmtool.config import ClusterSettings
    from mmtool.kafka.wire.cluster import WireCluster


class KafkaJournal:
    """A `JournalPort`. The topic is made when something is first written."""

    def __init__(self, target: ClusterSettings, replication_factor: int, seconds: float) -> None:
        """Say where, how the topic is made, and how long one request may take."""
        self._target = target
        self._factor = replication_factor
        self._seconds = seconds
        self._wire = WireBeside(wire_cluster(target, "journal", role="producer"), seconds)
        self._is_there = False

    def prepare(self) -> None:
        """Make the topic where it is missing.

        Raises:
            UnreachableError, NotAuthorisedError, MmtoolError: It cannot be made.
        """
        if not self._is_there:
            make = partial(
                make_missing, settings=self._target, topic=JOURNAL_TOPIC, replication_factor=self._factor
            )
            self._ask(make, f"making {JOURNAL_TOPIC}")
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
            raise unreachable(self._target.alias, what, str(lost)) from lost

    def entries(self) -> list[Entry]:
        found = []
        records = read_log(self._target, JOURNAL_TOPIC, patience_seconds=self._seconds)
        for record in newest_records(records):
            if record.value is None:
                continue
            try:
                found.append(Entry.decode(record.value))
            except UnreadableDocumentError as error:
                raise unreadable(JOURNAL_TOPIC, record.partition, record.offset, str(error)) from error
        return found
