"""``--diverged topic NAME`` and ``replay``: write each diverged record once, also after a crash.

S  the journal has where the records go before the first of them is written, and that all are written once the mirror's
   position is past the tail
O  an operation that ends by itself leaves no record half-done: the mirror skips what was replayed, the rest is still
   diverged tail
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from mmtool.errors import MmtoolError, NotAuthorisedError, PartlyAppliedError, RefusedError
from mmtool.failover.diverged_tail.tail_replay import (
    BeforeReplay,
    UnknownProgressError,
    before_replay,
    into_counterpart,
    into_topic,
    replay_tail,
    written_to,
)
from mmtool.failover.diverged_tail.tails import TailKind
from mmtool.failover.operation.operation import TakenUpError
from mmtool.kafka.batches import BatchError
from mmtool.plan.failover.divergence import Replay, ToTopic
from mmtool.plan.failover.tail_progress import Begun, Parts, left_of, together, whole
from mmtool.plan.words import are, counted, few, then
from mmtool.translation.divergence import DivergedTail, TailPart
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from mmtool.failover.diverged_tail.tails import FoundTail, FoundTails
    from mmtool.failover.modes.cutover import Records
    from mmtool.failover.operation.records import Recorded
    from mmtool.insight.flow_now import FlowNow
    from mmtool.kafka.ports import AppendPort, BatchesPort, ClusterPort
    from mmtool.plan.failover.divergence import Diverged
    from mmtool.plan.failover.failover_plan import FailoverPlan
    from mmtool.translation.types import TopicPartition

Written = dict["TopicPartition", Parts]


class PassingPort(Protocol):
    """A short ownership of the flow, as `flow seek` takes it, to move its position past replayed records."""

    def check(self, flow: FlowNow) -> None:
        """Raise if a process runs the flow, as its position can be moved only while none does.

        Raises:
            OwnedElsewhereError: A process runs the flow.
            UnreachableError, NotAuthorisedError: The target does not answer, or does not show the flow's owner.
        """

    def pass_over(self, flow: FlowNow, to: Mapping[TopicPartition, UpstreamOffset]) -> None:
        """Move each partition's frontier forward to an offset, as `flow seek`; the skipped offsets become a gap.

        Partitions whose frontier is at or after the offset stay as they are.

        Raises:
            OwnedElsewhereError: A process runs the flow.
            RefusedError: A partition cannot be moved.
            UnreachableError, NotAuthorisedError: A cluster does not answer, or denies a part.
        """


@dataclass(frozen=True, slots=True)
class TailTools:
    """The connections and the state with which a tail is written.

    Attributes:
        writer: Producer on the cluster that the records go to, with the operation's own producer id.
        passing: Moves the flow's position.
        begun: What the operation was about to write when it was interrupted, and may have written in part.
        done: What it has written.
    """

    writer: AppendPort
    passing: PassingPort
    begun: Begun | None = None
    done: Mapping[TopicPartition, Parts] = field(default_factory=dict)


@dataclass(slots=True)
class DivergedTailWriter:
    """Writes the diverged tail of one operation.

    Attributes:
        flow: The flow whose source has the tail.
        home: The log of the flow's source.
        done: What was written so far.
    """

    flow: FlowNow
    home: BatchesPort
    diverged: Diverged
    tools: TailTools
    journal: Records
    operation_id: str
    done: Written = field(init=False)
    _begun: Begun | None = field(init=False)

    def __post_init__(self) -> None:
        self.done, self._begun = dict(self.tools.done), self.tools.begun

    @property
    def is_half_way(self) -> bool:
        """Whether records may be replayed that the flow does not skip yet."""
        return self._begun is not None and self._replays

    @property
    def _replays(self) -> bool:
        return self.diverged == Replay()

    @property
    def _to(self) -> Callable[[TopicPartition], TopicPartition]:
        match self.diverged:
            case ToTopic(topic):
                return into_topic(topic)
            case _:
                return into_counterpart(self.flow)

    def check(self) -> None:
        """Raise as `PassingPort.check` for a replay; do nothing otherwise, as the flow's position then stays."""
        if self._replays:
            self.tools.passing.check(self.flow)

    def write(self, tails: FoundTails, check: Callable[[FoundTails], None]) -> None:
        """Write the diverged tails, after completing an interrupted write; record the progress in the journal.

        Args:
            tails: The diverged tails as found now.
            check: Raises if the tails may not be written.

        Raises:
            PartlyAppliedError: Some records may be written, and others not.
            RefusedError, UnreachableError, NotAuthorisedError, MmtoolError: Nothing was written.
        """
        if self._begun is not None:
            self._write(self._begun, tails)
        left = self._left(tails)
        if not left.to_export:
            return
        check(left)
        target, _ = destination(self.flow, self.diverged)
        begun = Begun(before_replay(target, left, self._to).ends, _parts(left))
        self._is_there(begun)  # whether we may write is told before anything is on record
        self.journal.salvages(begun)
        self._begun = begun
        self.tools.writer.begin_again()  # else whoever comes next would count what was written until here as well
        self._write(begun, left)

    def whole(self, tails: FoundTails) -> FoundTails:
        """The tails including what was written of them, wherever the flow's frontier is now."""
        return _each(tails, lambda found: whole(found.tail, self.done.get(found.place, ())))

    def give_up(self, tails: FoundTails) -> int:
        """End an interrupted write: make the flow skip replayed records, and return how many were written.

        Raises:
            UnknownProgressError: The flow's source has deleted records since.
            MmtoolError: As `PassingPort.pass_over`, and the logs.
        """
        begun = self._begun
        if begun is None:
            return 0
        written = self._written_of(begun, tails)
        self._close(written, tails)
        return _count(written)

    def abandon(self, tails: FoundTails) -> tuple[str, ...]:
        """End an interrupted replay as `give_up`, also where the flow's source has deleted records since.

        Of a partition with deleted records the flow skips nothing: records that were not replayed would be lost.

        Returns:
            A warning for each partition of which some records were written, and which ones is unknown.

        Raises:
            MmtoolError: As `PassingPort.pass_over`, and the logs.
        """
        written, unknown, begun = Written(), list[str](), self._begun
        if begun is None:
            return ()
        for place in sorted(begun.parts):
            one = begun.only(place, self._to(place))
            try:
                written |= dict(one.parts) if self._is_there(one) else self._written_of(one, tails)
            except UnknownProgressError:
                unknown += self._unknown(place, one)
        self._close(written, tails)
        return tuple(unknown)

    def _written_of(self, begun: Begun, tails: FoundTails) -> Written:
        left = _only(tails, begun, self.flow.clusters.source)
        return begun.first(written_to(self.home, self.tools.writer, left, _before(begun), self._to))

    def _unknown(self, place: TopicPartition, begun: Begun) -> list[str]:
        """A warning about the records that were written from a partition; none where none was."""
        count = sum(self.tools.writer.appended(to, end) for to, end in begun.ends.items())
        where = destination(self.flow, self.diverged)[0].alias
        said = (
            f"{count} of {counted(begun.records, 'diverged record')} of {place} {are(count)} on {where}, and mmtool"
            f" does not know which, as {self.flow.clusters.source.alias} has deleted some of them:"
            f" {self._compare(begun)}"
        )
        return [said] if count else []

    def _compare(self, begun: Begun) -> str:
        """How an operator completes a write whose progress is unknown."""
        where, topics = destination(self.flow, self.diverged)[0].alias, {place.topic for place in begun.ends}
        noun, those = ("topic", "that topic") if len(topics) == 1 else ("topics", "these topics")
        return (
            f"compare {noun} {few(sorted(topics), 3)} on {where} with a backup and with what"
            f" {self.flow.clusters.source.alias} still has, and produce the missing records into {those}"
        )

    def _left(self, tails: FoundTails) -> FoundTails:
        return _each(tails, lambda found: left_of(found.tail, self.done.get(found.place, ())))

    def _write(self, begun: Begun, tails: FoundTails) -> None:
        try:
            if not self._is_there(begun):
                ours, left = self.journal.still_ours, _only(tails, begun, self.flow.clusters.source)
                replay_tail(self.home, self.tools.writer, left, _before(begun), self._to, still_ours=ours)
            self._close(dict(begun.parts), tails)
        except TakenUpError:
            raise
        except MmtoolError as error:
            raise self._half_written(begun, tails, error) from error

    def _is_there(self, begun: Begun) -> bool:
        """Whether all records are written; then the source is not read, as it may have deleted them since."""
        written = sum(self.tools.writer.appended(place, end) for place, end in begun.ends.items())
        return written == begun.records

    def _close(self, written: Written, tails: FoundTails) -> None:
        """Record what is written; make the flow skip it in the partitions that the source still has."""
        self.journal.still_ours()
        skipped = {place: parts[-1].stop for place, parts in written.items() if tails.of(place) is not None}
        if self._replays and skipped:
            self.tools.passing.pass_over(self.flow, skipped)
        self.journal.salvaged(written)
        self.done, self._begun = together(self.done, written), None

    def _half_written(self, begun: Begun, tails: FoundTails, error: MmtoolError) -> MmtoolError:
        """The error of an interrupted write, after giving up a write that cannot continue.

        If a cluster did not answer, its last request may still be applied: the write stays open for a resume.
        """
        records = counted(begun.records, "diverged record")
        if isinstance(error, (RefusedError, BatchError, NotAuthorisedError)):
            try:
                count = self.give_up(tails)
            except MmtoolError:
                count = begun.records
            if self._begun is None:
                return self._in_part(error, count, records) if count else error
        unknown = isinstance(error, UnknownProgressError)  # its own message says what may be written
        return PartlyAppliedError(
            error.message if unknown else f"{error.message}; some of {records} may already be written",
            remedy=self._way_on(begun, error),
            code=error.code,
        )

    def _way_on(self, begun: Begun, error: MmtoolError) -> str:
        if isinstance(error, UnknownProgressError):
            return f"run `mmtool failover cancel {self.operation_id} -c FILE --execute`, then {self._compare(begun)}"
        return f"{then(error.remedy, self._resume)}: no record is written twice"

    @property
    def _resume(self) -> str:
        return f"run `mmtool failover resume {self.operation_id} -c FILE --execute`"

    def _in_part(self, error: MmtoolError, count: int, records: str) -> MmtoolError:
        where, name = destination(self.flow, self.diverged)[0].alias, self.flow.identity.name
        passed = f" to {where}, so flow {name} does not mirror these again" if self._replays else ""
        again = "start the failback again" if self._replays else self._resume
        return PartlyAppliedError(
            f"{error.message}; {count} of {records} {are(count)} written{passed}",
            remedy=f"{then(error.remedy, again)}: written records are not written a second time",
            code=error.code,
        )


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


def destination(
    flow: FlowNow, diverged: Diverged
) -> tuple[ClusterPort, Callable[[TopicPartition], TopicPartition]]:
    """The cluster that diverged records are written to, and a function from source to destination partition."""
    match diverged:
        case ToTopic(topic):
            return flow.clusters.source, into_topic(topic)
        case _:
            return flow.clusters.target, into_counterpart(flow)


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
    before_replay(home, tails, into_topic(name))


def _parts(tails: FoundTails) -> Written:
    return {found.place: found.tail.parts for found in tails.to_export}


def _before(begun: Begun) -> BeforeReplay:
    return BeforeReplay(begun.ends, begun.records)


def _count(written: Written) -> int:
    return sum(part.records for parts in written.values() for part in parts)


def _each(tails: FoundTails, change: Callable[[FoundTail], DivergedTail]) -> FoundTails:
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
