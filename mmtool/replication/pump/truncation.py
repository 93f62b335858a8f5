"""Logs that lost records at their end, as after an unclean election: leader epochs (KIP-320), and messages."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mmtool.plan.flow.moves import rebuild, seek_to
from mmtool.plan.topics.facts import HaltReason
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.kafka.wire.fetch import Diverging
    from mmtool.translation.blocks import MirroredPartition
    from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset


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
