"""Replay the diverged tail: write its records into a topic as new records.

Keys, values, headers, timestamps and partitions are kept; offsets are new. The records count as written on the cluster
that the groups failed over to: with identical topic names, the reverse flow mirrors them to the source like all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.errors import RefusedError
from mmtool.failover.diverged_tail.tail_file import own_batches_of
from mmtool.failover.diverged_tail.tails import records_from
from mmtool.failover.operation.operation import nobody_else
from mmtool.kafka.batches import coalesce, raw_records
from mmtool.plan.words import counted
from mmtool.translation.types import TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mmtool.failover.diverged_tail.tails import FoundTail, FoundTails
    from mmtool.insight.flow_now import FlowNow
    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.ports import AppendPort, BatchesPort, ClusterPort

_BATCH_BYTES = 1_000_000
"""Largest batch that is written, in bytes: below a topic's default ``max.message.bytes``."""


def transactional_id(operation_id: str) -> str:
    """The transactional id of a failback's writer: a resumed failback gets the same producer id by it."""
    return f"mmtool.diverged.{operation_id}"


def into_topic(topic: str) -> Callable[[TopicPartition], TopicPartition]:
    """A function from a source partition to the partition with its number in one topic: ``--diverged topic NAME``."""
    return lambda place: TopicPartition(topic, place.partition)


def into_counterpart(flow: FlowNow) -> Callable[[TopicPartition], TopicPartition]:
    """A function from a source partition to its mirror on the target: ``--diverged replay``."""
    return lambda place: TopicPartition(flow.remote(place.topic), place.partition)


class UnknownProgressError(RefusedError):
    """The source has deleted diverged records since the first attempt: which of them were written is unknown."""

    code = "ambiguous"


@dataclass(frozen=True, slots=True)
class BeforeReplay:
    """What the journal keeps before the first record is written; a resumed operation starts from it.

    Attributes:
        ends: The end offsets of the logs that the records are written to.
        records: How many records are to be written.
    """

    ends: Mapping[TopicPartition, int]
    records: int


def before_replay(
    target: ClusterPort, tails: FoundTails, to: Callable[[TopicPartition], TopicPartition]
) -> BeforeReplay:
    """The current end offsets of the logs that the records will be written to, and the number of records.

    Raises:
        RefusedError: A destination topic is missing, or has too few partitions.
        UnreachableError, NotAuthorisedError: The cluster does not answer.
    """
    places = sorted({to(found.place) for found in tails.to_export})
    ends = {place: bounds.log_end for place, bounds in target.bounds(places).items()}
    missing = [place for place in places if place not in ends]
    if missing:
        first = missing[0]
        count = 1 + max(place.partition for place in missing if place.topic == first.topic)
        raise RefusedError(
            f"cluster {target.alias} has no partition {first}: diverged records cannot be written to it",
            remedy=f"create topic {first.topic} on {target.alias} with at least {counted(count, 'partition')}, or"
            " add partitions if the topic exists",
            code="partition_missing",
        )
    return BeforeReplay(ends, tails.diverged_records)


def replay_tail(
    source: BatchesPort,
    target: AppendPort,
    tails: FoundTails,
    before: BeforeReplay,
    to: Callable[[TopicPartition], TopicPartition],
    *,
    max_batch_bytes: int = _BATCH_BYTES,
    still_ours: Callable[[], None] = nobody_else,
) -> dict[TopicPartition, int]:
    """Write the tail's records, and return how many; a resumed operation continues without duplicates.

    Args:
        source: The logs with the tail.
        target: The writer, under the operation's `transactional_id`.
        tails: The diverged tails.
        before: The result of `before_replay` *before the first attempt*.
        to: Returns the destination partition of a source partition.
        max_batch_bytes: Largest batch, in bytes, that the topic accepts.
        still_ours: Called before each batch, since a process may be suspended between two of them; raises.

    Returns:
        The number of records written from each source partition, including those of earlier attempts.

    Raises:
        UnknownProgressError: An earlier attempt wrote some records, and the source has deleted records since.
        BatchError: A record cannot be read, or is larger than the topic accepts.
        UnreachableError, NotAuthorisedError, MmtoolError: As both ports.
    """
    there = {place: target.appended(place, since) for place, since in before.ends.items()}
    if any(there.values()):
        _check_whole(source, tails, before)
    given: dict[TopicPartition, int] = {}
    for found in tails.to_export:
        place = to(found.place)
        given[found.place] = 0
        for view in own_batches_of(source, tails, found):
            records = records_from(view, found.tail.start)
            given[found.place] += records
            if there[place] >= records:
                there[place] -= records
                continue
            begin = _after(view, found.tail.start, there[place])
            there[place] = 0
            for batch in coalesce([view], position=begin, max_batch_bytes=max_batch_bytes, target_bytes=0):
                still_ours()
                target.append(place, batch)
    return given


def written_to(
    source: BatchesPort,
    target: AppendPort,
    tails: FoundTails,
    before: BeforeReplay,
    to: Callable[[TopicPartition], TopicPartition],
) -> dict[TopicPartition, tuple[UpstreamOffset, int]]:
    """Progress of `replay_tail` by source partition: an offset, and how many records before it were written.

    Arguments and errors as for `replay_tail`, which must not run any more.
    """
    there = {place: target.appended(place, since) for place, since in before.ends.items()}
    if any(there.values()):
        _check_whole(source, tails, before)
    return {found.place: _reached(source, tails, found, to(found.place), there) for found in tails.to_export}


def _reached(
    source: BatchesPort,
    tails: FoundTails,
    found: FoundTail,
    place: TopicPartition,
    there: dict[TopicPartition, int],
) -> tuple[UpstreamOffset, int]:
    """Progress in one source partition: an offset, and how many records before it were written.

    Subtracts this partition's records from ``there``, the records found in each destination partition.
    """
    count = 0
    for view in own_batches_of(source, tails, found):
        records = records_from(view, found.tail.start)
        if there[place] < records:
            left, there[place] = there[place], 0
            begin = UpstreamOffset(max(found.tail.start, view.header.base_offset))
            return _after(view, begin, left), count + left
        count, there[place] = count + records, there[place] - records
    return found.tail.end, count


def _check_whole(source: BatchesPort, tails: FoundTails, before: BeforeReplay) -> None:
    """Raise if the source has other records than at the first attempt: progress is found by counting them."""
    left = sum(
        records_from(view, found.tail.start)
        for found in tails.to_export
        for view in own_batches_of(source, tails, found)
    )
    if left != before.records:
        raise UnknownProgressError(
            f"the flow's source now holds {left} of the {counted(before.records, 'diverged record')}: an interrupted"
            " attempt may have written some of them; mmtool does not know which, and writes no more"
        )


def _after(view: BatchView, start: UpstreamOffset, count: int) -> UpstreamOffset:
    """The offset of the record that follows the first ``count`` records at or after ``start``."""
    if not count:
        return start
    offsets = [record.offset for record in raw_records(view) if record.offset >= start]
    return UpstreamOffset(offsets[count])
