"""Offsets from files, as Kafka's reset file and Spark's checkpoints: checked before they are committed, and planned."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from mmtool.plan.groups.facts import Commit, GroupFacts
from mmtool.plan.groups.offsets import Direction, GroupPlan, OffsetVerdict, guard
from mmtool.translation.answers import Exact, Reason, TargetLog
from mmtool.translation.connect_offsets import parse_json
from mmtool.translation.types import UNKNOWN, TopicPartition, Unknown, UpstreamOffset

_HEADINGS = (["topic", "partition", "offset"], ["group", "topic", "partition", "offset"])
"""Heading lines that are skipped: Kafka's own tool writes none; spreadsheets and people do."""
_COLUMNS = " or ".join(map(",".join, _HEADINGS))
_LONGEST_BARE = 24
_LOWEST_BARE = "-"
_LAST_PARTITION = 2**31 - 1
"""Kafka's highest partition number; a larger number is an offset in the wrong column."""
_LAST_OFFSET = 2**63 - 1


class ResetLine(NamedTuple):
    """One line: the offset to commit; ``group`` is None where the file does not name it."""

    group: str | None
    place: TopicPartition
    offset: int


def parse_reset_csv(lines: Iterable[str]) -> dict[TopicPartition, UpstreamOffset]:
    """Parse a reset file of one group, without a group column: the offset of each partition.

    Raises:
        ValueError: A line has other columns, a number is invalid, or a partition has two lines; names the line.
    """
    found: dict[TopicPartition, UpstreamOffset] = {}
    for number, (group, place, offset) in _rows(lines, "topic,partition,offset"):
        if group is not None:
            raise ValueError(
                f"line {number} has a fourth column: expected topic,partition,offset without a group"
            )
        if place in found:
            raise ValueError(f"line {number}: {place} has two offsets, {found[place]} and {offset}")
        found[place] = UpstreamOffset(offset)
    return found


def parse_groups_csv(lines: Iterable[str]) -> dict[str | None, dict[TopicPartition, int]]:
    """Parse a reset file with or without a group column: each group's offsets, or all of them under None.

    Raises:
        ValueError: A line is invalid, as in `parse_reset_csv`; or some lines name a group and others do not.
    """
    found: dict[str | None, dict[TopicPartition, int]] = {}
    for number, (group, place, offset) in _rows(lines):
        of_group = found.setdefault(group, {})
        if len(found) > 1 and None in found:
            raise ValueError(
                f"line {number}: some lines have three columns and others four: lines with three name no group"
            )
        if of_group.setdefault(place, offset) != offset:
            raise ValueError(f"line {number}: {place} has two offsets, {of_group[place]} and {offset}")
    return found


def _rows(lines: Iterable[str], expected: str = _COLUMNS) -> Iterator[tuple[int, ResetLine]]:
    """Yield the number and content of each line; empty lines and a heading are skipped."""
    empty = True
    for number, row in _fields(lines):
        if number == 1 and [cell.strip().lower() for cell in row] in _HEADINGS:
            continue
        *group, topic, partition, offset = row if len(row) in (3, 4) else ("", "", "")
        are_numbers = _is_number(partition, _LAST_PARTITION) and _is_number(offset, _LAST_OFFSET)
        if not (topic.strip() and are_numbers):
            raise ValueError(
                f"line {number} is {','.join(row)[:60]!r}: expected {expected}, with a partition from 0 to"
                f" {_LAST_PARTITION} and an offset from 0 to {_LAST_OFFSET}"
            )
        if group == [""]:
            raise ValueError(f"line {number}: the group's name is empty")
        empty = False
        place = TopicPartition(topic.strip(), int(partition))
        yield number, ResetLine(group[0] if group else None, place, int(offset))
    if empty:
        raise ValueError("the file has no offsets")


