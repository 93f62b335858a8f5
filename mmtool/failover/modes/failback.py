"""``failover failback``: the source is back, and groups return to it; the diverged tail is handled first.

Nothing is committed on the source before the diverged records are written where the operator asked. Records that were
written on the target come to the source by the reverse flow, which has offset runs of its own; both flows' offset runs
decide where a group continues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mmtool.config import ClusterSettings, FlowSettings
from mmtool.errors import RefusedError, UsageError
from mmtool.failover.commits.group_configs import bring_configs_of
from mmtool.failover.diverged_tail.tail_file import default_name, export_tail, read_export
from mmtool.failover.diverged_tail.tail_writer import DivergedTailWriter, refuse_topic
from mmtool.failover.diverged_tail.tails import FoundTails
from mmtool.failover.fence.promotion import AclsAsked
from mmtool.failover.modes.cutover import Cutover, Ended, OperationContext
from mmtool.failover.modes.drain import drain_all, look_for_added, prove, refuse_added, state_end_guards
from mmtool.failover.modes.failback_steps import BothWays, HomeLook, at_home_already, stay, told
from mmtool.failover.modes.rehearsal import (
    SavableRehearsal,
    names_of,
    new_operation_id,
    refuse,
    refuse_changed_names,
    select,
)
from mmtool.failover.modes.steps import run_steps
from mmtool.failover.operation.hooks import with_hooks
from mmtool.failover.operation.marks import Marking, release
from mmtool.failover.operation.operation import Operation
from mmtool.failover.report.plan_file import seen_of_flow
from mmtool.failover.report.report import skipped_from
from mmtool.failover.report.rows import reread_of
from mmtool.insight.applications import app_state, as_groups
from mmtool.insight.flow_now import FlowClusters, FlowNow
from mmtool.insight.flow_progress import log_ends
from mmtool.insight.partitions import partition_facts, standstill
from mmtool.insight.translation import (
    look,
    look_again,
    metadata_warnings,
    plans_by,
    read_groups,
    selection_warnings,
    topics_of,
)
from mmtool.kafka.ports import AppendPort, BatchesPort
from mmtool.kafka.state.control_view import ControlView
from mmtool.plain_text import shell_line
from mmtool.plan.failover.acl_promotion import NO_PROMOTION
from mmtool.plan.failover.choices import TO_FILE, Diverged, ToTopic
from mmtool.plan.failover.failback import plan_failback
from mmtool.plan.failover.failover_plan import active_guards, drain_goal, moved_meanwhile, state_guards
from mmtool.plan.failover.steps import StepName
from mmtool.plan.groups.applications import state_warnings
from mmtool.plan.groups.facts import GroupFacts, GroupSelection
from mmtool.plan.groups.offsets import Direction, Rules, ever_ran
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.plan.words import Names
from mmtool.translation.answers import Reason
from mmtool.translation.types import TopicPartition, UpstreamOffset


@dataclass(frozen=True, slots=True)
class FailbackRehearsal(SavableRehearsal):
    """A failback's rehearsal, with both flows' connections.

    Attributes:
        selection_said: Warnings about the selection.
        tails: The diverged tails of the topics that the groups read.
        held: Those topics: they are not mirrored during the failback.
    """

    selection_said: tuple[str, ...] = field(kw_only=True)
    both: BothWays = field(kw_only=True)
    tails: FoundTails = field(kw_only=True)
    held: tuple[str, ...] = field(kw_only=True)


def look_both_ways(
    clusters: FlowClusters, back: FlowClusters, home: BatchesPort, away: BatchesPort
) -> BothWays:
    """Read a flow and its reverse flow from both clusters; the reverse flow may have no topic to mirror.

    Raises:
        As `look`, except for a reverse flow without a topic.
    """
    flow = look(clusters)
    try:
        return BothWays(flow, look(back), home, away)
    except UsageError as error:
        if error.code != UsageError.code:
            raise
        return BothWays(flow, FlowNow(back, flow.identity.way_back, {}), home, away)


def rehearse(
    both: BothWays,
    selection: GroupSelection,
    *,
    operation_id: str | None = None,
    diverged: Diverged = TO_FILE,
    without_state: bool = False,
    acls: AclsAsked | None = None,
) -> FailbackRehearsal:
    """Plan a failback of the selected groups, from the current answers of both clusters; change nothing.

    Args:
        both: The flow and its reverse flow.
        selection: The selected groups.
        operation_id: The id of a resumed or saved operation; None for a new one.
        diverged: Where the diverged tail is written: file or topic.
        without_state: Kafka Streams applications move although their state does not.
        acls: The withdrawal of promoted ACLs with its connections; None where none were promoted.

    Raises:
        RefusedError: No group is selected, names have changed, the tail's topic cannot take it, or state is unreadable.
        UnreachableError, NotAuthorisedError: A cluster does not answer, or denies a part.
    """
    settings, identity = both.flow.clusters.settings, both.flow.identity
    selected = select(both.flow, selection, Direction.REVERSE, "fail back", _lists_groups(settings.target))
    groups = read_groups(both.flow, selected.known, Direction.REVERSE)
    state = app_state(both.flow, selected.known, without=without_state, back=both.back)
    looked = HomeLook(both, groups, state)
    control = _control_of(both, looked)
    tails = looked.tails()
    name, names = operation_id or new_operation_id(), names_of(settings)
    facts = looked.facts(tails, selected.unknown)
    refuse_topic(diverged, both.flow, tails, looked.taken)
    withdrawal = NO_PROMOTION if acls is None else acls.plan(facts.released, names)
    homecoming = plan_failback(name, names, facts, diverged, withdrawal)
    homecoming = replace(homecoming, plan=with_hooks(homecoming.plan, settings.hooks))
    selection_said = (
        *selection_warnings(selected),
        *metadata_warnings(both.flow, groups, Direction.REVERSE),
        *state_warnings(homecoming.state, names.source),
        *_transform_warnings(settings, names),
    )
    still = standstill(both.back, homecoming.plan.groups)
    tail_said = told(tails, homecoming, names, set(facts.topics).difference(facts.held))
    warnings = (*selection_said, *still, *tail_said, *stay(facts, names))
    return FailbackRehearsal(
        settings,
        identity.source_id,
        identity.target_id,
        homecoming.plan,
        (*warnings, *at_home_already(homecoming.plan.groups, control.moved, names)),
        state=state,
        selection_said=selection_said,
        seen=seen_of_flow(both.flow, groups, homecoming.plan.groups),
        acls=acls if withdrawal.is_asked_for else None,
        both=both,
        tails=tails,
        held=facts.topics,
    )


def _transform_warnings(settings: FlowSettings, names: Names) -> Iterator[str]:
    """What a flow that changes records on the way cannot take back, as a sentence."""
    if settings.transforms.function or settings.transforms.steps:
        yield (
            f"{names.flow} changes records on the way or leaves them out: the failback undoes nothing of that; groups"
            f" find the source's own records on {names.source}, and the mirrors on {names.target} stay as they are"
        )


def _lists_groups(cluster: ClusterSettings) -> str:
    """How to list the groups of a cluster, as a sentence."""
    shown = shell_line(["kafka-consumer-groups", "--bootstrap-server", cluster.bootstrap_servers, "--list"])
    return f"`{shown}` lists the groups of {cluster.alias}"


def _control_of(both: BothWays, looked: HomeLook) -> ControlView:
    """The flow's control topic as it is now.

    Raises:
        RefusedError: Mirrors' names have changed in a flow that has topics, or no group can have left the source.
    """
    for flow, read in ((both.flow, looked.topics), (both.back, looked.read)):
        if flow.topics:
            settings = flow.clusters.settings
            run = settings if settings.enabled else settings.for_topics(read)  # as the engine would run it
            refuse_changed_names(run, flow.clusters.state.control(flow.identity), read)
    control = both.flow.clusters.state.control(both.flow.identity)
    if ever_ran(looked.mirrored.values()) or control.failed_over or control.moved:
        return control
    settings = both.flow.clusters.settings
    here, there = settings.source.alias, settings.target.alias
    raise RefusedError(
        f"flow {settings.name} never ran and moved no group: there is nothing to fail back to {here}",
        remedy=f"name the flow of the earlier failover; if that failover moved the groups to {here}, the flow is"
        f" -s {there} -t {here}",
        code=Reason.NEVER_RAN,
    )


def execute(
    rehearsal: FailbackRehearsal, context: OperationContext, *, folder: Path, writer: AppendPort | None = None
) -> Ended:
    """Execute a rehearsed failback.

    Args:
        rehearsal: A rehearsal whose plan can be executed.
        context: The ports of the operation; its destination is the flow's source.
        folder: The folder of the file with the diverged records.
        writer: Writes the diverged records into a topic; None if they go to a file.

    Raises:
        MmtoolError: The start could not be recorded; nothing was done.
    """
    salvage, both, to, found = None, rehearsal.both, rehearsal.plan.diverged, context.found
    if writer is not None:
        assert isinstance(to, ToTopic)
        salvage = DivergedTailWriter(
            both.flow, both.home, to.topic, writer, context.journal, rehearsal.plan.operation_id
        )
        if found is not None:
            salvage.begun, salvage.done = found.tail, dict(found.salvaged)
    cutover = Cutover.of(context, rehearsal.plan)
    steps = FailbackSteps(rehearsal, cutover, folder, salvage)
    # a topic that an emergency has marked keeps the emergency's mark until it is released
    marking = Marking(cutover, steps.marks, rehearsal.held)
    operation = Operation(rehearsal.plan, context.since)
    ended = run_steps(operation, cutover, steps.actions(), rehearsal.acls, (marking,))
    skipped = tuple(skipped_from(cutover.plans, steps.rehearsal.tails))
    return Ended(steps.rehearsal, ended, cutover, folder, skipped)


@dataclass(slots=True)
class FailbackSteps:
    """What each step does, and what it leaves for the next."""

    rehearsal: FailbackRehearsal
    cutover: Cutover
    folder: Path
    salvage: DivergedTailWriter | None
    groups: list[GroupFacts] = field(default_factory=list)

    def actions(self) -> dict[StepName, Callable[[], None]]:
        return {
            StepName.CHECK: self.check,
            StepName.DRAIN: self.drain,
            StepName.FIND: self.find,
            StepName.EXPORT: self.export,
            StepName.DRAIN_BACK: self.drain_back,
            StepName.TRANSLATE: self.translate,
            StepName.VALIDATE: self.validate,
            StepName.WRITE: self.write,
            StepName.READ_BACK: self.cutover.read_back,
            StepName.HAND_OVER: self.cutover.hand_over,
            StepName.RELEASE: lambda: release(self.cutover.context, self.rehearsal.plan.released),
            StepName.REPORT: lambda: None,
        }

    @property
    def both(self) -> BothWays:
        return self.rehearsal.both

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics of the source that are not mirrored during the failback."""
        return self.rehearsal.held

    @property
    def turned(self) -> Names:
        names = self.rehearsal.names
        return Names(names.target, names.source)

    def check(self) -> None:
        """Check that the groups have no members on either cluster, and that no other operation is open on them."""
        self.cutover.context.lock.join()
        self.groups = self._read()
        refuse(active_guards(self.groups, self.turned))
        flow, _ = look_for_added(self.both.flow, self.topics, self.cutover.context)
        back, _ = look_for_added(self.both.back, self.read, self.cutover.context)
        self._see(flow, back)
        self.cutover.giving_way()

    @property
    def read(self) -> frozenset[str]:
        """The topics that the groups read, and their state topics, on the flow's target."""
        return topics_of(self.groups) | set(self.rehearsal.plan.state)

    def _see(self, flow: FlowNow, back: FlowNow) -> None:
        self.rehearsal = replace(self.rehearsal, both=replace(self.both, flow=flow, back=back))

    def drain(self) -> None:
        """Drain the flow for topics that are not marked yet, so that none of their records diverge."""
        flow, _ = self._drain(self.both.flow, set(self.topics) - self.marks().keys(), [])
        self._see(flow, look_again(self.both.back))

    def marks(self) -> Mapping[str, FailedOverRecord]:
        """The marks in force, by topic of the source."""
        flow = self.both.flow
        return flow.clusters.state.control(flow.identity).failed_over

    def find(self) -> None:
        """Find the diverged tails again, now that the marked topics are not mirrored any more."""
        self.rehearsal = replace(self.rehearsal, tails=self._look().tails())

    def export(self) -> None:
        """Write the diverged tail to its file or its topic, as the plan says."""
        if self.salvage is None:
            self._into_file()
            return
        tails = self.rehearsal.tails
        self.salvage.write(tails, self._check_tail)
        self.rehearsal = replace(self.rehearsal, tails=self.salvage.whole(tails))

    def _check_tail(self, tails: FoundTails) -> None:
        """Check again that the diverged tail may be written, now that the topics are not mirrored any more."""
        refuse_topic(self.rehearsal.plan.diverged, self.both.flow, tails, self._look().taken)

    def _into_file(self) -> None:
        """Write the diverged tail to a new file; a complete file of the same failback is kept instead."""
        tails, name = self.rehearsal.tails, self.rehearsal.plan.operation_id
        if not tails.to_export:
            return
        path = self.folder / default_name(name)
        if path.exists() and read_export(path).holds(tails):
            return
        export_tail(
            self.both.home, tails, path, operation_id=name, source_cluster_id=str(self.rehearsal.source_id)
        )

    def drain_back(self) -> None:
        """Drain the reverse flow for the groups' topics and state topics, and prove the last state records."""
        back, until = self._drain(self.both.back, self.read, self.groups)
        self._see(look_again(self.both.flow), back)
        state = self.rehearsal.plan.state
        if readers := as_groups(until, state):
            partitions = partition_facts(back, Direction.FORWARD, topics=state, complete=True)
            ends = plans_by(back, readers, partitions, Rules(Direction.FORWARD))
            refuse(state_end_guards(ends, partitions, back.clusters.settings))
            prove(back, ends, partitions)

    def _drain(
        self, flow: FlowNow, topics: Collection[str], groups: list[GroupFacts]
    ) -> tuple[FlowNow, Mapping[TopicPartition, UpstreamOffset]]:
        return drain_all(
            flow, lambda now: drain_goal(groups, log_ends(now, topics)), topics, self.cutover.context
        )

    def _look(self) -> HomeLook:
        return HomeLook(self.both, self.groups, self.rehearsal.state)

    def translate(self) -> None:
        """Translate the commits by both flows' offset runs, given the diverged tails that were written."""
        rehearsal = self.rehearsal
        facts = self._look().facts(rehearsal.tails)
        plan = rehearsal.plan
        homecoming = plan_failback(plan.operation_id, rehearsal.names, facts, plan.diverged)
        refuse(state_guards(homecoming.state, rehearsal.names.source))
        tail_said = told(rehearsal.tails, homecoming, rehearsal.names)
        warnings = (*rehearsal.selection_said, *tail_said, *stay(facts, rehearsal.names))
        self.rehearsal = replace(rehearsal, warnings=warnings)
        self.cutover.plans = homecoming.plan.groups
        self.cutover.figures = replace(
            self.cutover.figures,
            rpo_records=0,
            reread_records=reread_of(self.cutover.plans),
            diverged_records=homecoming.diverged_records,
        )

    def validate(self) -> None:
        now = self._read()
        refuse(active_guards(now, self.turned))
        refuse(moved_meanwhile(self.groups, now, self.turned.source))
        self.cutover.validate()

    def write(self) -> None:
        refuse_added(self.both.back, self.read, self.cutover.context)
        clusters = self.both.flow.clusters
        bring_configs_of(self.cutover.plans, clusters.target, clusters.source)
        self.cutover.write()

    def _read(self) -> list[GroupFacts]:
        names = [plan.group for plan in self.rehearsal.plan.groups]
        return read_groups(self.both.flow, names, Direction.REVERSE, stable=True)
