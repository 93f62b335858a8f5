"""What operations store on a target: entries of the journal, and a failover's marks in a flow's control topic.

Only the target is used, as the source may be lost.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock

from mmtool.config import ClusterSettings, FlowSettings
from mmtool.errors import RefusedError
from mmtool.kafka.clients import blocking_wire, shared
from mmtool.kafka.state.log_reader import LogRecord, StoredTopic, unreadable
from mmtool.kafka.state.own_log import append_records, make_missing
from mmtool.kafka.wire.cluster import WireCluster
from mmtool.kafka.wire.transactions import Marker, write_markers
from mmtool.plan.groups.names import GroupNames
from mmtool.plan.records.documents import Document, UnreadableDocumentError
from mmtool.plan.records.identity import JOURNAL_TOPIC, FlowIdentity
from mmtool.plan.records.journal import EntryKind, JournalEntry
from mmtool.translation.types import TopicPartition


class KafkaJournal:
    """A `JournalPort`; all of a process have one reader. The topic is created when the first entry is written."""

    def __init__(self, target: ClusterSettings, replication_factor: int, seconds: float) -> None:
        """Take the target's settings, the topic's replication factor, and the time of one request in seconds."""
        self._target = target
        self._factor = replication_factor
        self._seconds = seconds
        self._wire = blocking_wire(target, "journal", "producer", seconds)
        self._reader = shared(target, f"journal, {seconds} s", partial(JournalReader, target, seconds))
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
            self._wire.ask(make, f"creating {JOURNAL_TOPIC}")
            self._is_there = True

    def append(self, entries: Sequence[JournalEntry]) -> None:
        self.prepare()
        records = [(entry.key, entry.encode()) for entry in entries]
        append = partial(append_records, topic=JOURNAL_TOPIC, records=records)
        self._wire.ask(append, f"writing to {JOURNAL_TOPIC}")

    def entries(self) -> list[JournalEntry]:
        return self._reader.entries()


class JournalReader:
    """The journal's entries; each call reads only what was written since the last one, and one thread at a time."""

    def __init__(
        self, target: ClusterSettings, patience_seconds: float, *, without: Collection[EntryKind] = ()
    ) -> None:
        """Take the journal's cluster, how long to wait for it, and the kinds of entries that are not kept."""
        self._target = target
        self._topic = StoredTopic(target, patience_seconds)
        self._without = without
        self._entries: dict[bytes, JournalEntry] = {}
        self._reading = Lock()

    def entries(self) -> list[JournalEntry]:
        """Every entry of the kept kinds, in the order of the log.

        Raises:
            UnreachableError, NotAuthorisedError: as `read_log`.
            RefusedError: an entry cannot be read; the next call reads it again.
        """
        with self._reading:
            records = self._topic.follow(JOURNAL_TOPIC, self._entries.clear)
            for key, entry in [(record.key, self._decoded(record)) for record in records]:
                if entry is None:
                    self._entries.pop(key, None)
                elif entry.kind not in self._without:
                    self._entries[key] = entry
            self._topic.taken()
            return list(self._entries.values())

    def _decoded(self, record: LogRecord) -> JournalEntry | None:
        """A record's entry; None for a tombstone."""
        try:
            return None if record.value is None else JournalEntry.decode(record.value)
        except UnreadableDocumentError as error:
            where = f"{JOURNAL_TOPIC} on {self._target.alias}"
            raise unreadable(where, record.partition, record.offset, str(error)) from error


@dataclass(frozen=True, slots=True)
class KafkaMarks:
    """A `mmtool.failover.modes.cutover.MarksPort`.

    Attributes:
        target: The flow's target.
        identity: The flow.
        factor: The control topic's replication factor, if it is missing.
        seconds: The time limit.
    """

    target: ClusterSettings
    identity: FlowIdentity
    factor: int
    seconds: float

    def write(self, marks: Sequence[Document]) -> None:
        """Append marks to the flow's control topic, acknowledged by all in-sync replicas; the source is not needed.

        The flow's owner applies them within about a second. A mark has one key for each topic or group, so writing it
        again, after an error that leaves in doubt what was written, changes nothing.

        Raises:
            UnreachableError: the target did not take them in time: some may have been written.
            NotAuthorisedError: CREATE, DESCRIBE or WRITE on the topic is denied.
            RefusedError: the brokers belong to another cluster than the flow's target.
        """
        topic = self.identity.control_topic

        async def write(cluster: WireCluster) -> None:
            found = cluster.identify()
            if found != self.identity.target_id:
                raise RefusedError(
                    f"the brokers of {cluster.alias} report cluster id {found}, but the target of"
                    f" {self.identity.name} is {self.identity.target_id}",
                    remedy=f"check {cluster.alias}.bootstrap.servers",
                )
            await make_missing(cluster, self.target, topic, self.factor)
            await append_records(cluster, topic, [(mark.key, mark.encode()) for mark in marks])

        if marks:
            blocking_wire(self.target, "marks", "producer", self.seconds).ask(write, f"writing to {topic}")

    def promote(self, places: Collection[TopicPartition]) -> None:
        """Raise the epoch of the flow's data producer, on record first, then by a marker in each partition."""
        from mmtool.kafka.state.state_log import read_control

        writers = read_control(self.target, self.identity).offset_writers
        if writers is None:
            return
        writers = replace(writers, epoch=writers.epoch + 1)
        self.write([writers])
        wire = blocking_wire(self.target, "marks", "producer", self.seconds)
        marker = Marker(writers.data_producer, writers.epoch, writers.epoch, places)
        wire.ask(lambda cluster: write_markers(cluster, marker), "writing the marker of the promotion")


def group_names(flow: FlowSettings, seconds: float) -> GroupNames:
    """The names of a flow's groups on its target, not read yet; ``seconds`` as in `KafkaMarks`."""

    def store(identity: FlowIdentity, records: Sequence[Document]) -> None:
        factor = flow.offset_syncs_replication_factor
        KafkaMarks(flow.target, identity, factor, seconds).write(records)

    return GroupNames((flow.source.alias, flow.target.alias), flow.group_map, flow.groups.accepts, store)
