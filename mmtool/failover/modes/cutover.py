"""`OperationContext`, the ports of every step; the steps from `validate` on; and the outcome of an operation."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mmtool.failover.commits.apply import clear
from mmtool.failover.commits.write import WriteOutcome, Written, commit_all, failure_of_writing, read_back_all
from mmtool.failover.modes.rehearsal import refusal_of, refuse
from mmtool.failover.operation.hooks import Hooks
from mmtool.failover.operation.records import Figures
from mmtool.failover.operation.states import START, OperationState, Trigger
from mmtool.plan.failover.failover_plan import blocking_guards
from mmtool.plan.failover.risks import Guard
from mmtool.plan.failover.steps import Mode, continued
from mmtool.plan.groups.facts import ABSENT, occupied
from mmtool.plan.records.marks import GroupNameRecord, MovedGroupRecord
from mmtool.plan.words import ID_PLACEHOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.failover.modes.rehearsal import Rehearsal
    from mmtool.failover.operation.journal import Journalist
    from mmtool.failover.operation.operation import Operation, StepLog
    from mmtool.failover.operation.records import Recorded
    from mmtool.failover.operation.states import OperationStatus
    from mmtool.kafka.ports import ClusterPort
    from mmtool.plan.failover.failover_plan import FailoverPlan
    from mmtool.plan.failover.risks import Risk
    from mmtool.plan.groups.facts import Commit, GroupStanding
    from mmtool.plan.groups.imports import ResetLine
    from mmtool.plan.groups.offsets import GroupPlan
    from mmtool.plan.records.documents import Document
    from mmtool.translation.types import TopicPartition, UpstreamOffset


@dataclass(frozen=True, slots=True)
class Ended:
    """An operation that has ended, successfully or not.

    Attributes:
        folder: Of the file with a failback's diverged records.
        skipped: For a failback, the offsets of the first diverged records that its groups skip.
    """

    rehearsal: Rehearsal
    operation: Operation
    cutover: Cutover
    folder: Path = Path()
    skipped: tuple[ResetLine, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The rehearsal's warnings, with the operation's id in names of files."""
        name = self.rehearsal.plan.operation_id
        return tuple(said.replace(ID_PLACEHOLDER, name) for said in self.rehearsal.warnings)


class MarksPort(Protocol):
    """Writer of marks to the flow's control topic, which the flow's owner obeys."""

    def write(self, marks: Sequence[Document]) -> None:
        """Write marks to the control topic; when this returns, all in-sync replicas have them.

        Raises:
            UnreachableError, NotAuthorisedError: The target does not accept them.
        """

    def promote(self, places: Collection[TopicPartition]) -> None:
        """Shut every writer out of mirrors with the source's own offsets that began before, for instance a frozen one.

        One marker in each of these partitions of the target does it: it takes an offset.

        Raises:
            UnreachableError, NotAuthorisedError: The target does not accept them.
        """


class LockPort(Protocol):
    """The operation lock: one operation on a flow at a time."""

    def begin(self) -> None:
        """Start to request the operation lock without waiting for it; unlike `join`, prepare nothing."""

    def join(self) -> None:
        """Prepare the journal, and start to request the operation lock if `begin` did not; do not wait for the lock.

        Raises:
            UnreachableError, NotAuthorisedError: The target does not answer, or denies a part.
        """

    def hold(self) -> None:
        """Wait until this process has the operation lock; if it has it already, check that it still does.

        Raises:
            OwnedElsewhereError: Another live process has the lock.
            UnreachableError, NotAuthorisedError: The target does not grant the lock.
        """

    def is_taken(self) -> bool:
        """Whether another process has the operation lock, or was killed while it had it and its session has not ended.

        Raises:
            UnreachableError, NotAuthorisedError: The target does not answer, or does not show the lock.
        """

    def leave(self) -> None:
        """Release the operation lock, or stop requesting it."""


