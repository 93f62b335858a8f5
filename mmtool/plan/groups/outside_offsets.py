"""Groups whose commits may not say where they are: sinks with own offsets, and commits with metadata."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, NamedTuple

from mmtool.plan.words import few

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mmtool.plan.groups.facts import GroupFacts


_NAMED = 3
_TIMED = 9
"""Length in bytes of a version and a time."""


def copied_metadata_warnings(groups: Iterable[GroupFacts], read_at: str, written_at: str) -> Iterator[str]:
    """Yield a warning about the groups whose commits have metadata that Kafka Streams did not write.

    Args:
        groups: The groups, with the commits to move.
        read_at: The cluster that the commits are read from.
        written_at: The cluster that they are written to.
    """
    with_metadata = {
        group.group: sorted(
            at
            for at, commit in group.commits.items()
            if commit.metadata and not is_of_streams(commit.metadata)
        )
        for group in groups
    }
    found = [f"{group} ({few(places, _NAMED)})" for group, places in with_metadata.items() if places]
    if found:
        yield (
            f"mmtool copies the commit metadata of {few(found, _NAMED)} unchanged: if it holds offsets of {read_at}, as"
            f" that of parallel-consumer does, these are wrong on {written_at}, and the group may skip or repeat"
            " records. Next: before the move, stop the group's consumers so that they finish the records they hold"
            " (close with drain); or, after the move, clear the metadata with"
            f" `kafka-consumer-groups --reset-offsets --to-current --execute` on {written_at}, and the group only"
            " repeats records"
        )


def is_of_streams(metadata: str) -> bool:
    """Whether Kafka Streams wrote a commit's metadata: its version, the stream time, and what processors add to it."""
    try:
        data = base64.b64decode(metadata, validate=True)
    except (binascii.Error, ValueError):
        return False
    return (data[:1] == b"\x01" and len(data) == _TIMED) or (data[:1] == b"\x02" and len(data) >= _TIMED)


class SinkKind(NamedTuple):
    """A kind of sink, with sentences in which ``{source}`` and ``{target}`` stand for the clusters.

    Attributes:
        groups: What its groups are named like.
        keeps: What it is, where it keeps offsets, and what happens on the target.
        remedy: What to do before it starts on the target.
    """

    groups: re.Pattern[str]
    keeps: str
    remedy: str

    def between(self, source: str, target: str) -> tuple[str, str]:
        """Both sentences, for groups that move from ``source`` to ``target``."""
        names = {"source": source, "target": target}
        return self.keeps.format(**names), self.remedy.format(**names)


_OWN_OFFSETS = (
    "such a sink starts at its own offsets, which are offsets of {source}: on {target} it skips or repeats records,"
    " whatever its group has committed there"
)
_SET_THEM = (
    "before the sink starts on {target}, replace the offsets that it keeps by those that `mmtool translate-offsets"
    " --positions FILE` shows, or let it write to a new table"
)
SINK_KINDS = (
    SinkKind(
        re.compile(r"cg-control-"),
        "such a group is the control group of an Iceberg sink connector, whose tables hold offsets of its control topic"
        " on {source}: as long as the control topic on {target} has lower offsets, the sink discards what it has"
        " written, without an error",
        "before the sink starts on {target}, give it an iceberg.control.topic with a new name",
    ),
    SinkKind(
        re.compile(r".*(?<![a-z])(iceberg|snowflake|delta|flink|hudi|clickhouse)(?![a-z])", re.IGNORECASE),
        "such a name is usual for a sink that keeps Kafka offsets in its table, channel or checkpoints:"
        f" {_OWN_OFFSETS}",
        _SET_THEM,
    ),
    SinkKind(
        re.compile(r"connect-"),
        "such a group is that of a sink connector: on {target} only a connector of the same name uses its offsets, and"
        f" a connector for Iceberg, Snowflake, Delta or ClickHouse may keep offsets of its own: {_OWN_OFFSETS}",
        "to move a sink that keeps no offsets of its own, create its connector on {target} and keep it stopped until"
        f" the failover; for any other sink, {_SET_THEM}",
    ),
)


def sinks_by_kind(groups: Iterable[str]) -> Mapping[SinkKind, list[str]]:
    """The groups that are named like those of sinks, in alphabetical order, by the first kind that fits."""
    found: dict[SinkKind, list[str]] = {}
    for group in sorted(groups):
        kind = next((kind for kind in SINK_KINDS if kind.groups.match(group)), None)
        if kind is not None:
            found.setdefault(kind, []).append(group)
    return found


def sink_warnings(groups: Iterable[str], source: str, target: str) -> Iterator[str]:
    """Yield a warning for each kind of sink among the groups that move from ``source`` to ``target``."""
    for kind, names in sinks_by_kind(groups).items():
        keeps, remedy = kind.between(source, target)
        yield f"{few(names, 3)}: {keeps}. Next: {remedy}"
