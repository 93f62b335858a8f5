"""Messages about logs that lost records at their end, as after an unclean leader election."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtool.kafka.wire.fetch import Diverging
    from mmtool.translation.blocks import MirroredPartition
    from mmtool.translation.types import DownstreamOffset, TopicPartition, UpstreamOffset


def source_cut(
    diverging: Diverging, frontier: UpstreamOffset, read_to: UpstreamOffset, place: TopicPartition
) -> str:
    """Of a source's log that does not hold any more what was read from it (KIP-595).

    Args:
        diverging: The broker's word. One whose end is behind ``read_to`` does not tell where it begins.
        frontier: Up to there the source is mirrored.
        read_to: Up to there it was read.
        place: On the source.
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
    """Of a source's log that is shorter than what was read of it; arguments as of `source_cut`."""
    cut = f"the source's log ends at offset {end}, but was read up to {read_to}: it was truncated"
    return f"{cut}; {_gone(place, frontier, end)}"


def _gone(place: TopicPartition, frontier: UpstreamOffset, end: int) -> str:
    """What that means for the mirror. A seek to an end behind the frontier would skip what is still to be mirrored."""
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
) -> str:
    """Of a target's log that is shorter than its books.

    Args:
        about: Whose.
        log_end: Where the log ends by now.
        target_verified_end: Where it ended when it was last heard of.
    """
    return (
        f"the target's log was cut at {log_end}, as by an unclean leader election:"
        f" offsets {log_end} to {target_verified_end - 1} of {about.downstream} are gone;"
        " to mirror their records again: stop `mmtool replicate`, run"
        f" `mmtool flow rebuild --topic {about.source_topic} --execute`, then start it again"
    )