class DrainPort(Protocol):
    """Mirrors up to given source offsets, or waits until the process that runs the flow has."""

    def drain(
        self,
        flow: FlowSettings,
        until: Mapping[TopicPartition, UpstreamOffset],
        timeout_seconds: float | None,
    ) -> None:
        """Return once the frontier of each source partition has reached its offset; mirror if no process runs the flow.

        If a process runs the flow, it is only watched.

        Raises:
            GateError: The timeout has passed.
            RefusedError: A partition is halted.
            OwnedElsewhereError, UnreachableError: As the engine.
        """

    def await_mirror_maker(
        self, flow: FlowSettings, missing: Callable[[], int], timeout_seconds: float | None
    ) -> int:
        """Wait while MirrorMaker 2 runs the flow and ``missing`` returns more than 0 records.

        Returns:
            How many records are missing at the end; if any are, MM2 does not run the flow.

        Raises:
            GateError: The timeout has passed.
            UnreachableError, NotAuthorisedError: A cluster does not answer, or does not show a part.
        """


@dataclass(frozen=True, slots=True)
class Clock:
    """The time, and waiting.

    Attributes:
        pause: Waits so many seconds.
        seconds: Seconds on a clock that never goes back, for durations.
        now: Seconds since 1970.
    """

    pause: Callable[[float], None] = time.sleep
    seconds: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time

    def now_ms(self) -> int:
        """Milliseconds since 1970, the unit of Kafka's timestamps."""
        return int(self.now() * 1000)


@dataclass(frozen=True, slots=True)
class OperationContext:
    """The ports and facts of one process that executes an operation, from its start or from where another stopped.

    Attributes:
        destination: The cluster on which the groups will run; for a failback the flow's source.
        journal: Records the operation.
        marks: Writes the marks for the flow's owner.
        lock: The operation lock.
        drain: Drains the flow.
        log: Called before and after each step; it writes to the journal first.
        operation_id: Of the operation.
        by: The operator, as ``user@host``.
        found: The operation as the journal has it, when it is resumed.
        is_saved: It executes a plan from a file, which becomes stale.
        drain_seconds: For each drain, and for open transactions; None waits as long as a drain takes.
        synced: The flow syncs group offsets to the target, so recent commits there are the sync's.
        hooks: The hooks that run with its steps.
        clock: The time, and waiting.
    """

    destination: ClusterPort
    journal: Journalist
    marks: MarksPort
    lock: LockPort
    drain: DrainPort
    log: StepLog
    operation_id: str
    by: str
    found: Recorded | None = None
    is_saved: bool = False
    drain_seconds: float | None = None
    synced: bool = False
    hooks: Hooks = field(default_factory=Hooks)
    clock: Clock = field(default_factory=Clock)

    @property
    def since(self) -> OperationStatus:
        """The operation's state before this process executes it."""
        return START if self.found is None else self.found.operation.standing


