"""``--diverged topic NAME``: write each diverged record into a topic of the source once, also after a crash.

Keys, values, headers, timestamps and partitions are kept; offsets are new.

S  the journal has where the records go before the first of them is written, and what is written once that is known
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, NotAuthorisedError, PartlyAppliedError, RefusedError
from mmtool.failover.diverged_tail.tail_file import own_batches_of
from mmtool.failover.diverged_tail.tails import TailKind, records_from
from mmtool.failover.operation.operation import TakenUpError, nobody_else
from mmtool.kafka.batches import BatchError, coalesce, raw_records
from mmtool.plan.failover.choices import ToTopic
from mmtool.plan.failover.tail_progress import Begun, Parts, left_of, together, whole
from mmtool.plan.words import are, counted, then
from mmtool.translation.divergence import DivergedTail, TailPart
from mmtool.translation.types import TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from mmtool.failover.diverged_tail.tails import FoundTails, PartitionTail
    from mmtool.failover.operation.journal import Journalist
    from mmtool.failover.operation.records import Recorded
    from mmtool.insight.flow_now import FlowNow
    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.ports import AppendPort, BatchesPort, ClusterPort
    from mmtool.plan.failover.choices import Diverged
    from mmtool.plan.failover.failover_plan import FailoverPlan

Written = dict[TopicPartition, Parts]

_BATCH_BYTES = 1_000_000
"""Largest batch that is written, in bytes: below a topic's default ``max.message.bytes``."""


def transactional_id(operation_id: str) -> str:
    """The transactional id of a failback's writer: a resumed failback gets the same producer id by it."""
    return f"mmtool.diverged.{operation_id}"


class UnknownProgressError(RefusedError):
    """The source has deleted diverged records since the first attempt: which of them were written is unknown."""

    code = "ambiguous"


@dataclass(slots=True)
class DivergedTailWriter:
    """Writes the diverged tail of one operation.

    Attributes:
        flow: The flow whose source has the tail.
        home: The log of the flow's source.
        topic: The topic on the source that takes the records.
        writer: Producer on the flow's source, with the operation's own producer id.
        begun: What the operation was about to write, and may have written in part; None without such a write.
        done: What was written so far.
    """

    flow: FlowNow
    home: BatchesPort
    topic: str
    writer: AppendPort
    journal: Journalist
    operation_id: str
    begun: Begun | None = None
    done: Written = field(default_factory=dict)

    def write(self, tails: FoundTails, check: Callable[[FoundTails], None]) -> None:
        """Write the diverged tails, after completing an interrupted write; record the progress in the journal.

        Args:
            tails: The diverged tails as found now.
            check: Raises if the tails may not be written.

        Raises:
            PartlyAppliedError: Some records may be written, and others not.
            RefusedError, UnreachableError, NotAuthorisedError, MmtoolError: Nothing was written.
        """
        if self.begun is not None:
            self._write(self.begun, tails)
        left = _each(tails, lambda found: left_of(found.tail, self.done.get(found.place, ())))
        if not left.to_export:
            return
        check(left)
        parts = {found.place: found.tail.parts for found in left.to_export}
        begun = Begun(ends_of(self.flow.clusters.source, self.topic, left), parts)
        self._is_there(begun)  # whether we may write is told before anything is on record
        self.journal.salvages(begun)
        self.begun = begun
        self.writer.begin_again()  # else whoever comes next would count what was written until here as well
        self._write(begun, left)

    def whole(self, tails: FoundTails) -> FoundTails:
        """The tails including what was written of them, wherever the flow's frontier is now."""
        return _each(tails, lambda found: whole(found.tail, self.done.get(found.place, ())))

    def _write(self, begun: Begun, tails: FoundTails) -> None:
        try:
            if not self._is_there(begun):
                left = _only(tails, begun, self.flow.clusters.source)
                ours = self.journal.still_ours
                write_tail(self.home, self.writer, left, begun, self.topic, still_ours=ours)
            self._close(dict(begun.parts))
        except TakenUpError:
            raise
        except MmtoolError as error:
            raise self._half_written(begun, tails, error) from error

    def _is_there(self, begun: Begun) -> bool:
        """Whether all records are written; then the source is not read, as it may have deleted them since."""
        written = sum(self.writer.appended(place, end) for place, end in begun.ends.items())
        return written == begun.records

    def _close(self, written: Written) -> None:
        """Record what is written, so that no write is in progress any more."""
        self.journal.still_ours()
        self.journal.salvaged(written)
        self.done, self.begun = together(self.done, written), None

    def _half_written(self, begun: Begun, tails: FoundTails, error: MmtoolError) -> MmtoolError:
        """The error of an interrupted write, after giving up a write that cannot continue.

        If a cluster did not answer, its last request may still be applied: the write stays open for a resume.
        """
        records = counted(begun.records, "diverged record")
        resume = f"run `mmtool failover resume {self.operation_id} -c FILE --execute`"
        if isinstance(error, (RefusedError, BatchError, NotAuthorisedError)):
            count = self._give_up(begun, tails)
            if count == 0:
                return error
            if count is not None:
                return PartlyAppliedError(
                    f"{error.message}; {count} of {records} {are(count)} written",
                    remedy=f"{then(error.remedy, resume)}: written records are not written a second time",
                    code=error.code,
                )
        if isinstance(error, UnknownProgressError):  # its own message says what may be written
            source = self.flow.clusters.source.alias
            remedy = (
                f"run `mmtool failover cancel {self.operation_id} -c FILE --execute`, then compare topic {self.topic}"
                f" on {source} with a backup and with what {source} still has, and produce the missing records into"
                " that topic"
            )
            return PartlyAppliedError(error.message, remedy=remedy, code=error.code)
        return PartlyAppliedError(
            f"{error.message}; some of {records} may already be written",
            remedy=f"{then(error.remedy, resume)}: no record is written twice",
            code=error.code,
        )

    def _give_up(self, begun: Begun, tails: FoundTails) -> int | None:
        """End an interrupted write, and return how many records were written; None if that is unknown."""
        try:
            left = _only(tails, begun, self.flow.clusters.source)
            written = begun.first(written_to(self.home, self.writer, left, begun, self.topic))
            self._close(written)
        except MmtoolError:
            return None
        return sum(part.records for parts in written.values() for part in parts)