def _fields(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(lines)
    try:
        yield from ((reader.line_num, row) for row in reader if row)
    except csv.Error as error:  # a megabyte without a comma: some other file
        raise ValueError(f"line {reader.line_num}: {error}") from error


def _is_number(text: str, most: int) -> bool:
    text = text.strip()
    return text.isascii() and text.isdigit() and len(text) <= len(str(_LAST_OFFSET)) and int(text) <= most


def write_reset_csv(lines: Iterable[ResetLine]) -> str:
    """A reset file's text, byte for byte as Kafka's tool exports it."""
    return "".join(
        ",".join(map(_field, (*(() if group is None else (group,)), *place, offset))) + "\n"
        for group, place, offset in lines
    )


def _field(value: object) -> str:
    """A CSV field, quoted where Jackson (the writer of Kafka's file) quotes: long texts, characters up to a comma."""
    text = str(value)
    if isinstance(value, int) or (len(text) <= _LONGEST_BARE and all(c >= _LOWEST_BARE for c in text)):
        return text
    return '"' + text.replace('"', '""') + '"'


def plan_import(
    group: GroupFacts,
    wanted: Mapping[TopicPartition, int],
    logs: Mapping[TopicPartition, TargetLog | Unknown],
    *,
    allow_rewind: bool = False,
    problems: Mapping[TopicPartition, str] = MappingProxyType({}),
) -> GroupPlan:
    """Plan the commits of one group from an offsets file: one verdict for each line.

    Args:
        group: Its kind, its state and current commits on the target, and why the target does not describe it.
        wanted: Its offsets in the file, by partition of the target.
        logs: The target's logs; a partition without one is refused as missing.
        allow_rewind: Also move the group back.
        problems: Why a partition's log did not answer.
    """
    verdicts = []
    for place, offset in sorted(wanted.items()):
        log, there = logs.get(place, UNKNOWN), group.before.get(place)
        if group.problem:
            refusal: Reason | None = Reason.UNKNOWN_GROUP
        elif log is UNKNOWN:
            refusal = Reason.PARTITION_MISSING
        elif offset < log.log_start:
            refusal = Reason.TARGET_LOG_START_PASSED
        elif offset > log.log_end:
            refusal = Reason.BEYOND_MIRROR
        else:
            refusal = guard(group, offset, there, allow_rewind=allow_rewind)
        verdicts.append(
            OffsetVerdict(
                group.group,
                None,
                place,
                Commit(offset),
                Exact(offset),
                refusal,
                blocks=refusal is not None,
                before=there,
                detail=group.problem or problems.get(place, ""),
            )
        )
    return GroupPlan(group.group, Direction.FORWARD, tuple(verdicts), kind=group.here.kind)


EARLIEST: Final = -2
"""Spark's number for a partition's beginning."""
_IN_ORDER, _BY_SOURCE = "v1", "v2"


def starting_offsets(places: Mapping[TopicPartition, int]) -> str:
    """The value of Spark's option ``startingOffsets``: one JSON object, topics and partitions in order."""
    topics: dict[str, dict[str, int]] = {}
    for place, offset in sorted(places.items()):
        topics.setdefault(place.topic, {})[str(place.partition)] = offset
    return json.dumps(topics, separators=(",", ":"), ensure_ascii=False)


def connector_offsets(places: Mapping[TopicPartition, int]) -> str:
    """The body of Kafka Connect's request ``PATCH /connectors/NAME/offsets`` for a sink connector (KIP-875)."""
    offsets = [
        {
            "partition": {"kafka_topic": place.topic, "kafka_partition": place.partition},
            "offset": {"kafka_offset": offset},
        }
        for place, offset in sorted(places.items())
    ]
    return json.dumps({"offsets": offsets}, separators=(",", ":"), ensure_ascii=False)


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
        _, colon, offsets = ("", ":", line) if version == _IN_ORDER else line.partition(":")
        if not colon:
            raise ValueError(
                f"line {line[:20]!r} does not begin with a source's id and a colon, as in version {version}"
            )
        for place, offset in _of_source(offsets).items():
            found[place] = min(offset, found.get(place, offset))
    if not found:
        raise ValueError("the file has no offsets of a Kafka source")
    return found


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