@dataclass(slots=True)
class Cutover:
    """The steps from `validate` on.

    Attributes:
        groups: The groups that move.
        plans: The offsets to write.
        risks: As in `FailoverPlan`.
        results: The result for each group that was written.
        resumed: The operation was interrupted and may have written some of it before.
        promotes: As `is_promotion`.
        began: When the operation began, also in another process, by the clock that never goes back.
    """

    context: OperationContext
    mode: Mode
    groups: tuple[str, ...]
    plans: tuple[GroupPlan, ...] = ()
    risks: Mapping[tuple[str, TopicPartition], Risk] = field(default_factory=dict)
    results: tuple[Written, ...] = ()
    figures: Figures = field(default_factory=Figures)
    resumed: bool = False
    promotes: bool = False
    began: float = field(init=False)

    @classmethod
    def of(cls, context: OperationContext, plan: FailoverPlan) -> Cutover:
        """A cutover of a plan's groups, whose offsets are not translated yet."""
        groups = tuple(group.group for group in plan.groups)
        return cls(context, plan.mode, groups, promotes=plan.promotes)

    def __post_init__(self) -> None:
        clock, found = self.context.clock, self.context.found
        before = 0.0 if found is None else max(0.0, clock.now() - found.began_ms / 1000)
        self.began = clock.seconds() - before
        self.context.journal.figures = lambda: self.figures

    def validate(self) -> None:
        """Check that every offset can be written and no other operation interferes, and record the planned offsets."""
        refuse(blocking_guards(self.plans, after_drain=True))
        self.alone()
        clear(
            self.context.destination, self.plans, synced=self.context.synced, pause=self.context.clock.pause
        )
        self.context.journal.intends(self.plans, self.risks)

    def alone(self) -> None:
        """Wait for the operation lock, and end the open operations on these groups that give way to this one.

        Raises:
            OwnedElsewhereError, RefusedError: As `giving_way`.
        """
        for other in self.giving_way():
            self.context.journal.supersede(other)

    def giving_way(self) -> Sequence[Recorded]:
        """Wait for the operation lock, and return the open operations on these groups, which all give way to this one.

        Raises:
            OwnedElsewhereError: Another operation holds the lock.
            RefusedError: An open operation does not give way, see `gives_way`.
        """
        self.context.lock.hold()
        others = self.context.journal.open_others(self.groups)
        for other in others:
            if not gives_way(other, self.mode):
                raise refusal_of((_half_done(other),))
        return others

    def write(self) -> None:
        """Commit the offsets of all groups; a group that is refused in part is restored at once."""
        self.context.lock.hold()
        self.context.journal.still_ours()
        # of a resumed operation, the groups that it has written before or must not write any more
        found = dict[str, Written]()
        if self.resumed:
            names, groups = [plan.group for plan in self.plans], self.context.destination.groups
            standing, now = groups.describe(names), groups.commits(names)
            where, operation_id = self.context.destination.alias, self.context.operation_id
            for plan in self.plans:
                met = _met(plan, standing.get(plan.group, ABSENT), now[plan.group], where, operation_id)
                if met is not None:
                    found[plan.group] = met
        if self.mode is not Mode.FAILBACK:  # the names on the target are stored before they are used
            renamed = [plan for plan in self.plans if plan.renamed is not None]
            self.context.marks.write([GroupNameRecord(p.group, p.target_group) for p in renamed])
        left = [plan for plan in self.plans if plan.group not in found]
        sent = commit_all(self.context.destination.groups, left, still_ours=self.context.journal.still_ours)
        self.results = (*found.values(), *sent.values())
        nothing = len(self.results) == len(self.plans) and all(
            result.outcome is WriteOutcome.REFUSED for result in self.results
        )
        error = failure_of_writing(self.results, self.context.destination.alias)
        if nothing and not self.resumed and error is not None:
            raise error

    def read_back(self) -> None:
        """Read the commits back with a fresh client, record each group's result, and raise if not all are written."""
        settled = {result.group: result for result in self.results}
        results = read_back_all(self.context.destination.groups, self.plans, settled)
        self.results = tuple(results)
        took = self.context.clock.seconds() - self.began
        self.figures = replace(self.figures, rto_seconds=round(took, 3))
        self.context.journal.settled(results)
        # the same command would find this one open, but for a drill, which is in nobody's way
        again = f"run `mmtool failover resume {self.context.operation_id} -c FILE --execute`"
        again = "run the drill again" if self.mode is Mode.DRILL else again
        if (error := failure_of_writing(results, self.context.destination.alias, again)) is not None:
            raise error

    def hand_over(self) -> None:
        """Mark the groups as moved to the target, which stops offset sync for them; a failback removes these marks.

        A group without an offset to write has not moved, so it gets no mark.
        """
        away, context, at_ms = self.mode is not Mode.FAILBACK, self.context, self.context.clock.now_ms()
        self.context.marks.write(
            [
                MovedGroupRecord(plan.group, away, context.operation_id, context.by, at_ms)
                for plan in self.plans
                if plan.to_write() or not away
            ]
        )
        if self.promotes and (places := continued(self.plans)):
            self.context.marks.promote(places)


