"""Refuse or warn when journals show an open operation, or a recent move in the other direction.

The same holds for an operation that has written diverged records to where this one would write them. When a group is
moved to and fro within minutes, two operators mostly do not know of each other.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from mmtool.errors import RefusedError
from mmtool.failover.diverged_tail.tail_writer import written_before
from mmtool.failover.modes.cutover import half_done
from mmtool.failover.modes.failback import FailbackRehearsal
from mmtool.failover.operation.records import recorded
from mmtool.failover.operation.states import OperationState
from mmtool.plan.failover.steps import Mode
from mmtool.plan.words import few, moment

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from mmtool.failover.modes.cutover import LockPort
    from mmtool.failover.modes.rehearsal import Rehearsal
    from mmtool.failover.operation.journal import JournalPort
    from mmtool.failover.operation.records import Recorded
    from mmtool.plan.words import Names

R = TypeVar("R", bound="Rehearsal")

_WARNED_SECONDS = 300.0
_AWAY = frozenset({Mode.PLANNED, Mode.EMERGENCY})


def opposites(
    found: Iterable[Recorded], names: Names, groups: Collection[str], since_ms: float
) -> list[Recorded]:
    """Completed operations since a time that moved some of these groups in the opposite direction.

    Args:
        found: Operations from the journals of both clusters.
        names: The aliases of the flow along which the groups would move.
        groups: The groups that would move.
        since_ms: In ms since 1970.
    """
    wanted = set(groups)
    return [
        one
        for one in found
        if one.state is OperationState.COMPLETED and one.last_ms >= since_ms and wanted & set(one.group_names)
        if one.mode is not Mode.DRILL and one.way == (names.target, names.source)
    ]


def sentence_of(one: Recorded) -> str:
    """Describe an operation in one sentence: id, operator, groups, both clusters and time."""
    left, reached = one.way
    return (
        f"{one.mode} operation {one.operation_id} by {one.by} moved {few(one.group_names, 3)} from {left} to {reached}"
        f" at {moment(one.last_ms)}"
    )


def check(
    found: Iterable[Recorded],
    names: Names,
    groups: Collection[str],
    now_ms: float,
    refused_seconds: float | None,
) -> list[str]:
    """Warnings about moves of these groups in the opposite direction within the last five minutes.

    Args:
        found: Operations from the journals of both clusters.
        names: The aliases of the flow along which the groups would move.
        groups: The groups that would move.
        now_ms: In ms since 1970.
        refused_seconds: ``mmtool.failover.min.interval.seconds``: a move younger than that is refused; None refuses
            none.

    Raises:
        RefusedError: A move is younger than ``refused_seconds``.
    """
    known = list(found)
    if refused_seconds is not None:
        young = opposites(known, names, groups, now_ms - 1000 * refused_seconds)
        if young:
            raise RefusedError(
                f"{sentence_of(young[-1])}; mmtool.failover.min.interval.seconds = {refused_seconds:g} forbids moving"
                " groups back so soon",
                remedy=f"ask that operator; then wait until {refused_seconds:g} s have passed since that move, or"
                " remove the key from the properties file",
                code="moved_just_now",
            )
    return [
        f"{sentence_of(one)}: if you did not know of this, ask that operator before you move the groups back"
        for one in opposites(known, names, groups, now_ms - 1000 * _WARNED_SECONDS)
    ]


def judged(
    rehearsal: R, journals: Sequence[JournalPort], lock: LockPort, now_ms: float, *, is_resumed: bool
) -> R:
    """The rehearsal with the journals' objections added: guards for open operations, warnings for recent moves.

    Recent moves are checked for planned and emergency failovers only: nothing may block a failback. While the operation
    lock is taken, open operations add no guard: they are checked again once this one has the lock.

    Args:
        rehearsal: The operation's rehearsal.
        journals: The target's journal first, then the source's where it is read.
        lock: The flow's operation lock.
        now_ms: In ms since 1970.
        is_resumed: The operation was started before; then open operations on the groups add no guard.

    Raises:
        RefusedError: ``mmtool.failover.min.interval.seconds`` forbids the move, or a journal cannot be read.
        UnreachableError, NotAuthorisedError: A cluster does not show its journal.
    """
    with ThreadPoolExecutor(len(journals)) as pool:
        here, *there = [recorded(entries) for entries in pool.map(lambda one: one.entries(), journals)]
    plan, known = rehearsal.plan, [*here, *(one for of in there for one in of)]
    groups, limit = [group.group for group in plan.groups], rehearsal.settings.failover_min_interval_seconds
    said = check(known, rehearsal.names, groups, now_ms, limit) if plan.mode in _AWAY else []
    open_ones = () if is_resumed else half_done(here, plan)
    guards = () if open_ones and lock.is_taken() else open_ones
    if isinstance(rehearsal, FailbackRehearsal):
        said += written_before(here, plan, rehearsal.tails)
    plan = replace(plan, guards=(*plan.guards, *guards))
    return replace(rehearsal, plan=plan, warnings=(*rehearsal.warnings, *said))
