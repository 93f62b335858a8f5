"""What a mirror's logs lost, lack or got from others: leader epochs (KIP-320), gaps, foreign offsets, messages."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.plan.flow.moves import rebuild, seek_to
from mmtool.plan.topics.facts import HaltReason
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition, Unknown, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.kafka.wire.fetch import Diverging
    from mmtool.replication.spark.assignment import PartitionAssignment
    from mmtool.translation.blocks import MirroredPartition


class LeaderEpochs:
    """The leader epochs of one partition, from its frontier to its fetch position.

    A. An epoch is given for a position only when the batch right below it was read, whatever became of that batch:
       a marker has an epoch as well, and so has a part of a batch.

    Args:
        frontier: The offset below which all is recorded.
        epoch: Of the record right below.
    """

    def __init__(self, frontier: UpstreamOffset, epoch: int | Unknown) -> None:
        self._since: deque[tuple[int, int | Unknown]] = deque([(frontier, epoch)])
        self._coming: deque[tuple[int, int | Unknown]] = deque()

    def coming(self, batches: Iterable[tuple[int, int | Unknown]]) -> None:
        """Set the base offset and epoch of each batch that `read_to` may pass; UNKNOWN for skipped offsets."""
        self._coming = deque(batches)

    def read_to(self, position: UpstreamOffset) -> None:
        """Note that everything below ``position`` was read, the last batch perhaps in part."""
        while self._coming and self._coming[0][0] < position:
            first, epoch = self._coming.popleft()
            if self._since[-1][1] != epoch:
                self._since.append((first + 1, epoch))

    @property
    def last(self) -> int | Unknown:
        """The leader epoch of the batch that was read last."""
        return self._since[-1][1]

    def at(self, position: UpstreamOffset) -> int | Unknown:
        """The leader epoch of the batch right below ``position``; epochs of lower positions are forgotten."""
        while len(self._since) > 1 and self._since[1][0] <= position:
            self._since.popleft()
        since, epoch = self._since[0]
        return epoch if since <= position else UNKNOWN


def source_cut(
    diverging: Diverging, frontier: UpstreamOffset, read_to: UpstreamOffset, place: TopicPartition, flow: str
) -> str:
    """The message about a source log that no longer holds records that were read from it (KIP-595).

    Args:
        diverging: The broker's answer. An end at or after ``read_to`` does not say where the logs diverge.
        frontier: The offset up to which the source is mirrored.
        read_to: The offset up to which it was read.
        place: The source partition.
        flow: The options that select the flow in a command.
    """
    end = diverging.end
    if end >= read_to:
        return (
            f"the source's log below offset {read_to} no longer holds the records that mmtool read from it, as after an"
            " unclean leader election; the first offset that differs is unknown: find it with `mmtool verify"
            f" {flow} --topic {place.topic}`; {_mirror_from(place, 'OFFSET', flow)}"
        )
    cut = f"the source's log was cut at offset {end}, as by an unclean leader election"
    return f"{cut}: {_gone(place, frontier, end, flow)}"


def log_ended(
    place: TopicPartition, frontier: UpstreamOffset, read_to: UpstreamOffset, end: int, flow: str
) -> str:
    """The message about a source log that ends before ``read_to``; arguments as of `source_cut`."""
    cut = f"the source's log ends at offset {end}, but was read up to {read_to}: it was truncated"
    return f"{cut}; {_gone(place, frontier, end, flow)}"


def _gone(place: TopicPartition, frontier: UpstreamOffset, end: int, flow: str) -> str:
    """The consequence for the mirror, as part of a message.

    A seek to an end after the frontier would skip records that are still to be mirrored.
    """
    if end >= frontier:
        return (
            "no mirrored record is gone from the source, and `mmtool replicate` continues by itself from offset"
            f" {frontier}"
        )
    lost = f"offsets {end} to {frontier - 1} were mirrored and are gone from the source"
    return f"{lost}; {_mirror_from(place, end, flow)}"


def _mirror_from(place: TopicPartition, offset: int | str, flow: str) -> str:
    return f"to mirror the source's records from offset {offset} on: {seek_to(place, offset, flow)}"


def target_cut(
    about: MirroredPartition, log_end: DownstreamOffset, target_verified_end: DownstreamOffset, flow: str
) -> HaltReason:
    """The message about a target log that ends before the end of its offset runs.

    Args:
        about: The mirrored partition.
        log_end: The end of the target's log now.
        target_verified_end: The end of the target's log when it was verified last.
        flow: The options that select the flow in a command.
    """
    return HaltReason(
        f"the target's log was cut at offset {log_end}, as by an unclean leader election:"
        f" offsets {log_end} to {target_verified_end - 1} of {about.downstream} are gone",
        f"to mirror the records at these offsets again: {rebuild(about.source_topic, flow)}",
        "; ",
    )


@dataclass(slots=True)
class Gaps:
    """The gaps of one partition in source offsets, counted over all of its owners.

    T  told first: no record behind a gap is mirrored before the gap is on the control topic. An owner that is killed
       there leaves either the gap, which the next owner finds, or the record of it.

    Attributes:
        count: How many offsets.
        end: The offset behind the last gap.
        told: The offset up to which gaps are recorded on the control topic.
    """

    count: int
    end: int
    told: int

    @classmethod
    def of(cls, count: int, end: int) -> Gaps:
        """The gaps that an earlier round or owner reported."""
        return cls(count, end, end)

    def met(self, position: int, start: int) -> bool:
        """Count the gap from ``position`` to the source's log start; whether the control topic holds it by now.

        Offsets are not counted twice when the owner that counted them died before its offset runs were stored.
        """
        if start > self.end:
            self.count += start - max(position, self.end)
            self.end = start
        return self.told >= start


class Foreign:
    """Foreign offsets of one partition, counted from the offsets in the target's answers; no log is read.

    A. Each offset of the target from the beginning on is the mirror's, foreign, or not yet seen; none is counted twice.

    Attributes:
        count: How many; their transactions' markers are counted too.
        end: The offset behind the last one.
    """

    def __init__(self, counted_to: int, count: int = 0, end: int = 0) -> None:
        self.count, self.end = count, end
        self._counted_to = counted_to

    @classmethod
    def of(cls, assignment: PartitionAssignment) -> Foreign:
        """The count as earlier rounds left it.

        Below its start lie the markers of the owner's own fence, and everything that recovery read after them. Stored
        offset runs may end before the last counted offset: only a later record of the flow moves their end.
        """
        tally = assignment.tally
        counted_to = max(assignment.block.tail.target_verified_end, tally.foreign_end)
        return cls(counted_to, tally.foreign, tally.foreign_end)

    def appended(self, base: int, end: int) -> None:
        """Count the offsets before the mirror's next batch, which was appended from ``base`` up to ``end``."""
        self.reached(base)
        self._counted_to = max(self._counted_to, end)

    def reached(self, end: int) -> bool:
        """Count the offsets up to ``end`` that were not counted yet as foreign; whether there were any.

        The caller knows that no unrecorded record of the flow is below ``end``.
        """
        if end <= self._counted_to:
            return False
        self.count += end - self._counted_to
        self.end = self._counted_to = end
        return True