def gives_way(other: Recorded, mode: Mode) -> bool:
    """Whether an operation of this mode may end an open one, which must have written no offset.

    An emergency ends every operation that can be cancelled. Other modes end only one that failed and undid its
    preparations: one that was killed, or that left its fence, ACLs, marks or half-written diverged records, needs the
    operator's decision.
    """
    left = other.fence_stands or other.promotion_stands or other.tail is not None or other.may_have_marked
    ended = other.state is OperationState.FAILED and not left
    return other.may(Trigger.CANCEL) and (mode is Mode.EMERGENCY or ended)


def half_done(found: Iterable[Recorded], plan: FailoverPlan) -> tuple[Guard, ...]:
    """A guard for each other open operation on the plan's groups that does not give way to it."""
    groups = {group.group for group in plan.groups}
    return tuple(
        _half_done(one)
        for one in found
        if one.is_open and one.operation_id != plan.operation_id
        if groups & set(one.group_names) and not gives_way(one, plan.mode)
    )


def _half_done(other: Recorded) -> Guard:
    return Guard(
        "open_operation",
        f"operation {other.operation_id} ({other.mode}) by {other.by} on the same groups is still open",
        ways_on(other),
    )


def ways_on(other: Recorded) -> str:
    """The commands that complete or end an open operation, in one sentence; `report.ways_on` lists them by state.

    An operation that may not be resumed or cancelled is one that an older mmtool has replayed in part.
    """
    allowed = [event for event in _DOES if other.may(event)]
    said = "; ".join(_DOES[event] for event in allowed or (Trigger.RESUME, Trigger.CANCEL)).format(
        other.operation_id
    )
    return said if allowed else f"with the release of mmtool that started the operation: {said}"


_DOES = {
    Trigger.RESUME: "`mmtool failover resume {0} -c FILE --execute` completes that operation",
    Trigger.CANCEL: "`mmtool failover cancel {0} -c FILE --execute` ends it",
    Trigger.ROLL_BACK: "`mmtool failover rollback {0} -c FILE --execute` undoes it",
}


def _met(
    plan: GroupPlan, there: GroupStanding, now: Mapping[TopicPartition, Commit], where: str, name: str
) -> Written | None:
    """The result of a group that a resumed operation has written or must not write; None if it is still to write.

    A group with the planned offsets or later ones is written. A group with other offsets than the planned or the
    previous ones was committed for by another client, and is not written.
    """
    wanted, before = plan.to_write(), plan.before()
    if all(place in now and now[place].offset >= commit.offset for place, commit in wanted.items()):
        return Written(plan.group, WriteOutcome.WRITTEN, frozenset(wanted))
    if any(now.get(place) not in (commit, before.get(place)) for place, commit in wanted.items()):
        why = (
            f"group {plan.shown} has committed other offsets on {where} since the operation was interrupted: stop its"
            f" consumers, and reset the group to the planned offsets with `kafka-{plan.kind.writer} --reset-offsets"
            f" --to-offset OFFSET --execute`; `mmtool failover show {name} -c FILE` lists these offsets"
        )
    elif not there.fits(plan.kind):
        why = occupied(plan.shown, where, there)
    elif not there.idle:
        why = f"group {plan.shown} has members on {where}: {there.sentence}; stop these consumers"
    else:
        return None
    stands = frozenset(place for place, commit in wanted.items() if now.get(place) == commit)
    as_it_was = all(now.get(place) == before.get(place) for place in wanted)
    return Written(plan.group, WriteOutcome.REFUSED if as_it_was else WriteOutcome.PARTLY, stands, (why,))