def ends_of(source: ClusterPort, topic: str, tails: FoundTails) -> dict[TopicPartition, int]:
    """The current end offsets of the topic's partitions that the records will be written to.

    Raises:
        RefusedError: The topic is missing, or has too few partitions.
        UnreachableError, NotAuthorisedError: The cluster does not answer.
    """
    places = sorted({TopicPartition(topic, found.place.partition) for found in tails.to_export})
    ends = {place: bounds.log_end for place, bounds in source.bounds(places).items()}
    missing = [place for place in places if place not in ends]
    if missing:
        count = 1 + max(place.partition for place in missing)
        raise RefusedError(
            f"cluster {source.alias} has no partition {missing[0]}: diverged records cannot be written to it",
            remedy=f"create topic {topic} on {source.alias} with at least {counted(count, 'partition')}, or"
            " add partitions if the topic exists",
            code="partition_missing",
        )
    return ends


def write_tail(
    source: BatchesPort,
    writer: AppendPort,
    tails: FoundTails,
    begun: Begun,
    topic: str,
    *,
    max_batch_bytes: int = _BATCH_BYTES,
    still_ours: Callable[[], None] = nobody_else,
) -> None:
    """Write the tail's records into a topic; a resumed operation continues without duplicates.

    Args:
        source: The logs with the tail.
        writer: The writer, under the operation's `transactional_id`.
        tails: The diverged tails.
        begun: What the journal has from *before the first attempt*.
        topic: The topic.
        max_batch_bytes: Largest batch, in bytes, that the topic accepts.
        still_ours: Called before each batch, since a process may be suspended between two of them; raises.

    Raises:
        UnknownProgressError: An earlier attempt wrote some records, and the source has deleted records since.
        BatchError: A record cannot be read, or is larger than the topic accepts.
        UnreachableError, NotAuthorisedError, MmtoolError: As both ports.
    """
    there = _appended(source, writer, tails, begun)
    for found in tails.to_export:
        place = TopicPartition(topic, found.place.partition)
        for view in own_batches_of(source, tails, found):
            records = records_from(view, found.tail.start)
            if there[place] >= records:
                there[place] -= records
                continue
            begin = _after(view, found.tail.start, there[place])
            there[place] = 0
            for batch in coalesce([view], position=begin, max_batch_bytes=max_batch_bytes, target_bytes=0):
                still_ours()
                writer.append(place, batch)


def written_to(
    source: BatchesPort, writer: AppendPort, tails: FoundTails, begun: Begun, topic: str
) -> dict[TopicPartition, tuple[UpstreamOffset, int]]:
    """Progress of `write_tail` by source partition: an offset, and how many records before it were written.

    Arguments and errors as for `write_tail`, which must not run any more.
    """
    there, reached = (
        _appended(source, writer, tails, begun),
        dict[TopicPartition, tuple[UpstreamOffset, int]](),
    )
    for found in tails.to_export:
        place, count = TopicPartition(topic, found.place.partition), 0
        for view in own_batches_of(source, tails, found):
            records = records_from(view, found.tail.start)
            if there[place] < records:
                left, there[place] = there[place], 0
                begin = UpstreamOffset(max(found.tail.start, view.header.base_offset))
                reached[found.place] = _after(view, begin, left), count + left
                break
            count, there[place] = count + records, there[place] - records
        else:
            reached[found.place] = found.tail.end, count
    return reached


