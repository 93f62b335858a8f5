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
from mmtool.translation.types import TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mmtool.failover.diverged_tail.tails import FoundTail, FoundTails
    from mmtool.insight.flow_now import FlowNow
    from mmtool.kafka.batches import BatchView
    from mmtool.kafka.ports import AppendPort, BatchesPort, ClusterPort

_BATCH_BYTES = 1_000_000
"""Below the default ``max.message.bytes`` of a topic."""


def transactional_id(operation_id: str) -> str:
    """Under which a failback writes: whoever resumes it writes under the same producer id."""
    return f"mmtool.diverged.{operation_id}"


def into_topic(topic: str) -> Callable[[TopicPartition], TopicPartition]:
    """``--diverged topic NAME``: the partition of that number."""
    return lambda place: TopicPartition(topic, place.partition)


def into_counterpart(flow: FlowNow) -> Callable[[TopicPartition], TopicPartition]:
    """``--diverged replay``: the partition that the flow mirrored to."""
    return lambda place: TopicPartition(flow.remote(place.topic), place.partition)


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
    """Where the records will go, as it is now.

    Raises:
        RefusedError: A topic is missing, or has too few partitions.
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
            remedy=f"create topic {first.topic} on {target.alias} with at least {count} partitions, or add"
            " partitions if the topic exists",
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
    """Write the tail, and go on where an earlier process of the same operation was stopped: nothing is there twice.

    Args:
        source: Where the tail is.
        target: Writes under the operation's `transactional_id`.
        tails: What was found.
        before: As `before_replay` told *before the first try*.
        to: From a partition of the source to one of the target.
        max_batch_bytes: What the topic takes.
        still_ours: Asked before each batch, since whoever is frozen between two of them may wake late; raises.

    Returns:
        How many records each partition of the source has given, those of earlier tries among them.

    Raises:
        RefusedError: An earlier try wrote some, and the source has deleted others since.
        BatchError: A record that cannot be read, or is larger than the topic takes.
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
    """How far `replay_tail` came: an offset of each partition, and how many records before it were written.

    Arguments and errors as there. Nobody may be writing any more.
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
    """Takes what is of this partition away from ``there``."""
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
    """What is there is told by counting, which needs the same records as the first time."""
    left = sum(
        records_from(view, found.tail.start)
        for found in tails.to_export
        for view in own_batches_of(source, tails, found)
    )
    if left != before.records:
        raise RefusedError(
            f"the source now holds {left} of {before.records} diverged records: mmtool does not know which"
            " of them it wrote before it was interrupted, and writes no more of them",
            remedy="compare the records that mmtool wrote with those that the source still holds, and produce the"
            " missing ones yourself",
            code="ambiguous",
        )


def _after(view: BatchView, start: UpstreamOffset, count: int) -> UpstreamOffset:
    """The offset of the record behind ``count`` of those from ``start`` on."""
    if not count:
        return start
    offsets = [record.offset for record in raw_records(view) if record.offset >= start]
    return UpstreamOffset(offsets[count])
