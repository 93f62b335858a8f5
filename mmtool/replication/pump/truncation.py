"""Messages about logs that lost records at their end, as after an unclean leader election."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.plan.topics.facts import HaltReason

if TYPE_CHECKING:
    from mmtool.kafka.wire.fetch import Diverging
    from mmtool.translation.blocks import MirroredPartition
    from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset


def source_cut(
    diverging: Diverging, frontier: UpstreamOffset, read_to: UpstreamOffset, place: TopicPartition
) -> str:
    """The message about a source log that no longer holds records that were read from it (KIP-595).

    Args:
        diverging: The broker's answer. An end at or after ``read_to`` does not say where the logs diverge.
        frontier: The offset up to which the source is mirrored.
        read_to: The offset up to which it was read.
        place: The source partition.
    """
    end = diverging.end
    if end >= read_to:
        return (
            f"the source's log below {read_to} no longer holds the records that were read, as after an unclean leader"
            " election; the first offset that differs is unknown: find it with `mmtool verify --topic"
            f" {place.topic}`; {_mirror_from(place, 'OFFSET')}"
        )
    cut = f"the source's log was cut at {end}, as by an unclean leader election"
    return f"{cut}: {_gone(place, frontier, end)}"


def log_ended(place: TopicPartition, frontier: UpstreamOffset, read_to: UpstreamOffset, end: int) -> str:
    """The message about a source log that ends before ``read_to``; arguments as of `source_cut`."""
    cut = f"the source's log ends at offset {end}, but was read up to {read_to}: it was truncated"
    return f"{cut}; {_gone(place, frontier, end)}"


def _gone(place: TopicPartition, frontier: UpstreamOffset, end: int) -> str:
    """The consequence for the mirror, as part of a message.

    A seek to an end after the frontier would skip records that are still to be mirrored.
    """
    if end >= frontier:
        return (
            "no mirrored record is gone from the source, and `mmtool replicate` continues by itself from offset"
            f" {frontier}"
        )
    lost = f"offsets {end} to {frontier - 1} were mirrored and are gone from the source"
    return f"{lost}; {_mirror_from(place, end)}"


def _mirror_from(place: TopicPartition, offset: int | str) -> str:
    return (
        f"to mirror the source's records from offset {offset} on: stop `mmtool replicate`, run `mmtool flow seek --csv"
        f" offsets.csv --execute`, then start it again; offsets.csv is a file with the line"
        f" {place.topic},{place.partition},{offset}"
    )


def target_cut(
    about: MirroredPartition, log_end: DownstreamOffset, target_verified_end: DownstreamOffset
) -> HaltReason:
    """The message about a target log that ends before the end of its offset runs.

    Args:
        about: The mirrored partition.
        log_end: The end of the target's log now.
        target_verified_end: The end of the target's log when it was verified last.
    """
    return HaltReason(
        f"the target's log was cut at {log_end}, as by an unclean leader election:"
        f" offsets {log_end} to {target_verified_end - 1} of {about.downstream} are gone",
        "to mirror their records again: stop `mmtool replicate`, run"
        f" `mmtool flow rebuild --topic {about.source_topic} --execute`, then start it again",
        "; ",
    )
