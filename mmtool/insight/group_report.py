"""The text around ``status --groups``: a line for each flow, and the groups that need attention first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.output import human
from mmtool.plain_text import duration
from mmtool.plan.groups.status import summaries
from mmtool.plan.words import counted, few, last_seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mmtool.insight.group_status import GroupsFound
    from mmtool.plan.groups.status import GroupRow, GroupSummary
    from mmtool.translation.types import TopicPartition

_NAMED = 3


def headline(found: GroupsFound) -> str:
    """One line for a flow: how many groups are ready, and the cost of an emergency failover."""
    groups = summaries(found.rows)
    if not groups:
        return f"{found.flow}: no group"
    ready, moved = sum(group.ready for group in groups), [group.group for group in groups if group.moved]
    said = [f"{ready} of {counted(len(groups), 'group')} ready to fail over"]
    said += [f"moved by a failover: {few(moved, _NAMED)}" if moved else "", _not_ready(groups)]
    if len(moved) < len(groups):
        left = [row for row in found.rows if not row.moved]
        said += [
            f"in an emergency: {_missing(left, found.now_ms)}",
            _read_again(left),
            _knowledge(summaries(left)),
        ]
    return f"{found.flow}: {'; '.join(filter(None, said))}"


def _not_ready(groups: Sequence[GroupSummary]) -> str:
    back = [
        f"{group.group} ({group.reason.partition(':')[0]})"
        for group in groups
        if not group.ready and not group.moved
    ]
    return f"not ready: {few(back, _NAMED)}" if back else ""


def _missing(rows: Sequence[GroupRow], now_ms: int) -> str:
    """The records lost in an emergency failover, in words; a partition that several groups read counts once."""
    by_place: dict[TopicPartition, GroupRow] = {row.place: row for row in rows if row.place is not None}
    mirrored = [row for row in by_place.values() if row.blocks_group or row.ready]
    known = [row for row in mirrored if row.rpo_records is not None]
    if not known:
        return _unseen(mirrored, now_ms)
    without = len(mirrored) - len(known)
    unknown = f", unknown for {counted(without, 'partition')}" if without else ""
    records = sum(row.rpo_records or 0 for row in known)
    if not records:
        return f"0 records lost{unknown}"
    worst = max(known, key=lambda row: (row.rpo_seconds or 0.0, row.rpo_records or 0))
    age = "" if worst.rpo_seconds is None else f"of the last {duration(worst.rpo_seconds)}, "
    return f"{human.records(records)} lost{unknown} ({age}worst {worst.place})"


def _unseen(rows: Sequence[GroupRow], now_ms: int) -> str:
    """That the number of lost records is unknown, when the source was last seen, and what is lost at least."""
    seen = max(((row.source_seen_at, row.source) for row in rows if row.source_seen_at), default=None)
    if seen is None:
        return "unknown number of records lost"
    least = sum(row.rpo_records_min or 0 for row in rows)
    at_least = f", at least {human.records(least)} lost" if least else ""
    return f"unknown: {last_seen(seen[1], round(seen[0].timestamp() * 1000), now_ms)}{at_least}"


def _read_again(rows: Sequence[GroupRow]) -> str:
    known = [row for row in rows if row.reread_max is not None]
    if not known:
        return ""
    most = sum(row.reread_max or 0 for row in known)
    if not most:
        return "nothing read again"
    worst = max(known, key=lambda row: row.reread_max or 0)
    expected = [row.reread_expected for row in known]
    numbers = [number for number in expected if number is not None]
    about = f", {human.count(sum(numbers))} expected" if len(numbers) == len(expected) else ""
    return f"at most {human.records(most)} read again{about} (worst {worst.group} in {worst.place})"


def _knowledge(groups: Sequence[GroupSummary]) -> str:
    ages = [group.checkpoint_age_seconds for group in groups if group.checkpoint_age_seconds is not None]
    return f"checkpoints up to {duration(max(ages))} old" if ages else ""


def by_urgency(rows: Iterable[GroupRow]) -> list[GroupRow]:
    """The rows, most urgent first: those that block their group, then by records lost and read again."""

    def key(row: GroupRow) -> tuple[object, ...]:
        costs = (-(row.rpo_records or 0), -(row.reread_max or 0))
        return not row.blocks_group, row.ready, *costs, row.group, row.topic or "", row.partition or 0

    return sorted(rows, key=key)


def on_screen(
    rows: Sequence[GroupRow], fit: int, *, per_group: bool
) -> tuple[list[Mapping[str, object]], str]:
    """The rows of the ``fit`` most urgent groups, else the ``fit`` most urgent rows; and a sentence about the others.

    The sentence is empty where no other is left.
    """
    ordered = by_urgency(rows)
    lines = dict.fromkeys(_line(row, per_group=per_group) for row in ordered)
    shown, left_out = set(list(lines)[:fit]), list(lines)[fit:]
    blocked = {_line(row, per_group=per_group) for row in ordered if row.blocks_group}
    sentence = (
        f"{counted(len(left_out), 'more group' if per_group else 'more row')} ({len(blocked.intersection(left_out))}"
        " not ready): show them with -g NAME, --topic NAME or -o json, or pipe the output"
        if left_out
        else ""
    )
    return [row._asdict() for row in ordered if _line(row, per_group=per_group) in shown], sentence


def _line(row: GroupRow, *, per_group: bool) -> tuple[object, ...]:
    """What stands in the same line of the table."""
    group = (row.source, row.target, row.group)
    return group if per_group else (*group, row.topic, row.partition)
