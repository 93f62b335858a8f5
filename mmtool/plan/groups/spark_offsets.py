"""Offsets of Spark Structured Streaming's Kafka source, which are in checkpoints and options, not in a group."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from mmtool.translation.connect_offsets import parse_json
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EARLIEST: Final = -2
"""Spark's number for a partition's beginning."""
_IN_ORDER, _BY_SOURCE = "v1", "v2"


def starting_offsets(places: Mapping[TopicPartition, int]) -> str:
    """The value of Spark's option ``startingOffsets``: one JSON object, topics and partitions in order."""
    topics: dict[str, dict[str, int]] = {}
    for place, offset in sorted(places.items()):
        topics.setdefault(place.topic, {})[str(place.partition)] = offset
    return json.dumps(topics, separators=(",", ":"), ensure_ascii=False)


def parse_offset_log(lines: Iterable[str]) -> dict[TopicPartition, int]:
    """Parse a file of a Spark checkpoint's ``offsets`` folder: the offset of each partition of its Kafka sources.

    The file has a version, the batch's metadata, then a line for each source. Version 2 (Spark 4.1 and later) has the
    source's id and a colon before its offsets. A source without offsets has a hyphen in their place; sources other than
    Kafka's are left out. Where several sources read a partition, the lowest offset counts.

    Raises:
        ValueError: The file has another version, a line that its version does not allow, or no Kafka source.
    """
    version, *rest = [line.rstrip("\n") for line in lines] or [""]
    if version not in {_IN_ORDER, _BY_SOURCE}:
        raise ValueError(
            f"the first line is {version[:20]!r}, and not the version of a Spark offset log that mmtool reads"
            f" ({_IN_ORDER} or {_BY_SOURCE})"
        )
    found: dict[TopicPartition, int] = {}
    for line in rest[1:]:
        for place, offset in _of_source(_offsets_in(line, version)).items():
            found[place] = min(offset, found.get(place, offset))
    if not found:
        raise ValueError("the file has no offsets of a Kafka source")
    return found


def _offsets_in(line: str, version: str) -> str:
    if version == _IN_ORDER:
        return line
    _, colon, offsets = line.partition(":")
    if not colon:
        raise ValueError(
            f"line {line[:20]!r} does not begin with a source's id and a colon, as in version {version}"
        )
    return offsets


def _of_source(line: str) -> dict[TopicPartition, int]:
    """The Kafka offsets of one source's line (topic to partition to offset); empty for other sources."""
    try:
        topics = parse_json(line)
        return {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
            if type(offset) is int and offset >= 0
        }
    except (ValueError, AttributeError):
        return {}
