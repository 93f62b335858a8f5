"""Commit groups' offsets, read them back with another client, and undo a group that was accepted only in part.

One group is one request to one coordinator; several requests are in flight at a time. Whatever the answer was (a
time-out says nothing), another client then reads the stored commits. Where a part of a group was refused, the rest of
it is restored at once, a first commit by deleting it; where even that fails, the outcome says what is left.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from mmtool.errors import (
    CheckFailedError,
    MmtoolError,
    OwnedElsewhereError,
    PartlyAppliedError,
    RefusedError,
    UnreachableError,
    is_away,
)
from mmtool.failover.operation.operation import nobody_else
from mmtool.insight.group_lookup import remedy_of
from mmtool.kafka.ports import Problem
from mmtool.plan.words import AGAIN, counted, few, joined, then
from mmtool.translation.answers import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from mmtool.kafka.ports import GroupsPort
    from mmtool.plan.groups.facts import Commit
    from mmtool.plan.groups.offsets import GroupPlan
    from mmtool.translation.types import TopicPartition

Stands: TypeAlias = "Mapping[TopicPartition, Commit] | MmtoolError"
"""A group's stored commits, or the error of reading them."""

AT_ONCE = 8
"""Groups that are committed concurrently: enough to hide round trips, few enough not to crowd out other clients."""


FRESH_SECONDS = 0.2
"""Age in seconds from which a group is checked again before its commit: thousands of groups take seconds."""

_NAMED = 5
"""How many problems an error names: thousands of groups may fail for the same reason."""

MOVED_JUST_NOW = "was committed by another client just now"

_NOT_SENT = Problem(
    UnreachableError.code, "the offset was not sent, because no broker answered earlier commits"
)


class WriteOutcome(Enum):
    """How writing one group ended."""

    WRITTEN = "written"
    REFUSED = "refused"
    """No offset of the group is written, or all were restored."""
    PARTLY = "partly"
    """Some partitions are written, and stay written."""
    DIFFERENT = "different"
    """Offsets were accepted, but another client reads other ones, or none."""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing one group.

    Attributes:
        written: Partitions whose new offset is stored.
        problems: What failed, in sentences.
        unknown: Partitions whose new offset may be stored: it was sent, and no answer came.
        causes: The names of the problems for which `remedy_of` has a remedy; other problems say what to do.
    """

    group: str
    outcome: WriteOutcome
    written: frozenset[TopicPartition] = frozenset()
    problems: tuple[str, ...] = field(default=())
    unknown: frozenset[TopicPartition] = frozenset()
    causes: tuple[str, ...] = ()


def write_groups(
    groups: GroupsPort, plans: Iterable[GroupPlan], *, looked_at: float | None = None
) -> list[Written]:
    """Commit the plans' offsets, read them back, and return each group's result, in the plans' order.

    Nothing is written for a blocked plan. ``looked_at`` as for `commit_all`.
    """
    todo = list(plans)
    return read_back_all(groups, todo, commit_all(groups, todo, looked_at=looked_at))


class _Silence:
    """How long a cluster has not answered: requests for a thousand groups must not wait a thousand times."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def lasts(self) -> bool:
        return self._in_a_row >= AT_ONCE

    def heard(self, failed: Mapping[TopicPartition, Problem]) -> None:
        self._in_a_row = self._in_a_row + 1 if _unanswered(failed) else 0


def _unanswered(failed: Mapping[TopicPartition, Problem]) -> frozenset[TopicPartition]:
    """Partitions for which a request got no answer, so that it is unknown what was written."""
    return frozenset(place for place, problem in failed.items() if problem.name == UnreachableError.code)


def may_come(
    failed: Mapping[TopicPartition, Problem], stands: Collection[TopicPartition]
) -> frozenset[TopicPartition]:
    """Partitions whose commit was sent, got no answer and is not stored; a coordinator may still apply it.

    A coordinator that waits for a replica answers with a retriable error after offsets.commit.timeout.ms, and applies
    the commit once the replica is back or has left the ISR, half a minute later.
    """
    sent = {place: problem for place, problem in failed.items() if problem != _NOT_SENT}
    return _unanswered(sent).difference(stands)


