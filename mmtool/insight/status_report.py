"""The text around a status: a line for each flow, and what needs attention first, also of its groups."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import GateError
from mmtool.output import human
from mmtool.plain_text import duration
from mmtool.plan.flow.positions import STILL
from mmtool.plan.flow.status import nobody
from mmtool.plan.groups.status import summaries
from mmtool.plan.records.documents import State
from mmtool.plan.words import counted, few, last_seen, moment
from mmtool.translation.answers import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mmtool.insight.group_status import GroupsFound
    from mmtool.insight.status import FlowStatus, Status
    from mmtool.plan.flow.positions import PartitionRow
    from mmtool.plan.flow.status import Activity, FlowFacts
    from mmtool.plan.groups.status import GroupRow
    from mmtool.translation.types import TopicPartition


_WINDOW_MS = 15_000
_LEAST_PER_SECOND = 0.5


@dataclass(slots=True)
class Trends:
    """The statuses of some flows during the last 15 s: the time of each in ms since 1970, and the flow's lag."""

    _lags: dict[str, deque[tuple[int, int]]] = field(default_factory=dict)

    def note(self, status: FlowStatus) -> str:
        """Add a status; return the lag's change: ``+120/s``, ``-300/s, caught up in 4s``, ``steady`` or empty.

        Partitions in a state that needs an operator are left out: waiting does not reduce their lag.
        """
        moving = [row.lag_records for row in status.rows if row.state not in STILL]
        known = [lag for lag in moving if lag is not None]
        if not known:
            self._lags.pop(status.name, None)
            return ""
        lags = self._lags.setdefault(status.name, deque())
        lags.append((status.facts.now_ms, sum(known)))
        while lags[-1][0] - lags[0][0] > _WINDOW_MS and len(lags) > 2:
            lags.popleft()
        (first_ms, first), (last_ms, last) = lags[0], lags[-1]
        if last_ms <= first_ms or not last:
            return ""
        change = 1000 * (last - first) / (last_ms - first_ms)
        if abs(change) < _LEAST_PER_SECOND:
            return "steady"
        if change > 0:
            return f"+{human.count(change)}/s"
        return f"-{human.count(-change)}/s, caught up in {duration(last / -change)}"


_NAMED = 3


def groups_headline(found: GroupsFound) -> str:
    """One line for a flow: how many groups are ready, and the cost of an emergency failover."""
    groups = summaries(found.rows)
    if not groups:
        return f"{found.flow}: no group"
    ready, moved = sum(group.ready for group in groups), [group.group for group in groups if group.moved]
    said = [f"{ready} of {counted(len(groups), 'group')} ready to fail over"]
    back = [f"{group.group} ({group.reason.word})" for group in groups if not group.ready and not group.moved]
    said += [f"moved by a failover: {few(moved, _NAMED)}" if moved else ""]
    said += [f"not ready: {few(back, _NAMED)}" if back else ""]
    if len(moved) < len(groups):
        left = [row for row in found.rows if not row.moved]
        ages = [one.checkpoint_age_seconds for one in summaries(left)]
        oldest = max((age for age in ages if age is not None), default=None)
        said += [
            f"in an emergency: {_missing(left, found.now_ms)}",
            _read_again(left),
            "" if oldest is None else f"checkpoints up to {duration(oldest)} old",
        ]
    return f"{found.flow}: {'; '.join(filter(None, said))}"


def _missing(rows: Sequence[GroupRow], now_ms: int) -> str:
    """The records lost in an emergency failover, in words; a partition that several groups read counts once."""
    by_place: dict[TopicPartition, GroupRow] = {row.place: row for row in rows if row.place is not None}
    mirrored = [row for row in by_place.values() if row.blocks_group or row.ready]
    known = [row for row in mirrored if row.rpo_records is not None]
    if not known:  # when the source was last seen, and what is lost at least
        seen = max(((row.source_seen_at, row.source) for row in mirrored if row.source_seen_at), default=None)
        if seen is None:
            return "unknown number of records lost"
        least = sum(row.rpo_records_min or 0 for row in mirrored)
        at_least = f", at least {human.records(least)} lost" if least else ""
        return f"unknown: {last_seen(seen[1], round(seen[0].timestamp() * 1000), now_ms)}{at_least}"
    without = len(mirrored) - len(known)
    unknown = f", unknown for {counted(without, 'partition')}" if without else ""
    records = sum(row.rpo_records or 0 for row in known)
    if not records:
        return f"0 records lost{unknown}"
    worst = max(known, key=lambda row: (row.rpo_seconds or 0.0, row.rpo_records or 0))
    age = "" if worst.rpo_seconds is None else f"of the last {duration(worst.rpo_seconds)}, "
    return f"{human.records(records)} lost{unknown} ({age}worst {worst.place})"


