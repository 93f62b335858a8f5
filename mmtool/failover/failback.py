"""``failover failback``: the source is back, and groups go home to it, behind what diverged there.

Nothing is written at home before the diverged records are in a file. What was born away comes home by the way back,
which is another flow with offset runs of its own; groups are placed by both.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mmtool.errors import RefusedError, UsageError
from mmtool.failover import operation
from mmtool.failover.diverged import TailKind, find_tail
from mmtool.failover.hooks import with_hooks
from mmtool.failover.landing import Landing
from mmtool.failover.planned import Ended
from mmtool.failover.rehearsal import SavableRehearsal, names_of, new_operation_id, refuse
from mmtool.failover.rows import reread_of
from mmtool.failover.seen import seen_of_flow
from mmtool.failover.states import START
from mmtool.failover.tail_file import default_name, export_tail, read_export
from mmtool.insight.partitions import partition_facts
from mmtool.insight.progress_of import log_ends
from mmtool.insight.translation import look, read_groups, selected_groups, selection_warnings
from mmtool.plan.failover import active_guards, drain_goal, moved_meanwhile
from mmtool.plan.homecoming import HomeFacts, plan_failback
from mmtool.plan.offsets import Direction
from mmtool.plan.steps import Names, StepName
from mmtool.plan.words import counted, few

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from mmtool.config import FlowSettings
    from mmtool.failover.bringing_up import DrainPort
    from mmtool.failover.diverged import FoundTails
    from mmtool.failover.landing import Ways
    from mmtool.failover.operation import StepLog
    from mmtool.failover.states import Standing
    from mmtool.insight.translation import FlowClusters, FlowNow
    from mmtool.kafka.ports import BatchesPort
    from mmtool.plan.group_facts import GroupFacts, GroupSelection
    from mmtool.plan.homecoming import Homecoming


@dataclass(frozen=True, slots=True)
class BothWays:
    """A flow, its way back, and the logs of both clusters.

    Attributes:
        back: None where nothing away could be brought home: all its topics came from there.
        home, away: The logs of the flow's source and target.
    """

    flow: FlowNow
    back: FlowNow | None
    home: BatchesPort
    away: BatchesPort


@dataclass(frozen=True, slots=True)
class FailbackRehearsal(SavableRehearsal):
    """With the flows whose clusters have answered.

    Attributes:
        homecoming: What of the diverged tail groups pass over.
        tails: All that diverged, of the topics that the groups read.
        held: Those topics: nothing of them is mirrored while groups go home.
    """

    ways: BothWays = field(kw_only=True)
    homecoming: Homecoming = field(kw_only=True)
    tails: FoundTails = field(kw_only=True)
    held: tuple[str, ...] = field(kw_only=True)


def look_both_ways(
    clusters: FlowClusters, back: FlowClusters, home: BatchesPort, away: BatchesPort
) -> BothWays:
    """Both flows, once their clusters have answered.

    Raises:
        As `look`, but for a way back that has no topic.
    """
    flow = look(clusters)
    try:
        return BothWays(flow, look(back), home, away)
    except UsageError as error:
        if error.code != UsageError.code:
            raise
        return BothWays(flow, None, home, away)


def rehearse(
    ways: BothWays, selection: GroupSelection, *, operation_id: str | None = None
) -> FailbackRehearsal:
    """The plan for the selected groups, from what both clusters say now; nothing is changed.

    Raises:
        RefusedError: No group is selected, or stored state cannot be read.
        UnreachableError, NotAuthorisedError: A cluster does not answer, or denies a part.
    """
    selected = selected_groups(ways.flow, selection, Direction.REVERSE)
    if not selected.known and not selected.unknown:
        raise RefusedError(
            "no group matches: there is nothing to bring home", remedy="see -g, --groups and groups.exclude"
        )
    groups = read_groups(ways.flow, selected.known, Direction.REVERSE)
    looked = _Look(ways, groups)
    tails = looked.tails()
    settings, identity = ways.flow.clusters.settings, ways.flow.identity
    name = operation_id or new_operation_id()
    facts = looked.facts(tails, selected.unknown)
    homecoming = plan_failback(name, names_of(settings), facts)
    homecoming = replace(homecoming, plan=with_hooks(homecoming.plan, settings.hooks))
    warnings = (
        *selection_warnings(selected),
        *_told(tails, homecoming, names_of(settings)),
        *_stay(facts, names_of(settings)),
    )
    return FailbackRehearsal(
        settings,
        identity.source_id,
        identity.target_id,
        homecoming.plan,
        warnings,
        seen=seen_of_flow(ways.flow, groups, homecoming.plan.groups),
        ways=ways,
        homecoming=homecoming,
        tails=tails,
        held=facts.topics,
    )


class _Look:
    """One look at both clusters, for some groups.

    Attributes:
        mirrored: As in `HomeFacts`.
        topics: At home, of those that the groups read.
    """

    def __init__(self, ways: BothWays, groups: list[GroupFacts]) -> None:
        self._ways, self._groups = ways, groups
        self._going = {group.group for group in groups}
        self.mirrored = partition_facts(ways.flow, Direction.REVERSE)
        places = {place for group in groups for place in group.commits}
        self.topics = self._at_home({place.topic for place in places})

    def _at_home(self, names: Collection[str]) -> set[str]:
        return {facts.source.topic for at, facts in self.mirrored.items() if at.topic in names}

    def kept(self) -> dict[str, list[str]]:
        """Topics that groups which were moved and stay away read as well, and which groups."""
        flow, found = self._ways.flow, dict[str, list[str]]()
        staying = sorted(flow.clusters.state.control(flow.identity).moved.keys() - self._going)
        for name, commits in flow.clusters.target.groups.commits(staying).items():
            for topic in self._at_home({place.topic for place in commits}) & self.topics:
                found.setdefault(topic, []).append(name)
        return found

    def tails(self) -> FoundTails:
        """What diverged at home, of those topics."""
        flow = self._ways.flow.narrowed_to(self.topics)
        return find_tail(flow, source=self._ways.home, target=self._ways.away)

    def facts(self, tails: FoundTails, unknown: Iterable[str] = ()) -> HomeFacts:
        back = self._ways.back
        born = {} if back is None else partition_facts(back, Direction.FORWARD)
        one_name = self._ways.flow.clusters.settings.keeps_names
        found = {part.place: part.tail for part in tails.partitions}
        topics = tuple(sorted(self.topics))
        return HomeFacts(
            tuple(self._groups), tuple(unknown), self.mirrored, born, found, one_name, topics, self.kept()
        )


def _told(tails: FoundTails, homecoming: Homecoming, names: Names) -> Iterable[str]:
    """What an operator must know of the diverged tail before agreeing."""
    if tails.diverged_records:
        at, file = (
            few([found.place for found in tails.to_export], 3),
            default_name(homecoming.plan.operation_id),
        )
        yield (
            f"{counted(tails.diverged_records, 'record')} of {names.source} never reached {names.target} ({at}):"
            f" exported to {file}, and groups pass over {homecoming.diverged_records:,} of them"
        )
    ahead = sum(homecoming.ahead.values())
    if ahead:
        yield f"{counted(ahead, 'record')} of them are still to be read by groups that were behind on {names.target}"
    for found in tails.partitions:
        if found.kind is TailKind.CUT:
            yield f"{found.place}: {names.source} has lost records that {names.target} has"
        if found.undecided:
            yield f"{found.place}: {counted(found.undecided, 'offset')} lie in or behind a transaction that is open"


def _stay(facts: HomeFacts, names: Names) -> Iterable[str]:
    for topic, groups in sorted(facts.kept.items()):
        yield f"{topic} stays failed over: {few(groups)} read it on {names.target}, and stay there"


def execute(
    rehearsal: FailbackRehearsal,
    drain: DrainPort,
    ways: Ways,
    log: StepLog,
    *,
    folder: Path,
    timeout_seconds: float | None = None,
    since: Standing = START,
) -> Ended:
    """Do what was rehearsed.

    Args:
        rehearsal: An executable one.
        drain: Brings mirrors up, in either direction.
        ways: To the cluster that is home, the journal, the flow's owner.
        log: Is told of every step.
        folder: Where the diverged records are written.
        timeout_seconds: For each drain; None waits as long as it takes.
        since: Where the operation is, when it is taken up again.

    Raises:
        MmtoolError: It could not be put on record that it begins; nothing was done.
    """
    steps = _Steps(rehearsal, drain, Landing.of(ways, rehearsal.plan), folder, timeout_seconds)
    begun, after = operation.Operation(rehearsal.plan, since), ways.hooks.after(steps.landing)
    ended = operation.run(begun, steps.actions(), log, {StepName.MARK: steps.unmark}, after=after)
    return Ended(rehearsal, ended, steps.landing)


@dataclass(slots=True)
class _Steps:
    """What each step does, and what it leaves for the next."""

    rehearsal: FailbackRehearsal
    drain_port: DrainPort
    landing: Landing
    folder: Path
    timeout_seconds: float | None
    groups: list[GroupFacts] = field(default_factory=list)
    held: tuple[str, ...] = ()

    def actions(self) -> dict[StepName, Callable[[], None]]:
        return {
            StepName.CHECK: self.check,
            StepName.DRAIN: self.drain,
            StepName.MARK: self.mark,
            StepName.FIND: self.find,
            StepName.EXPORT: self.export,
            StepName.DRAIN_BACK: self.drain_back,
            StepName.TRANSLATE: self.translate,
            StepName.VALIDATE: self.validate,
            StepName.WRITE: self.landing.write,
            StepName.READ_BACK: self.landing.read_back,
            StepName.HAND_OVER: self.landing.hand_over,
            StepName.RELEASE: lambda: self.landing.hold(self.rehearsal.plan.released, failed_over=False),
            StepName.REPORT: lambda: None,
        }

    @property
    def both(self) -> BothWays:
        return self.rehearsal.ways

    @property
    def topics(self) -> tuple[str, ...]:
        """At home: held while groups go there."""
        return self.rehearsal.held

    @property
    def turned(self) -> Names:
        names = self.rehearsal.names
        return Names(names.target, names.source)

    def check(self) -> None:
        """The groups stand still on both sides, and nobody else is at it."""
        self.landing.ways.seat.join()
        self.groups = self._read()
        refuse(active_guards(self.groups, self.turned))
        self.landing.alone()

    def drain(self) -> None:
        """What has not failed over is mirrored to its end: nothing of it diverges then."""
        self._drain(self.both.flow, set(self.topics) - self._control_marks(), [])

    def mark(self) -> None:
        """Topics that an emergency has marked keep its mark until groups are at home."""
        self.held = tuple(sorted(set(self.topics) - self._control_marks()))
        self.landing.hold(self.held, failed_over=True)

    def unmark(self) -> None:
        self.landing.hold(self.held, failed_over=False)

    def _control_marks(self) -> set[str]:
        flow = self.both.flow
        ours = self.landing.ways.operation_id
        control = flow.clusters.state.control(flow.identity)
        return {name for name, mark in control.failed_over.items() if mark.operation_id != ours}

    def find(self) -> None:
        """Again, now that nothing moves away any more."""
        self.rehearsal = replace(self.rehearsal, tails=_Look(self.both, self.groups).tails())

    def export(self) -> None:
        """Into a file that is never replaced; one of the same failback that is whole is kept."""
        tails, name = self.rehearsal.tails, self.rehearsal.plan.operation_id
        if not tails.to_export:
            return
        path = self.folder / default_name(name)
        if path.exists() and read_export(path).records == tails.diverged_records:
            return
        export_tail(
            self.both.home, tails, path, operation_id=name, source_cluster_id=str(self.rehearsal.source_id)
        )

    def drain_back(self) -> None:
        """All that the groups can have read away, and that was born there."""
        back = self.both.back
        if back is not None:
            names = {place.topic for group in self.groups for place in group.commits}
            self._drain(back, names, self.groups)

    def _drain(self, flow: FlowNow, topics: Collection[str], groups: list[GroupFacts]) -> None:
        until = drain_goal(groups, log_ends(flow, topics))
        if until:
            wanted = {place.topic for place in until}
            self.drain_port.drain(_only(flow.clusters.settings, wanted), until, self.timeout_seconds)

    def translate(self) -> None:
        """By both directions' runs, behind the tail that was exported."""
        rehearsal = self.rehearsal
        facts = _Look(self.both, self.groups).facts(rehearsal.tails)
        homecoming = plan_failback(rehearsal.plan.operation_id, rehearsal.names, facts)
        self.landing.plans = homecoming.plan.groups
        self.landing.figures = replace(
            self.landing.figures,
            rpo_records=0,
            reread_records=reread_of(self.landing.plans),
            diverged_records=homecoming.diverged_records,
        )

    def validate(self) -> None:
        now = self._read()
        refuse(active_guards(now, self.turned))
        refuse(moved_meanwhile(self.groups, now))
        self.landing.validate()

    def _read(self) -> list[GroupFacts]:
        names = [plan.group for plan in self.rehearsal.plan.groups]
        return read_groups(self.both.flow, names, Direction.REVERSE, stable=True)


def _only(settings: FlowSettings, topics: Collection[str]) -> FlowSettings:
    """A way back that the file does not enable is run for what is needed, and for nothing else."""
    return settings if settings.enabled else settings.for_topics(topics)