def commit_all(
    groups: GroupsPort,
    plans: Collection[GroupPlan],
    *,
    looked_at: float | None = None,
    still_ours: Callable[[], None] = nobody_else,
) -> dict[str, Written]:
    """Commit each plan's offsets in one request per group; return the results that are already final, by group.

    A group of which a part was refused is restored at once. A cluster that has not answered for several groups in a row
    is not asked for the others; what is stored of unanswered requests is then read in one go. Groups that are missing
    in the result were accepted, and are not read back yet: see `read_back_all`.

    Args:
        groups: The cluster's groups.
        plans: The groups' plans.
        looked_at: When the groups were last seen with the commits that the plans expect, by the monotonic clock. If
            that is not fresh, each group is checked again before its commit. None if a lock keeps other writers out.
        still_ours: Called before each commit, since a process may be suspended between two of them; raises.

    Raises:
        OwnedElsewhereError: Another process has taken over, as ``still_ours`` says.
    """
    silence = _Silence()

    def one(plan: GroupPlan) -> Written | tuple[GroupPlan, Mapping[TopicPartition, Problem]] | None:
        wanted = plan.to_write()
        not_sent = plan, dict.fromkeys(wanted, _NOT_SENT)
        if silence.lasts() and wanted:
            return not_sent
        if wanted and looked_at is not None and time.monotonic() - looked_at > FRESH_SECONDS:
            why = overtaken(groups, plan.group, plan.before(), wanted)
            if why is not None and why.name == UnreachableError.code:
                silence.heard(dict.fromkeys(wanted, why))
                return not_sent
            if why is not None:
                said = f"{plan.group}: {why}"
                return Written(plan.group, WriteOutcome.REFUSED, problems=(said,), causes=(why.name,))
        try:
            still_ours()
        except OwnedElsewhereError:
            raise
        except MmtoolError:
            silence.heard(not_sent[1])
            return not_sent
        failed = groups.alter(plan.group, wanted, plan.kind) if wanted else {}
        silence.heard(failed)
        if _unanswered(failed):
            return plan, failed
        stands = stored_commits([plan.group], groups) if failed else {}
        return _judged(groups, plan, failed, stands[plan.group]) if failed else None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        ended = list(pool.map(one, plans))
    unheard = [of for of in ended if isinstance(of, tuple)]
    stands = stored_commits([plan.group for plan, _ in unheard], groups)
    late = [_judged(groups, plan, failed, stands[plan.group]) for plan, failed in unheard]
    return {done.group: done for done in (*ended, *late) if isinstance(done, Written)}


def read_back_all(
    groups: GroupsPort, plans: Collection[GroupPlan], settled: Mapping[str, Written]
) -> list[Written]:
    """The result of each plan after `commit_all`, in order: a fresh client reads back those that are not final yet."""
    stands = stored_commits(
        [plan.group for plan in plans if plan.group not in settled and plan.to_write()], groups
    )
    return [
        settled.get(plan.group) or _judged(groups, plan, {}, stands.get(plan.group, {})) for plan in plans
    ]


def overtaken(
    groups: GroupsPort, group: str, before: Mapping[TopicPartition, Commit], places: Iterable[TopicPartition]
) -> Problem | None:
    """Why a group must not be written any more: another client's commit; None if its commits are as ``before``."""
    try:
        moved = moved_since(groups, group, before, places)
    except MmtoolError as error:
        return Problem(error.code, error.message)
    return Problem(Reason.ACTIVE_ON_TARGET, f"{moved[0]} {MOVED_JUST_NOW}") if moved else None


