"""A planned failover as data: frozen steps that are shown, confirmed, executed and reported, always the same.

Rehearsal and execution build this plan from the same facts by the same function; there is no second way.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from mmtool.plan.words import few
from mmtool.translation.refusals import Reason
from mmtool.translation.types import TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.plan.group_facts import GroupFacts, GroupStanding
    from mmtool.plan.offsets import GroupPlan, Verdict
    from mmtool.translation.answers import SourceLog


class StepName(StrEnum):
    """What is done, in this order."""

    CHECK = "check_groups"
    DRAIN = "drain"
    TRANSLATE = "translate"
    VALIDATE = "validate"
    WRITE = "write"
    READ_BACK = "read_back"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Step:
    """One step, and what it does in one sentence."""

    name: StepName
    sentence: str


POINT_OF_NO_RETURN = StepName.WRITE
"""Before it a failure leaves both clusters as they were; from it on the operation is finished forward."""

KNOWN_AFTER_DRAIN = "known after drain"
"""The reason of a partition whose offset cannot be told before the mirror has caught up."""

_CURED_BY_DRAIN = frozenset({Reason.NEVER_RAN, Reason.BEYOND_MIRROR, Reason.PARTITION_MISSING})


@dataclass(frozen=True, slots=True)
class Guard:
    """Why the plan must not be executed: a stable word, and the sentence."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class FailoverPlan:
    """What is going to happen to which groups.

    Attributes:
        operation_id: Names this operation everywhere.
        groups: Offsets as far as they are known now.
        guards: What forbids it; an executable plan has none.
    """

    operation_id: str
    flow: str
    groups: tuple[GroupPlan, ...]
    steps: tuple[Step, ...]
    guards: tuple[Guard, ...] = ()

    @property
    def executable(self) -> bool:
        return not self.guards


@dataclass(frozen=True, slots=True)
class Names:
    """What the sentences call the two clusters."""

    source: str
    target: str

    @property
    def flow(self) -> str:
        return f"{self.source}->{self.target}"


def plan_planned(
    operation_id: str, names: Names, groups: Iterable[GroupFacts], plans: Iterable[GroupPlan]
) -> FailoverPlan:
    """The plan for groups as they stand, with translations as far as the mirror goes."""
    facts, found = tuple(groups), tuple(plans)
    guards = (*active_guards(facts, names), *blocking_guards(found, after_drain=False))
    return FailoverPlan(operation_id, names.flow, found, steps_of(names, found), guards)


def steps_of(names: Names, plans: tuple[GroupPlan, ...]) -> tuple[Step, ...]:
    """The steps, with the numbers that are known when they are planned."""
    groups = few([plan.group for plan in plans]) or "no topic"
    stand, are = ("stands", "is") if len(plans) == 1 else ("stand", "are")
    committed = sum(verdict.commit is not None for plan in plans for verdict in plan.verdicts)
    topics = few(_topics(plans)) or "no topic"
    sentences = {
        StepName.CHECK: f"check that {groups} {stand} still on {names.source} and {are} idle on {names.target}",
        StepName.DRAIN: f"mirror until {names.target} holds every record that {names.source} holds of {topics}",
        StepName.TRANSLATE: f"translate {committed} committed offsets of {names.source}",
        StepName.VALIDATE: (
            f"check every offset against the logs of {names.target}, and that nobody committed meanwhile"
        ),
        StepName.WRITE: f"commit the offsets of {groups} on {names.target}",
        StepName.READ_BACK: f"read them back from {names.target} with another client",
        StepName.REPORT: "measure what it took, and say what to do next",
    }
    return tuple(Step(name, sentences[name]) for name in StepName)


def _topics(plans: Iterable[GroupPlan]) -> list[str]:
    """The flow's topics among them: those have a name on both sides."""
    verdicts = [verdict for plan in plans for verdict in plan.verdicts]
    return sorted({v.source.topic for v in verdicts if v.source is not None and v.target is not None})


def active_guards(groups: Iterable[GroupFacts], names: Names) -> tuple[Guard, ...]:
    """Groups with members: on the source their commits still move, on the target they would be pulled about.

    Asked of the groups and not of the verdicts, so that a mirror which is behind hides nobody.
    """
    facts = tuple(groups)
    there = [group for group in facts if not group.there.idle]
    return (
        *(
            _active("active_on_source", group.group, names.source, group.here)
            for group in facts
            if not group.here.idle
        ),
        *(_active(Reason.ACTIVE_ON_TARGET, group.group, names.target, group.there) for group in there),
    )


def _active(code: str, group: str, cluster: str, standing: GroupStanding) -> Guard:
    return Guard(code, f"group {group} is active on {cluster} ({standing.sentence})")


def blocking_guards(plans: Iterable[GroupPlan], *, after_drain: bool) -> tuple[Guard, ...]:
    """Verdicts that keep a group from being written; before the drain, only those that no drain cures."""
    return tuple(
        Guard(verdict.refusal, f"group {plan.group}, {_place(verdict)}: {verdict.refusal.sentence}")
        for plan in plans
        for verdict in plan.blocking
        if verdict.refusal is not None
        and verdict.refusal is not Reason.ACTIVE_ON_TARGET  # said once for the group, with its members
        and (after_drain or not drain_cures(verdict))
    )


def drain_cures(verdict: Verdict) -> bool:
    """Whether the offset is refused now only because the mirror is behind."""
    return verdict.blocks and verdict.refusal in _CURED_BY_DRAIN


def _place(verdict: Verdict) -> str:
    return str(verdict.source or "every partition")


def moved_meanwhile(before: Iterable[GroupFacts], now: Iterable[GroupFacts]) -> tuple[Guard, ...]:
    """Groups that committed between two looks though they have no members: somebody uses assign()."""
    earlier = {group.group: group.commits for group in before}
    return tuple(
        Guard(
            "source_commits_moved",
            f"group {group.group} has no members on the source and commits all the same",
        )
        for group in now
        if group.commits != earlier[group.group]
    )


def drain_goal(
    groups: Iterable[GroupFacts], logs: Mapping[TopicPartition, SourceLog]
) -> dict[TopicPartition, UpstreamOffset]:
    """How far each partition of the groups' topics must be mirrored: past every commit, and to the end.

    That all of it is on the target is what makes the loss zero, and not merely the re-reading. A partition
    that is empty and that nobody committed for needs no mirror.

    Args:
        groups: Read when they stood still.
        logs: Of every partition of their topics, read later; the end is the last stable offset under
            read_committed.
    """
    commits: dict[TopicPartition, int] = {}
    for group in groups:
        for place, commit in group.commits.items():
            commits[place] = max(commits.get(place, 0), commit.offset)
    return {
        place: UpstreamOffset(max(log.log_end, commits.get(place, 0)))
        for place, log in logs.items()
        if place in commits or log.log_end > log.log_start
    }
