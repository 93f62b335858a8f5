"""How much of a diverged tail is written to its destination, as data.

S  the journal has what is going to be written before the first record is written, and what was written once that is
   known
T  what was written is never written again: the rest of a tail begins behind it
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mmtool.translation.divergence import DivergedTail, TailPart
from mmtool.translation.types import TopicPartition, UpstreamOffset

Parts: TypeAlias = "tuple[TailPart, ...]"


@dataclass(frozen=True, slots=True)
class Begun:
    """What the journal has before the first record is written; a resumed operation starts from it.

    Attributes:
        ends: The end offsets of the logs that the records are written to.
        parts: What is going to be written, by partition of the source; empty without records.
    """

    ends: Mapping[TopicPartition, int]
    parts: Mapping[TopicPartition, Parts]

    @property
    def records(self) -> int:
        """The number of records to write."""
        return sum(part.records for parts in self.parts.values() for part in parts)

    def first(
        self, written: Mapping[TopicPartition, tuple[UpstreamOffset, int]]
    ) -> dict[TopicPartition, Parts]:
        """The written parts, by partition: ``written`` gives the offset after them and their number of records."""
        found = {place: _before(self.parts[place], *told) for place, told in written.items()}
        return {place: parts for place, parts in found.items() if parts}


def _before(parts: Parts, stop: UpstreamOffset, records: int) -> Parts:
    whole = [part for part in parts if part.stop <= stop]
    left = records - sum(part.records for part in whole)
    cut = [TailPart(part.start, stop, left) for part in parts if part.start < stop < part.stop and left]
    return (*whole, *cut)


def left_of(tail: DivergedTail, written: Parts) -> DivergedTail:
    """The tail without its written parts."""
    if not written:
        return tail
    stop = written[-1].stop
    parts = tuple(left for part in tail.parts if (left := _behind(part, written)) is not None)
    start = UpstreamOffset(min(max(tail.start, stop), tail.end))
    return DivergedTail(start, tail.end, parts, tail.is_final, tail.brought_to)


def _behind(part: TailPart, written: Parts) -> TailPart | None:
    stop = written[-1].stop
    if part.stop <= stop:
        return None
    if part.start >= stop:
        return part
    gone = sum(one.records for one in written if one.start >= part.start)
    return TailPart(stop, part.stop, part.records - gone)


def whole(tail: DivergedTail, written: Parts) -> DivergedTail:
    """The tail with its written parts, which the mirror may have passed by now."""
    if not written:
        return tail
    left = left_of(tail, written)
    start = UpstreamOffset(min(tail.start, written[0].start))
    end = UpstreamOffset(max(tail.end, written[-1].stop))
    return DivergedTail(start, end, (*written, *left.parts), tail.is_final, tail.brought_to)


def begun_body(begun: Begun) -> dict[str, Any]:
    """The parts to write as JSON values, for the journal's entry before the first record."""
    return {
        "stands": True,
        "ends": [[*place, end] for place, end in sorted(begun.ends.items())],
        "parts": _parts_body(begun.parts),
    }


def written_body(written: Mapping[TopicPartition, Parts]) -> dict[str, Any]:
    """The written parts as JSON values, for the journal's entry after the write: no write is in progress."""
    return {"stands": False, "parts": _parts_body(written)}


def _parts_body(found: Mapping[TopicPartition, Collection[TailPart]]) -> list[list[Any]]:
    return [[*place, [list(part) for part in parts]] for place, parts in sorted(found.items())]


def begun_of(body: Mapping[str, Any]) -> Begun:
    """The parts to write from the JSON values of `begun_body`.

    Raises:
        KeyError, ValueError, TypeError: The values are not those of `begun_body`.
    """
    ends = {TopicPartition(topic, partition): end for topic, partition, end in body["ends"]}
    return Begun(ends, parts_of(body))


def parts_of(body: Mapping[str, Any]) -> dict[TopicPartition, Parts]:
    """The parts by partition, from the JSON values of `begun_body` or of `written_body`.

    Raises:
        KeyError, ValueError, TypeError: The values are not those of either function.
    """
    return {
        TopicPartition(topic, partition): tuple(
            TailPart(UpstreamOffset(start), UpstreamOffset(stop), records) for start, stop, records in parts
        )
        for topic, partition, parts in body["parts"]
    }


def together(
    done: Mapping[TopicPartition, Parts], more: Mapping[TopicPartition, Parts]
) -> dict[TopicPartition, Parts]:
    """The parts written before, followed by those written after them, by partition."""
    return {place: (*done.get(place, ()), *more.get(place, ())) for place in sorted({*done, *more})}