def moved_since(
    groups: GroupsPort, group: str, before: Mapping[TopicPartition, Commit], places: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Those of ``places`` whose commit differs from ``before``, sorted; one request.

    Raises:
        UnreachableError, NotAuthorisedError: The cluster does not answer, or does not show the group.
    """
    now = groups.commits([group])[group]
    return sorted(place for place in places if now.get(place) != before.get(place))


def stored_commits(names: list[str], groups: GroupsPort) -> Mapping[str, Stands]:
    """The groups' stored commits, read by a fresh client at once, or one by one if some cannot be read."""
    if not names:
        return {}
    reader = groups.fresh()
    try:
        return reader.commits(names)
    except MmtoolError as error:
        if is_away(error):
            return dict.fromkeys(names, error)  # it would not tell of one either, and each would wait for it
        return {name: _read_one(name, reader) for name in names}


def _read_one(name: str, reader: GroupsPort) -> Stands:
    try:
        return reader.commits([name])[name]
    except MmtoolError as error:
        return error


def _judged(
    groups: GroupsPort, plan: GroupPlan, failed: Mapping[TopicPartition, Problem], found: Stands
) -> Written:
    offsets = plan.to_write()
    if plan.blocked:
        reasons = {plan.why(verdict) for verdict in plan.blocking if verdict.refusal is not None}
        return Written(plan.group, WriteOutcome.REFUSED, problems=tuple(sorted(reasons)))
    if not offsets:
        return Written(plan.group, WriteOutcome.WRITTEN)
    if isinstance(found, MmtoolError):
        return unread(plan.group, offsets, failed, found)
    stands = {place for place, wanted in offsets.items() if found.get(place) == wanted}
    stands_whole = stands == offsets.keys() == _unanswered(failed)  # and nobody has refused it
    if failed and not stands_whole:
        return _put_back(groups, plan, failed, stands)
    different = tuple(
        f"group {plan.group} {at}: committed {offsets[at].offset}, read back {_offset(found.get(at))}"
        for at in sorted(offsets.keys() - stands)
    )
    outcome = WriteOutcome.DIFFERENT if different else WriteOutcome.WRITTEN
    return Written(plan.group, outcome, frozenset(stands), different)


def unread(
    group: str,
    places: Iterable[TopicPartition],
    failed: Mapping[TopicPartition, Problem],
    error: MmtoolError,
) -> Written:
    """A group's result if it could not be read back: acknowledged partitions count as written."""
    outcome = WriteOutcome.PARTLY if failed else WriteOutcome.DIFFERENT
    problems = (*_sentences(failed), f"not read back: {error.message}")
    stored, causes = frozenset(places).difference(failed), (*names_of(failed), error.code)
    return Written(group, outcome, stored, problems, _unanswered(failed), causes)


def _put_back(
    groups: GroupsPort,
    plan: GroupPlan,
    failed: Mapping[TopicPartition, Problem],
    stands: set[TopicPartition],
) -> Written:
    """Undo a group's accepted commits: restore the previous ones, and delete those of partitions that had none."""
    offsets, before = plan.to_write(), plan.before()
    changed = {place for place in stands if before.get(place) != offsets[place]}
    restorable = {place: before[place] for place in changed if place in before}
    still = dict(groups.alter(plan.group, restorable, plan.kind)) if restorable else {}
    first = changed - restorable.keys()
    still |= groups.forget(plan.group, first) if first else {}
    unheard = _unanswered(still)
    unknown = unheard | may_come(failed, stands)
    outcome = WriteOutcome.PARTLY if still or unknown else WriteOutcome.REFUSED
    problems = _sentences(failed) + _sentences(still)
    causes = names_of(failed) + names_of(still)
    return Written(plan.group, outcome, frozenset(still.keys() - unheard), problems, unknown, causes)


def written_places(results: Iterable[Written]) -> dict[tuple[str, TopicPartition], bool | None]:
    """By group and partition, True where the new offset is stored, None where that is unknown; for the rows."""
    places: dict[tuple[str, TopicPartition], bool | None] = {}
    for result in results:
        places |= {(result.group, place): True for place in result.written}
        places |= {(result.group, place): None for place in result.unknown}
    return places


def failure_of_writing(results: Iterable[Written], where: str, again: str = AGAIN) -> MmtoolError | None:
    """The error with which writing groups ends, by the contract's exit codes; None if every group was written.

    Args:
        results: The result of each group.
        where: The cluster's alias.
        again: The remedy's last words, for completing the rest.
    """
    ended = list(results)
    not_written = sorted(w.group for w in ended if w.outcome is WriteOutcome.REFUSED)
    different = [w.group for w in ended if w.outcome is WriteOutcome.DIFFERENT]
    partly = [w.group for w in ended if w.outcome is WriteOutcome.PARTLY]
    written = [w.group for w in ended if w.outcome is WriteOutcome.WRITTEN and w.written]
    why = _first_problems(ended)
    todo = remedy_of((name for w in ended for name in w.causes), where)
    if partly or (not_written and (written or different)):
        remains = few(sorted({*not_written, *partly}))
        return PartlyAppliedError(
            f"offsets not completely committed on {where} for {remains}" + (f": {why}" if why else ""),
            remedy=then(todo, again),
        )
    if different:
        return CheckFailedError(
            f"offsets were committed on {where}, and reading them back did not confirm them: {why}",
            remedy=then(joined(_of_other_offsets(ended, where), todo), again),
        )
    if not_written:
        return RefusedError(
            f"no offset was committed on {where} for {few(not_written)}" + (f": {why}" if why else ""),
            remedy=then(todo, again),
        )
    return None


def _first_problems(ended: Iterable[Written]) -> str:
    """The first distinct problems of all groups, and the number of the others; empty without any."""
    problems = list(dict.fromkeys(problem for w in ended for problem in w.problems))
    more = len(problems) - _NAMED
    return joined(*problems[:_NAMED], f"and {counted(more, 'more problem')}" if more > 0 else "")


def _of_other_offsets(ended: Iterable[Written], where: str) -> str:
    """What to do about offsets that were read back and are not those committed; empty where only reading failed."""
    if all(w.causes for w in ended if w.outcome is WriteOutcome.DIFFERENT):
        return ""
    return (
        f"stop the client that also commits for the group on {where}; if the offset read back is lower than the"
        f" committed one, or is missing, reset the group on {where} to the committed one with `kafka-consumer-groups"
        " --reset-offsets --to-offset OFFSET --execute` (a share group: `kafka-share-groups`)"
    )


def names_of(problems: Mapping[TopicPartition, Problem]) -> tuple[str, ...]:
    """The distinct names of problems, in the order of their partitions."""
    return tuple(dict.fromkeys(problem.name for _, problem in sorted(problems.items())))


def _sentences(problems: Mapping[TopicPartition, Problem]) -> tuple[str, ...]:
    return tuple(f"{place}: {problem}" for place, problem in sorted(problems.items()))


def _offset(found: Commit | None) -> str:
    return "nothing" if found is None else str(found.offset)
