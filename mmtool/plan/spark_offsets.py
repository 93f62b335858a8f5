"""Positions of Spark Structured Streaming's Kafka source: kept in checkpoints and options, and in no consumer group."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EARLIEST: Final = -2
"""What Spark writes for a partition's beginning."""
_VERSION = "v1"
_NO_OFFSET = "-"


def starting_offsets(places: Mapping[TopicPartition, int]) -> str:
    """The option ``startingOffsets``: one JSON object, a topic's partitions in order."""
    topics: dict[str, dict[str, int]] = {}
    for place, offset in sorted(places.items()):
        topics.setdefault(place.topic, {})[str(place.partition)] = offset
    return json.dumps(topics, separators=(",", ":"), ensure_ascii=False)


def parse_offset_log(lines: Iterable[str]) -> dict[TopicPartition, int]:
    """A file of a checkpoint's ``offsets`` folder: a version, the batch's metadata, then a line for each source.

    Sources other than Kafka's are passed over.

    Raises:
        ValueError: Another version, or no Kafka source.
    """
    version, *rest = [line.rstrip("\n") for line in lines] or [""]
    if version != _VERSION:
        raise ValueError(f"it begins with {version[:20]!r}: offsets of version {_VERSION} are wanted")
    found = {
        place: offset for line in rest[1:] if line != _NO_OFFSET for place, offset in _of_source(line).items()
    }
    if not found:
        raise ValueError("none of its sources is Kafka's")
    return found


def _of_source(line: str) -> dict[TopicPartition, int]:
    """Kafka's source writes topic to partition to offset; nothing else looks like that."""
    try:
        topics = json.loads(line)
        return {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
            if type(offset) is int and offset >= 0
        }
    except (ValueError, AttributeError):
        return {}
