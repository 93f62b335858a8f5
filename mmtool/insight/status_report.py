"""The text around a status: a line for each flow, what needs attention first, and whether a gate is met."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from mmtool.errors import GateError
from mmtool.output import human
from mmtool.plain_text import duration
from mmtool.plan.flow.status import nobody
from mmtool.plan.records.documents import State
from mmtool.plan.words import counted, moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mmtool.insight.status import FlowStatus, Status
    from mmtool.plan.flow.activity import Activity
    from mmtool.plan.flow.mirror_maker import MirrorMakerProgress
    from mmtool.plan.flow.partition_rows import PartitionRow
    from mmtool.plan.flow.status import FlowFacts

_URGENCY = (
    State.HALTED,
    State.NEVER_RAN,
    State.WAITING,
    State.IDLE,
    State.STARTING,
    State.PAUSED,
    State.RUNNING,
    State.CAUGHT_UP,
    State.FAILED_OVER,
)
_NAMED = 3
_NO_AGES: Mapping[State, float] = MappingProxyType({})


def headline(status: FlowStatus, trend: str = "") -> str:
    """One line for a flow: its owner, its partitions by state, its throughput and its worst lag.

    Args:
        status: The flow's status.
        trend: How its lag changes, from `Trends`.
    """
    if all(row.topic is None for row in status.rows):
        return f"{status.name}: {'; '.join(row.reason for row in status.rows)}"
    states = f"{counted(len(status.rows), 'partition')}: {_states(status.rows, _oldest(status))}"
    facts = status.facts
    said = [_run_by(facts), states, _throughput(status.activities), _lag(status.rows, trend)]
    if status.groups:
        said.append(f"{counted(status.groups, 'group')} with checkpoints")
    away = f"{facts.source} does not answer, {facts.target} knows: " if status.away is not None else ""
    return f"{status.name}: {away}{'; '.join(filter(None, said))}"


def _oldest(status: FlowStatus) -> dict[State, float]:
    """For each state, the longest time in seconds that a partition has been in it."""
    found: dict[State, float] = {}
    for row, activity in zip(status.rows, status.activities, strict=True):
        if activity.state_seconds is not None:
            found[row.state] = max(found.get(row.state, 0.0), activity.state_seconds)
    return found


def _throughput(activities: Iterable[Activity]) -> str:
    """Records and bytes per second, summed over the partitions with known rates; empty where none is known."""
    known = [one for one in activities if one.records_per_second is not None]
    if not known:
        return ""
    records = sum(one.records_per_second or 0.0 for one in known)
    return (
        f"{human.record_rate(records)}, {human.byte_rate(sum(one.bytes_per_second or 0.0 for one in known))}"
    )


def _run_by(facts: FlowFacts) -> str:
    if facts.holder is None:
        is_by_mm2 = bool(facts.mirror_maker) and not facts.ran
        return _by_mirror_maker(facts.mirror_maker) if is_by_mm2 else nobody(facts)
    since = f" since {moment(facts.owner.since_ms)}" if facts.owner and facts.announced else ""
    standbys = f", standbys: {facts.standbys}" if facts.standbys else ""
    return f"run by {facts.holder}{since}{standbys}"


def _by_mirror_maker(progress: MirrorMakerProgress) -> str:
    if progress.has_left:
        return "not running (last owner: MirrorMaker 2)"
    workers = f", {counted(progress.workers, 'worker')}" if progress.workers else ""
    return f"run by MirrorMaker 2{workers}"


def _states(rows: Sequence[PartitionRow], oldest: Mapping[State, float] = _NO_AGES) -> str:
    counted = Counter(row.state for row in rows)
    ages = {state: f" for {duration(seconds)}" for state, seconds in oldest.items()}
    return ", ".join(f"{counted[state]} {state}{ages.get(state, '')}" for state in _URGENCY if counted[state])


def _lag(rows: Sequence[PartitionRow], trend: str = "") -> str:
    known = [row for row in rows if row.lag_records is not None]
    if not known:
        return "lag unknown"
    records = sum(row.lag_records or 0 for row in known)
    without = len(rows) - len(known)
    unknown = f", unknown for {counted(without, 'partition')}" if without else ""
    if not records:
        return f"lag 0{unknown}"
    worst = max(known, key=_lag_key)
    of_worst = "of unknown age" if worst.lag_seconds is None else duration(worst.lag_seconds)
    changes = f" ({trend})" if trend else ""
    return f"lag {human.records(records)}{changes}{unknown}, worst {of_worst} ({name_of(worst)})"


def name_of(row: PartitionRow) -> str:
    """The name of a row's subject for an operator: the partition, the topic or the flow."""
    if row.topic is None:
        return f"{row.source}->{row.target}"
    return row.topic if row.partition is None else f"{row.topic}-{row.partition}"


def _lag_key(row: PartitionRow) -> tuple[bool, float, int]:
    behind = bool(row.lag_records)
    return behind and row.lag_seconds is None, row.lag_seconds or 0.0, row.lag_records or 0


def by_urgency(rows: Iterable[PartitionRow]) -> list[PartitionRow]:
    """The rows, most urgent state first; in the same state, the longest lag first."""

    def key(row: PartitionRow) -> tuple[object, ...]:
        unknown, seconds, records = _lag_key(row)
        return _URGENCY.index(row.state), not unknown, -seconds, -records, row.topic or "", row.partition or 0

    return sorted(rows, key=key)


def on_screen(status: Status, fit: int) -> tuple[list[dict[str, object]], str]:
    """The ``fit`` most urgent rows, and a sentence about the others; empty when there are none."""
    documents = {id(row): told for row, told in zip(status.rows, status.documents(), strict=True)}
    ordered = by_urgency(status.rows)
    shown, left_out = ordered[:fit], ordered[fit:]
    sentence = (
        f"{counted(len(left_out), 'more row')} ({_states(left_out)}): show them with --topic NAME or -o json, or pipe"
        " the output"
        if left_out
        else ""
    )
    return [documents[id(row)] for row in shown], sentence


def gate(rows: Iterable[PartitionRow], max_lag_seconds: float | None) -> GateError | None:
    """The error of ``--max-lag-seconds``; None when every partition is known to lag no longer than that.

    A partition that is halted, was never mirrored, or has an unknown lag fails. A flow without an owner does not fail
    for that alone: its lag is measured all the same, and grows as soon as there is anything to mirror.
    """
    if max_lag_seconds is None:
        return None
    found = list(rows)
    failing = by_urgency(row for row in found if not _passes(row, max_lag_seconds))
    if not failing:
        return None
    named = ", ".join(f"{name_of(row)} {_why(row)}" for row in failing[:_NAMED])
    more = f", and {len(failing) - _NAMED} more" if len(failing) > _NAMED else ""
    of = f" by {len(failing)} of {counted(len(found), 'partition')}" if len(found) > 1 else ""
    return GateError(
        f"--max-lag-seconds {max_lag_seconds:g} is not met{of}: {named}{more}",
        remedy="`mmtool status -c FILE` shows the state of each partition and its reason",
    )


def _passes(row: PartitionRow, max_lag_seconds: float) -> bool:
    if row.state in (State.HALTED, State.NEVER_RAN):
        return False
    return row.lag_seconds is not None and row.lag_seconds <= max_lag_seconds


def _why(row: PartitionRow) -> str:
    if row.state == State.NEVER_RAN:
        return "was never mirrored"
    if row.state == State.HALTED:
        return "is halted"
    if row.lag_seconds is None:
        return "has no known lag in seconds"
    return f"lags {duration(row.lag_seconds)}"