def _read_again(rows: Sequence[GroupRow]) -> str:
    known = [row for row in rows if row.reread_max is not None]
    moving = [row for row in rows if row.place and (row.blocks_group or row.ready)]
    without = sum(row.reread_max is None and row.reason.word != Reason.NO_COMMIT for row in moving)
    if not known:
        return "unknown number of records read again" if without else ""
    unknown = f", unknown for {counted(without, 'partition')}" if without else ""
    most = sum(row.reread_max or 0 for row in known)
    if not most:
        return f"nothing read again{unknown}"
    worst = max(known, key=lambda row: row.reread_max or 0)
    expected = [row.reread_expected for row in known]
    numbers = [number for number in expected if number is not None]
    about = f", {human.count(sum(numbers))} expected" if len(numbers) == len(expected) else ""
    return f"at most {human.records(most)} read again{about}{unknown} (worst {worst.group} in {worst.place})"


def groups_on_screen(
    rows: Sequence[GroupRow], fit: int, *, per_group: bool
) -> tuple[list[Mapping[str, object]], str]:
    """The rows of the ``fit`` most urgent groups, else the ``fit`` most urgent rows; and a sentence about the others.

    Those come first that block their group, then by records lost and read again. The sentence is empty where no other
    is left.
    """

    def urgency(row: GroupRow) -> tuple[object, ...]:
        costs = (-(row.rpo_records or 0), -(row.reread_max or 0))
        return not row.blocks_group, row.ready, *costs, row.group, row.topic or "", row.partition or 0

    def line(row: GroupRow) -> tuple[object, ...]:
        """What stands in the same line of the table."""
        group = (row.source, row.target, row.group)
        return group if per_group else (*group, row.topic, row.partition)

    ordered = sorted(rows, key=urgency)
    lines = list(dict.fromkeys(map(line, ordered)))
    shown, left_out = set(lines[:fit]), lines[fit:]
    blocked = {line(row) for row in ordered if row.blocks_group}
    sentence = (
        f"{counted(len(left_out), 'more group' if per_group else 'more row')} ({len(blocked.intersection(left_out))}"
        " not ready): show them with -g NAME, --topic NAME or -o json, or pipe the output"
        if left_out
        else ""
    )
    return [row._asdict() for row in ordered if line(row) in shown], sentence


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


def headline(status: FlowStatus, trend: str = "") -> str:
    """One line for a flow: its owner, its partitions by state, its throughput and its worst lag.

    Args:
        status: The flow's status.
        trend: How its lag changes, from `Trends`.
    """
    if all(row.topic is None for row in status.rows):
        return f"{status.name}: {'; '.join(row.reason for row in status.rows)}"
    oldest: dict[State, float] = {}  # the longest time that a partition has been in each state
    for row, activity in zip(status.rows, status.activities, strict=True):
        if activity.state_seconds is not None:
            oldest[row.state] = max(oldest.get(row.state, 0.0), activity.state_seconds)
    states = f"{counted(len(status.rows), 'partition')}: {_states(status.rows, oldest)}"
    facts = status.facts
    said = [_run_by(facts), states, _throughput(status.activities), _lag(status.rows, trend)]
    if status.groups:
        said.append(f"{counted(status.groups, 'group')} with checkpoints")
    away = f"{facts.source} does not answer, {facts.target} knows: " if status.away is not None else ""
    return f"{status.name}: {away}{'; '.join(filter(None, said))}"


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
        progress = facts.mirror_maker
        if facts.ran or not progress:
            return nobody(facts)
        if progress.has_left:
            return "not running (last owner: MirrorMaker 2)"
        workers = f", {counted(progress.workers, 'worker')}" if progress.workers else ""
        return f"run by MirrorMaker 2{workers}"
    since = f" since {moment(facts.owner.since_ms)}" if facts.owner and facts.announced else ""
    standbys = f", standbys: {facts.standbys}" if facts.standbys else ""
    return f"run by {facts.holder}{since}{standbys}"


def _states(rows: Sequence[PartitionRow], oldest: Mapping[State, float] | None = None) -> str:
    counted = Counter(row.state for row in rows)
    ages = {state: f" for {duration(seconds)}" for state, seconds in (oldest or {}).items()}
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
    return f"lag {human.records(records)}{changes}{unknown}, worst {of_worst} ({_name_of(worst)})"


def _name_of(row: PartitionRow) -> str:
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
    failing = by_urgency(row for row in found if _why_not(row, max_lag_seconds))
    if not failing:
        return None
    named = ", ".join(f"{_name_of(row)} {_why_not(row, max_lag_seconds)}" for row in failing[:_NAMED])
    more = f", and {len(failing) - _NAMED} more" if len(failing) > _NAMED else ""
    of = f" by {len(failing)} of {counted(len(found), 'partition')}" if len(found) > 1 else ""
    return GateError(
        f"--max-lag-seconds {max_lag_seconds:g} is not met{of}: {named}{more}",
        remedy="`mmtool status -c FILE` shows the state of each partition and its reason",
    )


def _why_not(row: PartitionRow, max_lag_seconds: float) -> str:
    """Why a partition does not pass the gate, as a clause; empty where it does."""
    if row.state == State.NEVER_RAN:
        return "was never mirrored"
    if row.state == State.HALTED:
        return "is halted"
    if row.lag_seconds is None:
        return "has no known lag in seconds"
    return f"lags {duration(row.lag_seconds)}" if row.lag_seconds > max_lag_seconds else ""