def _appended(
    source: BatchesPort, writer: AppendPort, tails: FoundTails, begun: Begun
) -> dict[TopicPartition, int]:
    """How many of the operation's records each partition of the topic has.

    Raises:
        UnknownProgressError: It has some, and the source has other records than at the first attempt: progress is
            found by counting them.
    """
    there = {place: writer.appended(place, since) for place, since in begun.ends.items()}
    if not any(there.values()):
        return there
    left = sum(
        records_from(view, found.tail.start)
        for found in tails.to_export
        for view in own_batches_of(source, tails, found)
    )
    if left != begun.records:
        raise UnknownProgressError(
            f"the flow's source now holds {left} of the {counted(begun.records, 'diverged record')}: an interrupted"
            " attempt may have written some of them; mmtool does not know which, and writes no more"
        )
    return there


def _after(view: BatchView, start: UpstreamOffset, count: int) -> UpstreamOffset:
    """The offset of the record that follows the first ``count`` records at or after ``start``."""
    if not count:
        return start
    offsets = [record.offset for record in raw_records(view) if record.offset >= start]
    return UpstreamOffset(offsets[count])


def written_before(found: Iterable[Recorded], plan: FailoverPlan, tails: FoundTails) -> tuple[str, ...]:
    """Warnings about other operations that may have written some of these records into the same topic.

    Records that were written into a topic stay diverged tail until the flow's frontier is after them.

    Args:
        found: The operations on the flow.
        plan: The failback's plan.
        tails: The tails that the failback would write.
    """
    if not isinstance(plan.diverged, ToTopic):
        return ()
    same = [one for one in found if one.operation_id != plan.operation_id]
    same = [one for one in same if (one.head.plan.diverged, one.head.plan.flow) == (plan.diverged, plan.flow)]
    counts = [(one, _among(tails, one)) for one in same]
    return tuple(
        f"operation {one.operation_id} already wrote up to {counted(count, 'diverged record')} into topic"
        f" {plan.diverged.topic} of {one.names.source}; this operation writes them into it a second time: to avoid"
        " that, name an empty topic, or use --diverged file"
        for one, count in counts
        if count
    )


def _among(tails: FoundTails, one: Recorded) -> int:
    written = together(one.salvaged, {} if one.tail is None else one.tail.parts)
    left = _each(tails, lambda found: left_of(found.tail, written.get(found.place, ())))
    return tails.diverged_records - left.diverged_records


def refuse_topic(diverged: Diverged, flow: FlowNow, tails: FoundTails, taken: Collection[str]) -> None:
    """Raise if the topic of ``--diverged topic NAME`` cannot take the tail; do nothing for other destinations.

    Args:
        diverged: The chosen destination of the diverged records.
        flow: The flow whose source has the tail.
        tails: The diverged tails, as far as they are known.
        taken: Topics on the source that the failback uses.

    Raises:
        RefusedError: The topic is missing, has too few partitions, is one of ``taken``, or is internal to Kafka or
            mmtool.
        UnreachableError, NotAuthorisedError: The source does not answer.
    """
    if not isinstance(diverged, ToTopic):
        return
    name, home = diverged.topic, flow.clusters.source
    if name in taken or name.startswith(("mmtool-", "__")) or name.endswith(".internal"):
        why = "it is one of the topics that fail back" if name in taken else "internal topics have such names"
        raise RefusedError(
            f"--diverged topic {name}: {why}",
            remedy=f"name another topic of {home.alias}, only for diverged records; its name must not begin with"
            " mmtool- or __, or end with .internal",
            code="wrong_topic",
        )
    if name not in home.topics():
        widest = max((topic.partitions for topic in flow.topics.values() if topic.name in taken), default=1)
        raise RefusedError(
            f"--diverged topic {name}: cluster {home.alias} has no such topic",
            remedy=f"create it on {home.alias} with at least {counted(widest, 'partition')}",
            code="partition_missing",
        )
    ends_of(home, name, tails)


def _each(tails: FoundTails, change: Callable[[PartitionTail], DivergedTail]) -> FoundTails:
    return replace(tails, partitions=tuple(replace(found, tail=change(found)) for found in tails.partitions))


def _only(tails: FoundTails, begun: Begun, source: ClusterPort) -> FoundTails:
    """The tails as they were when an interrupted write started, without records that the source has deleted.

    Raises:
        UnknownProgressError: A partition was deleted since.
        UnreachableError, NotAuthorisedError: The source does not answer.
    """
    bounds = source.bounds(list(begun.parts))
    found = tuple(
        replace(
            found, kind=TailKind.DIVERGED, tail=_as_begun(found.tail, begun.parts[at], bounds[at].log_start)
        )
        for found in tails.partitions
        if (at := found.place) in begun.parts and at in bounds
    )
    gone = sorted(begun.parts.keys() - {one.place for one in found})
    if gone:
        raise UnknownProgressError(
            f"{gone[0]} was deleted on {source.alias} while its diverged records were being written: mmtool does not"
            " know which of them it wrote"
        )
    return replace(tails, partitions=found)


def _as_begun(tail: DivergedTail, parts: Parts, log_start: int) -> DivergedTail:
    start, end = parts[0].start, parts[-1].stop
    begun = DivergedTail(start, end, parts, tail.is_final, start)
    return left_of(begun, (TailPart(start, UpstreamOffset(log_start), 0),)) if log_start > start else begun
