"""Committing groups' offsets: written, read back with another client, put back when only a part was taken.

One group at a time: each is one request to one coordinator. Whatever the answer was (a time-out says
nothing), another client then reads what stands. Where a part was refused, the rest is put back at once, a first
commit by deleting it; where even that fails, the outcome says what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from mmtool.errors import CheckFailedError, MmtoolError, PartlyAppliedError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.kafka.ports import GroupsPort, Problem
    from mmtool.plan.group_facts import Commit
    from mmtool.plan.offsets import GroupPlan
    from mmtool.translation.types import TopicPartition


class Outcome(Enum):
    """How writing one group ended."""

    WRITTEN = "written"
    REFUSED = "refused"
    """Nothing of it is written, or all of it was put back."""
    PARTLY = "partly"
    """Some partitions are written and stay so."""
    DIFFERENT = "different"
    """Written, but another client reads something else."""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one group.

    Attributes:
        written: Partitions whose new offset stands.
        problems: What failed, in sentences.
    """

    group: str
    outcome: Outcome
    written: frozenset[TopicPartition] = frozenset()
    problems: tuple[str, ...] = field(default=())


def write_groups(groups: GroupsPort, plans: Iterable[GroupPlan]) -> list[Written]:
    """`write_group` for each plan, in order."""
    return [write_group(groups, plan) for plan in plans]


def write_group(groups: GroupsPort, plan: GroupPlan) -> Written:
    """Commit what a plan says, and settle it; nothing when it is blocked or has nothing to write."""
    return settle(groups, plan, commit(groups, plan))


def commit(groups: GroupsPort, plan: GroupPlan) -> Mapping[TopicPartition, Problem]:
    """One request for all of a group's partitions; what failed. Nothing is sent for a blocked plan."""
    offsets = plan.to_write()
    return groups.alter(plan.group, offsets) if offsets else {}


def settle(groups: GroupsPort, plan: GroupPlan, failed: Mapping[TopicPartition, Problem]) -> Written:
    """Read with another client what stands after `commit`; put it back where a part has failed."""
    offsets = plan.to_write()
    if plan.blocked:
        reasons = {verdict.refusal.sentence for verdict in plan.blocking if verdict.refusal is not None}
        return Written(plan.group, Outcome.REFUSED, problems=tuple(sorted(reasons)))
    if not offsets:
        return Written(plan.group, Outcome.WRITTEN)
    try:
        found = groups.fresh().commits([plan.group])[plan.group]
    except MmtoolError as error:
        return _unread(plan.group, offsets, failed, error)
    stands = {place for place, wanted in offsets.items() if found.get(place) == wanted}
    if failed:
        return _put_back(groups, plan, failed, stands)
    different = tuple(
        f"{plan.group} {at}: wrote {offsets[at].offset}, another client reads {_offset(found.get(at))}"
        for at in sorted(offsets.keys() - stands)
    )
    outcome = Outcome.DIFFERENT if different else Outcome.WRITTEN
    return Written(plan.group, outcome, frozenset(stands), different)


def _unread(
    group: str,
    offsets: Mapping[TopicPartition, Commit],
    failed: Mapping[TopicPartition, Problem],
    error: MmtoolError,
) -> Written:
    """What was acknowledged stands, as far as anybody knows; nobody could look."""
    outcome = Outcome.PARTLY if failed else Outcome.DIFFERENT
    problems = (*_sentences(failed), f"not read back: {error.message}")
    return Written(group, outcome, frozenset(offsets.keys() - failed.keys()), problems)


def _put_back(
    groups: GroupsPort,
    plan: GroupPlan,
    failed: Mapping[TopicPartition, Problem],
    stands: set[TopicPartition],
) -> Written:
    """Commit again what was there before, and delete what is there for the first time."""
    offsets, before = plan.to_write(), plan.before()
    changed = {place for place in stands if before.get(place) != offsets[place]}
    restorable = {place: before[place] for place in changed if place in before}
    still = dict(groups.alter(plan.group, restorable)) if restorable else {}
    first = changed - restorable.keys()
    still |= groups.forget(plan.group, first) if first else {}
    left = frozenset(still)
    problems = _sentences(failed) + _sentences(still)
    return Written(plan.group, Outcome.PARTLY if left else Outcome.REFUSED, left, problems)


def failure_of_writing(results: Iterable[Written]) -> MmtoolError | None:
    """The error that a run of writes ends with, by the contract's exit codes; None when all is well."""
    ended = list(results)
    not_written = [w.group for w in ended if w.outcome is Outcome.REFUSED]
    different = [w.group for w in ended if w.outcome is Outcome.DIFFERENT]
    partly = [w.group for w in ended if w.outcome is Outcome.PARTLY]
    written = [w.group for w in ended if w.outcome is Outcome.WRITTEN and w.written]
    why = "; ".join(dict.fromkeys(problem for w in ended for problem in w.problems))
    if partly or (not_written and (written or different)):
        remains = ", ".join(sorted({*not_written, *partly}))
        return PartlyAppliedError(
            f"not (wholly) written: {remains}" + (f": {why}" if why else ""),
            remedy="the rows say why; run the same command again when that is dealt with",
        )
    if different:
        return CheckFailedError(
            f"read back differently: {why}",
            remedy="somebody else commits for these groups: stop it, then run the same command again",
        )
    if not_written:
        return RefusedError(
            f"not written: {', '.join(sorted(not_written))}" + (f": {why}" if why else ""),
            remedy="the rows say why",
        )
    return None


def _sentences(problems: Mapping[TopicPartition, Problem]) -> tuple[str, ...]:
    return tuple(f"{place}: {problem}" for place, problem in sorted(problems.items()))


def _offset(found: Commit | None) -> str:
    return "nothing" if found is None else str(found.offset)
