"""A drill as data: a planned failover of copies (shadows) of the groups, its limits, and its figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mmtool.plan.failover.failover_plan import FailoverPlan, blocking_guards, name_guards, state_guards
from mmtool.plan.failover.steps import Mode
from mmtool.plan.groups.applications import NO_STATE, AppState, with_lost_state
from mmtool.plan.groups.facts import OWN_GROUP_PREFIX, GroupFacts
from mmtool.plan.groups.offsets import GroupPlan
from mmtool.plan.words import Names, counted, few, joined

_MARK = ".drill-"


def shadow_of(group: str, operation_id: str) -> str:
    """The name of a group's shadow in a drill."""
    return f"{OWN_GROUP_PREFIX}{group}{_MARK}{operation_id}"


def shadowed(shadow: str) -> str:
    """The name of the group that a shadow is a copy of; that of a group without one stays."""
    name, mark, _ = shadow.removeprefix(OWN_GROUP_PREFIX).rpartition(_MARK)
    return name if mark else shadow


def plan_drill(
    operation_id: str,
    names: Names,
    plans: Iterable[GroupPlan],
    groups: Iterable[GroupFacts] = (),
    state: AppState = NO_STATE,
) -> FailoverPlan:
    """Plan a drill with the shadows of ``groups``; ``plans`` are translated as far as the mirror reaches."""
    found = tuple(with_lost_state(plan, state, shadowed(plan.group)) for plan in plans)
    guards = (
        *name_guards(groups, names.target),
        *state_guards(state, names.target),
        *blocking_guards(found, after_drain=False),
    )
    return FailoverPlan(
        operation_id,
        Mode.DRILL,
        names,
        found,
        guards=guards,
        state=state.moved,
        without_state=state.without,
    ).with_steps()


_WORST = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """What a drill may cost; None for no limit.

    Attributes:
        rto_seconds: From the start to the last offset read back, at the most.
        reread_records: Records that all groups read again together, at the most.
    """

    rto_seconds: float | None = None
    reread_records: int | None = None


def missed(row: Mapping[str, Any], limits: Limits) -> str:
    """The sentence that a drill missed a limit, with both figures and the worst groups; empty when it met all.

    A figure that is not known misses its limit.

    Args:
        row: The operation's row, as ``failover drill -o json`` has it.
        limits: The requested limits.
    """
    again, by_group = _reread(row)
    rto = row["rto_seconds"]
    if not _exceeds(rto, limits.rto_seconds) and not _exceeds(again, limits.reread_records):
        return ""
    time = "is not known" if rto is None else f"{rto:g} s"
    records = "an unknown number of records" if again is None else counted(again, "record")
    costly = [(name, number) for name, number in by_group.items() if number != 0]
    costly.sort(key=lambda one: (one[1] is not None, -(one[1] or 0), one[0]))  # unknown numbers first
    named = [f"{name} {'not known' if number is None else f'{number:,}'}" for name, number in costly]
    return (
        f"RTO {time}{_limit(limits.rto_seconds, ' s')}; {records} read again{_limit(limits.reread_records)}"
        f"{': ' * bool(named)}{few(named, _WORST)}"
    )


def failing(row: Mapping[str, Any], limits: Limits) -> str:
    """How a drill missed its limits: a measured figure exceeds one, or a figure is not known."""
    figures = (row["rto_seconds"], limits.rto_seconds), (_reread(row)[0], limits.reread_records)
    exceeds = any(figure is not None and _exceeds(figure, limit) for figure, limit in figures)
    return "exceeded a limit" if exceeds else "did not show that it met a limit"


def shown_by(row: Mapping[str, Any], limits: Limits) -> str:
    """The options that show what made a drill miss its limits, as a remedy; arguments as for `missed`."""
    again, _ = _reread(row)
    show = f"`mmtool failover show {row['operation_id']} -c FILE"
    steps = f"{show} --html PAGE.html` shows when each step ended"
    rereads = f"{show} -o json` lists the re-read records of each partition"
    return joined(
        steps if _exceeds(row["rto_seconds"], limits.rto_seconds) else "",
        rereads if _exceeds(again, limits.reread_records) else "",
    )


def _exceeds(figure: float | None, limit: float | None) -> bool:
    return limit is not None and (figure is None or figure > limit)


def _limit(limit: float | None, unit: str = "") -> str:
    return "" if limit is None else f" (limit {limit:,.10g}{unit})"


def _reread(row: Mapping[str, Any]) -> tuple[int | None, dict[str, int | None]]:
    """The records read again, in total and by group; None where unknown."""
    by_group: dict[str, int | None] = {}
    for group in row["groups"]:  # partitions with a reason get no commit
        moved = [one["reread_max"] for one in group["partitions"] if not one["reason"]]
        by_group[shadowed(group["group"])] = None if None in moved else sum(moved)
    if row["reread_records"] is None or None in by_group.values():
        return None, by_group
    return row["reread_records"], by_group


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
