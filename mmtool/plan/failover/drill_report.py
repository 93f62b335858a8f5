"""A drill's report as Markdown: its steps, its duration, and what an emergency would have cost then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.plan.markdown import code, prose

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any


def markdown(row: Mapping[str, Any], at: str) -> str:
    """A drill's report as a Markdown page.

    Args:
        row: The operation's row, as ``failover drill -o json`` has it.
        at: The time of the report, ISO-8601.
    """
    return "\n".join(_lines(row, at)) + "\n"


def _lines(row: Mapping[str, Any], at: str) -> Iterator[str]:
    yield f"# Failover drill of {prose(row['flow'])}"
    yield ""
    yield f"Operation {row['operation_id']}, {at}: **{row['state']}**."
    yield ""
    yield "| | measured |"
    yield "|---|---|"
    for _, what, value, unit in drill_figures(row):
        yield f"| {what} | {'not known' if value is None else f'{value:,} {unit}'.rstrip()} |"
    yield ""
    yield "## Steps"
    yield ""
    for number, step in enumerate(row["steps"], 1):
        yield f"{number}. **{step['name']}** ({step['state']}): {prose(step['sentence'])}"
    yield ""
    yield "## Groups"
    yield ""
    yield "| group | partitions | exact | bounded | refused | left without a commit |"
    yield "|---|---:|---:|---:|---:|---:|"
    for group in row["groups"]:
        yield _group(group)


def drill_figures(row: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, str]]:
    """Yield a drill's measurements: the row's key, a name, the value (None where unknown), and the unit."""
    for key, name, unit in _FIGURES:
        yield key, name, row[key], unit


_FIGURES = (
    ("rto_seconds", "planned failover: time from its start until the last offset was read back (RTO)", "s"),
    ("rpo_records", "planned failover: records lost (RPO)", ""),
    ("reread_records", "planned failover: records read again, at most", ""),
    ("records_read", "first records after the offsets: compared, and the same on both clusters", ""),
    (
        "emergency_rpo_records",
        "emergency failover, estimated for the start of the drill: records lost, at most",
        "",
    ),
    (
        "emergency_knowledge_age_seconds",
        "emergency failover, estimated for the start of the drill: age of the oldest checkpoint",
        "s",
    ),
)


def _group(group: Mapping[str, Any]) -> str:
    partitions = group["partitions"]
    none = sum(partition["reason"] == "no_commit" for partition in partitions)
    counts = {
        word: sum(partition["exactness"] == word for partition in partitions)
        for word in ("exact", "bounded", "refused")
    }
    return (
        f"| {code(group['group'])} | {len(partitions)} | {counts['exact']} | {counts['bounded']} |"
        f" {counts['refused'] - none} | {none} |"
    )
