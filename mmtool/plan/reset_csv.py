"""Kafka's reset file, read: what ``kafka-consumer-groups --reset-offsets --from-file`` takes for one group."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from mmtool.translation.types import TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADING = ["topic", "partition", "offset"]
"""Kafka's own tool writes none; spreadsheets and people do."""


def parse_reset_csv(lines: Iterable[str]) -> dict[TopicPartition, UpstreamOffset]:
    """Topic, partition and offset of each line; empty lines and a heading are passed over.

    Raises:
        ValueError: a line has other columns, a number is none, or a partition has two offsets; names the line.
    """
    found: dict[TopicPartition, UpstreamOffset] = {}
    reader = csv.reader(lines)
    for row in filter(None, reader):
        if reader.line_num == 1 and row == _HEADING:
            continue
        if len(row) != 3 or not (_is_number(row[1]) and _is_number(row[2])):
            raise ValueError(
                f"line {reader.line_num}: topic,partition,offset is wanted, not {','.join(row)[:60]!r}"
            )
        place, offset = TopicPartition(row[0].strip(), int(row[1])), UpstreamOffset(int(row[2]))
        if found.setdefault(place, offset) != offset:
            raise ValueError(f"line {reader.line_num}: {place} is to go to {found[place]} and to {offset}")
    if not found:
        raise ValueError("no line names a partition")
    return found


def _is_number(text: str) -> bool:
    return text.strip().isascii() and text.strip().isdigit() and len(text.strip()) < 19
