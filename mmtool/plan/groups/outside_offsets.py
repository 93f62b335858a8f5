"""Groups of sinks that keep Kafka offsets outside Kafka, where no failover moves them.

They are recognized by the names that the sinks, or their users, give to their groups: Kafka stores nothing else that
shows them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from mmtool.plan.words import few

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


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
    "before the sink starts on {target}, replace the offsets that it keeps by those that `mmtool translate-offsets`"
    " shows, or let it write to a new table"
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
