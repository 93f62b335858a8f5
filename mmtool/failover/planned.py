"""``failover planned --fence none``: groups that stand still go on at the target exactly where they stopped.

The source's consumers have been stopped by the operator; producers may go on. The mirror is drained to where
the source ended when the groups were found standing still, so nothing that a group could have read there is
missing on the target, and each commit has an exact answer.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from mmtool.errors import GateError, MmtoolError, RefusedError
from mmtool.failover import operation
from mmtool.failover.clearance import clear
from mmtool.failover.writing import Outcome, commit_all, failure_of_writing, read_back_all
from mmtool.insight.translation import plan_groups, read_groups, selected_groups, selection_warnings
from mmtool.plan.failover import (
    FailoverPlan,
    Guard,
    Names,
    StepName,
    active_guards,
    blocking_guards,
    drain_cures,
    drain_goal,
    moved_meanwhile,
    plan_planned,
)
from mmtool.plan.offsets import Direction, GroupPlan, Rules, unknown_group
from mmtool.translation.answers import SourceLog
from mmtool.translation.refusals import Reason
from mmtool.translation.types import TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mmtool.config import FlowSettings
    from mmtool.failover.operation import Operation, StepLog
    from mmtool.failover.writing import Written
    from mmtool.insight.translation import FlowNow
    from mmtool.kafka.ports import Problem
    from mmtool.plan.group_facts import GroupFacts, GroupSelection

_RULES = Rules(Direction.FORWARD)


class DrainPort(Protocol):
    """Whoever can bring a mirror up to where it has to be."""

    def drain(
        self,
        flow: FlowSettings,
        until: Mapping[TopicPartition, UpstreamOffset],
        timeout_seconds: float | None,
    ) -> None:
        """Return once the frontier of each source partition has reached its offset.

        Watches the process that runs the flow, or takes the flow and runs it.

        Raises:
            GateError: Time ran out.
            RefusedError: A partition is halted.
            OwnedElsewhereError, UnreachableError: As the engine.
        """


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A plan, and what there is to say beside it."""

    flow: FlowNow
    plan: FailoverPlan
    warnings: tuple[str, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether there is an offset to write, now or once the mirror has caught up."""
        verdicts = [verdict for group in self.plan.groups for verdict in group.verdicts]
        return any(verdict.refusal is None or drain_cures(verdict) for verdict in verdicts)

    @property
    def refusal(self) -> RefusedError | None:
        """The guards as one error."""
        return refusal_of(self.plan.guards) if self.plan.guards else None


@dataclass(slots=True)
class Found:
    """What the steps have found so far.

    Attributes:
        plans: Offsets as they were translated after the drain.
        results: What became of each group that was written.
        seconds: From the beginning to the last offset read back.
        missing: Records that the source held when the groups stood still, and the target does not.
        diverged: Records that came to the source later and are not on the target yet.
    """

    plans: tuple[GroupPlan, ...] = ()
    results: tuple[Written, ...] = ()
    seconds: float | None = None
    missing: int | None = None
    diverged: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """An operation that has ended, well or not."""

    rehearsal: Rehearsal
    operation: Operation
    found: Found


def rehearse(flow: FlowNow, selection: GroupSelection) -> Rehearsal:
    """The plan for the selected groups, from what both clusters say now; nothing is changed.

    Raises:
        RefusedError: No group is selected, or stored state cannot be read.
        UnreachableError, NotAuthorisedError: A cluster does not answer, or denies a part.
    """
    selected = selected_groups(flow, selection, Direction.FORWARD)
    if not selected.known and not selected.unknown:
        raise RefusedError(
            "no group matches: there is nothing to move", remedy="see -g, --groups and groups.exclude"
        )
    groups = read_groups(flow, selected.known, Direction.FORWARD)
    plans = [
        *plan_groups(flow, groups, _RULES),
        *(unknown_group(name, Direction.FORWARD) for name in selected.unknown),
    ]
    plan = plan_planned(new_operation_id(), _names(flow), groups, plans)
    return Rehearsal(flow, plan, (*selection_warnings(selected), *_idle_warnings(flow, groups)))


def _idle_warnings(flow: FlowNow, groups: Iterable[GroupFacts]) -> list[str]:
    """Groups that this flow has nothing for: moving them is easy, and perhaps not what was meant."""
    idle = [g.group for g in groups if not {place.topic for place in g.commits} & flow.topics.keys()]
    name = flow.clusters.settings.name
    return [f"no commit on a topic of {name}, so nothing to move: {', '.join(idle)}"] if idle else []


def new_operation_id() -> str:
    """Sorts by time, and is unique without asking anybody."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{uuid.uuid4().hex[:6]}"


def execute(
    rehearsal: Rehearsal,
    drain: DrainPort,
    log: StepLog,
    *,
    timeout_seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Ended:
    """Do what was rehearsed.

    Args:
        rehearsal: An executable one.
        drain: Brings the mirror up.
        log: Is told of every step.
        timeout_seconds: For the drain; None waits as long as it takes.
        clock: Seconds, for the time to recover.
    """
    steps = _Steps(rehearsal, drain, timeout_seconds, clock)
    ended = operation.run(rehearsal.plan, steps.actions(), log)
    return Ended(rehearsal, ended, steps.found)


@dataclass(slots=True)
class _Steps:
    """What each step does, and what it leaves for the next."""

    rehearsal: Rehearsal
    drain_port: DrainPort
    timeout_seconds: float | None
    clock: Callable[[], float]
    found: Found = field(default_factory=Found)
    groups: list[GroupFacts] = field(default_factory=list)
    until: dict[TopicPartition, UpstreamOffset] = field(default_factory=dict)
    failed: dict[str, Mapping[TopicPartition, Problem]] = field(default_factory=dict)
    began: float = 0.0

    def actions(self) -> dict[StepName, Callable[[], None]]:
        return {
            StepName.CHECK: self.check,
            StepName.DRAIN: self.drain,
            StepName.TRANSLATE: self.translate,
            StepName.VALIDATE: self.validate,
            StepName.WRITE: self.write,
            StepName.READ_BACK: self.read_back,
            StepName.REPORT: self.report,
        }

    @property
    def flow(self) -> FlowNow:
        return self.rehearsal.flow

    def check(self) -> None:
        """The groups stand still; where the source ends is asked after that."""
        self.began = self.clock()
        self.groups = self._read()
        _refuse(active_guards(self.groups, _names(self.flow)))
        self.until = drain_goal(self.groups, self._source_logs())

    def drain(self) -> None:
        if self.until:
            self.drain_port.drain(self.flow.clusters.settings, self.until, self.timeout_seconds)

    def translate(self) -> None:
        """From maps that reach past every commit; that they do is what "nothing is lost" rests on."""
        self.found.missing = self._short_of(self.until)
        if self.found.missing:
            raise GateError(
                f"the mirror is {self.found.missing} offsets short of where the groups stopped",
                remedy="run again: nothing was written",
            )
        self.found.plans = tuple(plan_groups(self.flow, self.groups, _RULES))

    def validate(self) -> None:
        """Every offset can be written, and the groups still stand where they stood."""
        _refuse(blocking_guards(self.found.plans, after_drain=True))
        now = self._read()
        _refuse(active_guards(now, _names(self.flow)))
        _refuse(moved_meanwhile(self.groups, now))
        clear(
            self.flow.clusters.target, self.found.plans, synced=self.flow.clusters.settings.sync_group_offsets
        )

    def write(self) -> None:
        """All groups; one that is refused in part is put back at once."""
        settled = tuple(commit_all(self.flow.clusters.target.groups, self.found.plans).values())
        self.found.results = settled
        if len(settled) == len(self.found.plans) and all(w.outcome is Outcome.REFUSED for w in settled):
            _raise(failure_of_writing(settled))

    def read_back(self) -> None:
        """What is not settled yet, with another client; then the verdict on all of it."""
        settled = {result.group: result for result in self.found.results}
        results = read_back_all(self.flow.clusters.target.groups, self.found.plans, settled)
        self.found.results = tuple(results)
        self.found.seconds = self.clock() - self.began
        _raise(failure_of_writing(self.found.results))

    def report(self) -> None:
        self.found.diverged = self._short_of(
            {place: log.log_end for place, log in self._source_logs().items()}
        )

    def _read(self) -> list[GroupFacts]:
        names = [plan.group for plan in self.rehearsal.plan.groups]
        return read_groups(self.flow, names, Direction.FORWARD, stable=True)

    def _source_logs(self) -> dict[TopicPartition, SourceLog]:
        """Of the topics that the groups consume; what is uncommitted is no record yet."""
        topics = {place.topic for group in self.groups for place in group.commits}
        places = [place for place in self.flow.partitions if place.topic in topics]
        committed = self.flow.clusters.settings.reads_committed
        bounds = self.flow.clusters.source.bounds(places, committed=committed)
        return {
            place: SourceLog(UpstreamOffset(at.log_start), UpstreamOffset(at.log_end))
            for place, at in bounds.items()
        }

    def _short_of(self, goal: Mapping[TopicPartition, int]) -> int:
        """How many offsets lie between the mirror's frontiers and a goal: an upper bound of the records."""
        maps = self.flow.clusters.state.maps(self.flow.identity)
        frontiers = {
            place: maps[self.flow.topics[place.topic].topic_id, place.partition].upstream_frontier
            for place in goal
            if (self.flow.topics[place.topic].topic_id, place.partition) in maps
        }
        return sum(max(0, end - frontiers.get(place, 0)) for place, end in goal.items())


def _names(flow: FlowNow) -> Names:
    return Names(flow.clusters.source.alias, flow.clusters.target.alias)


def _refuse(guards: Iterable[Guard]) -> None:
    found = tuple(guards)
    if found:
        raise refusal_of(found)


def refusal_of(guards: tuple[Guard, ...]) -> RefusedError:
    """Guards as one error: the first in full, the others counted (each is in the rows)."""
    more = f", and {len(guards) - 1} more" if len(guards) > 1 else ""
    codes = {guard.code for guard in guards}
    return RefusedError(
        guards[0].sentence + more,
        remedy=_REMEDIES.get(guards[0].code, "the rows say which; nothing was changed"),
        code=codes.pop() if len(codes) == 1 else "refused",
    )


_REMEDIES: dict[str, str] = {
    "active_on_source": "stop the group's consumers on the source, and wait until their session has ended",
    Reason.ACTIVE_ON_TARGET: "stop the group's consumers on the target, and wait until their session has ended",
    "source_commits_moved": "somebody consumes with assign(): stop it, then run again",
}


def _raise(error: MmtoolError | None) -> None:
    if error is not None:
        raise error
