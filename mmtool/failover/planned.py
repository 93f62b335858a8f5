"""``failover planned --fence none``: groups that stand still go on at the target exactly where they stopped.

The source's consumers have been stopped by the operator; producers may go on. The mirror is drained to where
the source ended when the groups were found standing still, so nothing that a group could have read there is
missing on the target, and each commit has an exact answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from mmtool.errors import GateError, RefusedError
from mmtool.failover import operation
from mmtool.failover.hooks import with_hooks
from mmtool.failover.landing import Landing
from mmtool.failover.proving import prove
from mmtool.failover.rehearsal import SavableRehearsal, names_of, new_operation_id, refuse
from mmtool.failover.rows import reread_of
from mmtool.failover.seen import seen_of_flow
from mmtool.failover.states import START
from mmtool.insight.partitions import partition_facts
from mmtool.insight.progress_of import log_ends, short_of
from mmtool.insight.readers import readers_of
from mmtool.insight.translation import (
    plan_groups,
    plans_by,
    read_groups,
    selected_groups,
    selection_warnings,
)
from mmtool.plan.failover import active_guards, blocking_guards, drain_goal, moved_meanwhile, plan_planned
from mmtool.plan.offsets import Direction, Rules, unknown_group
from mmtool.plan.steps import StepName
from mmtool.plan.units import dependencies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mmtool.config import FlowSettings
    from mmtool.failover.landing import Ways
    from mmtool.failover.operation import Operation, StepLog
    from mmtool.failover.rehearsal import Rehearsal
    from mmtool.failover.states import Standing
    from mmtool.insight.translation import FlowNow
    from mmtool.plan.group_facts import GroupFacts, GroupSelection
    from mmtool.plan.offsets import PartitionFacts
    from mmtool.translation.answers import SourceLog
    from mmtool.translation.types import TopicPartition, UpstreamOffset

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
class PlannedRehearsal(SavableRehearsal):
    """With the flow whose clusters have answered."""

    flow: FlowNow = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Ended:
    """An operation that has ended, well or not."""

    rehearsal: Rehearsal
    operation: Operation
    landing: Landing


def rehearse(
    flow: FlowNow, selection: GroupSelection, *, operation_id: str | None = None
) -> PlannedRehearsal:
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
    settings, identity = flow.clusters.settings, flow.identity
    plan = plan_planned(operation_id or new_operation_id(), names_of(settings), groups, plans)
    plan = with_hooks(plan, settings.hooks)
    warnings = (*selection_warnings(selected), *_idle_warnings(flow, groups))
    if selection.unit is not None:
        around = dependencies(selection.unit, readers_of(flow), selected.known, names_of(settings))
        warnings = (*warnings, *around)
    seen = seen_of_flow(flow, groups, plans)
    return PlannedRehearsal(
        settings, identity.source_id, identity.target_id, plan, warnings, flow=flow, seen=seen
    )


def _idle_warnings(flow: FlowNow, groups: Iterable[GroupFacts]) -> list[str]:
    """Groups that this flow has nothing for: moving them is easy, and perhaps not what was meant."""
    idle = [g.group for g in groups if not {place.topic for place in g.commits} & flow.topics.keys()]
    name = flow.clusters.settings.name
    return [f"no commit on a topic of {name}, so nothing to move: {', '.join(idle)}"] if idle else []


def execute(
    rehearsal: PlannedRehearsal,
    drain: DrainPort,
    ways: Ways,
    log: StepLog,
    *,
    timeout_seconds: float | None = None,
    since: Standing = START,
) -> Ended:
    """Do what was rehearsed.

    Args:
        rehearsal: An executable one.
        drain: Brings the mirror up.
        ways: To the target, the journal, the flow's owner.
        log: Is told of every step.
        timeout_seconds: For the drain; None waits as long as it takes.
        since: Where the operation is, when it is taken up again.

    Raises:
        MmtoolError: It could not be put on record that it begins; nothing was done.
    """
    steps = _Steps(rehearsal, drain, Landing.of(ways, rehearsal.plan), timeout_seconds)
    begun, after = operation.Operation(rehearsal.plan, since), ways.hooks.after(steps.landing)
    ended = operation.run(begun, steps.actions(), log, after=after)
    return Ended(rehearsal, ended, steps.landing)


@dataclass(slots=True)
class _Steps:
    """What each step does, and what it leaves for the next."""

    rehearsal: PlannedRehearsal
    drain_port: DrainPort
    landing: Landing
    timeout_seconds: float | None
    groups: list[GroupFacts] = field(default_factory=list)
    until: dict[TopicPartition, UpstreamOffset] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, PartitionFacts] = field(default_factory=dict)

    def actions(self) -> dict[StepName, Callable[[], None]]:
        return {
            StepName.CHECK: self.check,
            StepName.DRAIN: self.drain,
            StepName.TRANSLATE: self.translate,
            StepName.PROVE: self.prove,
            StepName.VALIDATE: self.validate,
            StepName.WRITE: self.landing.write,
            StepName.READ_BACK: self.landing.read_back,
            StepName.HAND_OVER: self.landing.hand_over,
            StepName.REPORT: self.report,
        }

    @property
    def flow(self) -> FlowNow:
        return self.rehearsal.flow

    def check(self) -> None:
        """The groups stand still; where the source ends is asked after that."""
        self.landing.ways.seat.join()
        self.landing.not_half_done()
        self.groups = self._read()
        refuse(active_guards(self.groups, self.rehearsal.names))
        self.until = drain_goal(self.groups, self._source_logs())

    def drain(self) -> None:
        if self.until:
            self.drain_port.drain(self.flow.clusters.settings, self.until, self.timeout_seconds)

    def translate(self) -> None:
        """From maps that reach past every commit; that they do is what "nothing is lost" rests on."""
        missing = short_of(self.flow, self.until)
        self.landing.figures = replace(self.landing.figures, rpo_records=missing)
        if missing:
            raise GateError(
                f"the mirror is {missing} offsets short of where the groups stopped",
                remedy="run again: nothing was written",
            )
        self.partitions = partition_facts(self.flow, _RULES.direction)
        self.landing.plans = tuple(plans_by(self.flow, self.groups, self.partitions, _RULES))
        self.landing.figures = replace(self.landing.figures, reread_records=reread_of(self.landing.plans))

    def prove(self) -> None:
        """What each group reads next is the same record on both sides."""
        prove(self.flow, self.landing.plans, self.partitions)

    def validate(self) -> None:
        """Every offset can be written, and the groups still stand where they stood."""
        refuse(blocking_guards(self.landing.plans, after_drain=True))
        now = self._read()
        refuse(active_guards(now, self.rehearsal.names))
        refuse(moved_meanwhile(self.groups, now))
        self.landing.validate()

    def report(self) -> None:
        ends = {place: log.log_end for place, log in self._source_logs().items()}
        self.landing.figures = replace(self.landing.figures, diverged_records=short_of(self.flow, ends))

    def _read(self) -> list[GroupFacts]:
        names = [plan.group for plan in self.rehearsal.plan.groups]
        return read_groups(self.flow, names, Direction.FORWARD, stable=True)

    def _source_logs(self) -> dict[TopicPartition, SourceLog]:
        """Of the topics that the groups consume; what is uncommitted is no record yet."""
        return log_ends(self.flow, {place.topic for group in self.groups for place in group.commits})
