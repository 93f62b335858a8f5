"""Drain a flow up to the source's end, by mmtool's engine or MirrorMaker 2, and prove the next records before a commit.

A  partitions and topics that are added while an operation runs are drained too; those added after the drain end it
S  a saved plan is stale once partitions are added to the topics that its groups read
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mmtool.errors import GateError, RefusedError
from mmtool.failover.modes.rehearsal import names_of
from mmtool.failover.report.plan_file import refuse_stale
from mmtool.insight.applications import copy_loss, mirror_again
from mmtool.insight.flow_progress import copied_by_mm2, short_of
from mmtool.insight.translation import look_again
from mmtool.kafka.ports import LogPart
from mmtool.plan.failover.risks import Guard
from mmtool.plan.failover.steps import MOST_PROVEN
from mmtool.plan.flow.moves import by_other_system
from mmtool.plan.groups.applications import end_loss, or_without_state
from mmtool.plan.groups.offsets import Direction
from mmtool.plan.words import AGAIN, are, counted, few, flow_options, then
from mmtool.translation.answers import Exact, Knowledge, Reason
from mmtool.translation.types import UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.failover.modes.cutover import OperationContext
    from mmtool.insight.flow_now import FlowNow
    from mmtool.plan.groups.offsets import GroupPlan, PartitionFacts
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.runs import Mirrored
    from mmtool.translation.types import TopicId, TopicPartition


class Boundary(NamedTuple):
    """One commit on the source, and the records next to it.

    Attributes:
        known: The map; it has the ids of the topics as they were mirrored: a recreated topic of the same name proves
            nothing.
        records: The one before and the one after, as far as the mirror has them.
    """

    known: PartitionMap
    target: TopicPartition
    commit: UpstreamOffset
    records: tuple[Mirrored, ...]

    @property
    def source(self) -> TopicPartition:
        return self.known.about.upstream

    @property
    def target_id(self) -> TopicId:
        return self.known.about.target_topic_id


def boundaries(
    plans: Iterable[GroupPlan], partitions: Mapping[TopicPartition, PartitionFacts], most: int
) -> list[Boundary]:
    """The boundary of each exact offset by offset runs, once each; of more than ``most``, evenly chosen ones."""
    wanted = {
        (verdict.source, verdict.commit.offset)
        for plan in plans
        if plan.direction is Direction.FORWARD
        for verdict in plan.verdicts
        if verdict.knowledge is Knowledge.OFFSET_RUNS and isinstance(verdict.answer, Exact)
        if verdict.source is not None and verdict.commit is not None and verdict.refusal is None
    }
    known = []
    for place, offset in sorted(wanted):
        facts, commit = partitions.get(place), UpstreamOffset(offset)
        if facts is None or facts.map is None or facts.then is not None:
            continue
        if records := tuple(record for record in facts.map.runs.around(commit) if record is not None):
            known.append(Boundary(facts.map, facts.target, commit, records))
    return known if len(known) <= most else [known[n * len(known) // most] for n in range(most)]


def refuse_missing(flow: FlowSettings, missing: int, when: str, again: str = "") -> None:
    """Raise if the target still lacks records after a drain, as those of a halted partition; return if none is missing.

    Args:
        flow: The flow.
        missing: How many offsets are missing at most.
        when: The moment at which the source held these records, as ``when the drill began``.
        again: The command that checks again; the same command by default.

    Raises:
        GateError: ``missing`` is not 0.
    """
    if not missing:
        return
    source, target = flow.source.alias, flow.target.alias
    if flow.is_external:  # the drain has waited until the mirrors held everything
        replicate = f"`mmtool replicate {flow_options(source, target)}`"
        raise GateError(
            f"mmtool has not noted that {target} holds every record that {source} held {when}: up to"
            f" {counted(missing, 'record')} may be missing; no offset was committed",
            remedy=then(f"start {replicate}, which notes how far the mirrors are", again or AGAIN),
        )
    shown = f"see with `mmtool status -c FILE -s {source} -t {target}` which partition is halted or lags"
    todo = f"{shown}, and remove the cause"
    raise GateError(
        f"{target} does not hold every record that {source} held {when}: up to"
        f" {counted(missing, 'record')} {are(missing)} missing; no offset was committed",
        remedy=then(todo, again) if again else then(todo),
    )


def drain_all(
    flow: FlowNow,
    goal: Callable[[FlowNow], Mapping[TopicPartition, UpstreamOffset]],
    topics: Collection[str],
    context: OperationContext,
) -> tuple[FlowNow, Mapping[TopicPartition, UpstreamOffset]]:
    """Drain a flow, and drain it again as long as partitions are added to these topics meanwhile.

    Args:
        flow: The flow, as it was last read.
        goal: Returns the end offset of each source partition.
        topics: The topics that the operation needs, by their names on the flow's source.
        context: The ports of the operation.

    Returns:
        The flow as it was read after the drain, and the end offsets that were reached.

    Raises:
        As `DrainPort` and `look_for_added`.
        GateError: MM2 stopped before all records were copied.
    """
    while True:
        until = goal(flow)
        _bring_up(flow, until, context)
        flow, added = look_for_added(flow, topics, context)
        if not added:
            return flow, until


def look_for_added(
    flow: FlowNow, topics: Collection[str], context: OperationContext
) -> tuple[FlowNow, Sequence[TopicPartition]]:
    """The flow as it is now, and the partitions that were added to these topics of its source since it was read.

    Raises:
        StalePlanError: Partitions were added since the plan was saved.
        UnreachableError, NotAuthorisedError: A cluster does not answer, or denies a request.
    """
    now, known = look_again(flow), set(flow.partitions)
    added = [place for place in now.partitions if place.topic in topics and place not in known]
    if context.is_saved:
        refuse_stale(context.operation_id, [_added_on(flow, [place]) for place in added])
    return now, added


def refuse_added(flow: FlowNow, topics: Collection[str], context: OperationContext) -> None:
    """Raise if partitions were added to these topics since the flow was drained; ask before the first commit.

    Raises:
        RefusedError: Partitions were added: the target may lack their records.
        As `look_for_added`.
    """
    _, added = look_for_added(flow, topics, context)
    if added:
        raise RefusedError(
            f"{_added_on(flow, added)} after the mirror had caught up; no offset was committed",
            remedy=then(""),
            code="partitions_added",
        )


def _added_on(flow: FlowNow, added: Sequence[TopicPartition]) -> str:
    were = "was" if len(added) == 1 else "were"
    return f"{counted(len(added), 'partition')} ({few(added)}) {were} added on {flow.clusters.source.alias}"


def _bring_up(
    flow: FlowNow, until: Mapping[TopicPartition, UpstreamOffset], context: OperationContext
) -> None:
    """Return once all records below these source offsets are on the target.

    If the file does not enable the flow, the engine runs it for the topics of these partitions alone. Partitions that
    MM2 copies have no frontier to watch: there `short_of` tells how many records are missing.
    """
    settings, theirs = flow.clusters.settings, copied_by_mm2(flow, until)
    if not settings.enabled:
        settings = settings.for_topics({place.topic for place in until})
    ours = {place: offset for place, offset in until.items() if place not in theirs}
    if ours:
        context.drain.drain(settings, ours, context.drain_seconds)
    if not theirs:
        return
    missing = partial(short_of, flow, theirs)
    left = context.drain.await_mirror_maker(settings, missing, context.drain_seconds)
    if left:
        # our engine would begin anew behind MM2's copies, and all would be there twice
        raise GateError(
            f"MirrorMaker 2 mirrored flow {settings.name} and no longer runs: up to"
            f" {counted(left, 'record')} {are(left)} missing on {settings.target.alias}; no offset was committed",
            remedy="start MirrorMaker 2 again, or take the flow over with `mmtool replicate --take-over"
            f" -c FILE -s {settings.source.alias} -t {settings.target.alias}`; then run the same command again",
        )


def prove(
    flow: FlowNow, plans: Iterable[GroupPlan], partitions: Mapping[TopicPartition, PartitionFacts]
) -> None:
    """Compare the records next to translated offsets on both clusters, by key, value and headers.

    Records that one of the logs has deleted or compacted meanwhile cannot be compared.

    Raises:
        RefusedError: Two records differ: the translated offset is wrong.
        UnreachableError, NotAuthorisedError: A log cannot be read.
    """
    parts = [
        (
            boundary,
            record,
            source,
            LogPart(boundary.target, boundary.target_id, range(record.downstream, record.downstream + 1), 1),
        )
        for boundary in boundaries(plans, partitions, MOST_PROVEN)
        for record in boundary.records
        if (source := flow.clusters.part_of(boundary.known, range(record.upstream, record.upstream + 1), 1))
    ]
    committed, names = flow.clusters.settings.reads_committed, names_of(flow.clusters.settings)
    here = flow.clusters.source.records([source for *_, source, _ in parts], committed=committed)
    there = flow.clusters.target.records([target for *_, target in parts], committed=committed)
    for boundary, record, source, target in parts:
        if not here[source] or not there[target]:
            continue
        ours, theirs = here[source][0].digest, there[target][0].digest
        if ours != theirs:
            raise RefusedError(
                f"near offset {boundary.commit} of {boundary.source} on {names.source}, the record at {record.upstream}"
                f" differs from the record at {record.downstream} of {boundary.target} on {names.target} (SHA-256"
                f" {ours.hex()[:12]} and {theirs.hex()[:12]}); no offset was committed",
                remedy=compare_again(
                    flow.clusters.settings, boundary.source, boundary.target, "run the same command again"
                ),
                code="boundary_differs",
            )


def state_end_guards(
    ends: Iterable[GroupPlan], partitions: Mapping[TopicPartition, PartitionFacts], flow: FlowSettings
) -> tuple[Guard, ...]:
    """A guard for each state topic whose last record the flow's target does not hold.

    Args:
        ends: Plans of a reader whose commits are the drain's end offsets in each state topic.
        partitions: The partition facts of these plans, by source partition.
        flow: The flow that mirrors the state to the applications' destination.
    """
    guards, target, names = [], flow.target.alias, names_of(flow)
    for verdict in (verdict for plan in ends for verdict in plan.blocking):
        reason, source = verdict.refusal, verdict.source
        assert source is not None, "a verdict on a source partition"
        assert reason is not None, "a blocking verdict"
        known = partitions.get(source)
        if known is None:  # the topic was recreated on the source with fewer partitions
            loss = end_loss(reason, names, None)
        else:
            loss = copy_loss(known, flow) or end_loss(reason, names, partial(mirror_again, known, flow))
        sentence = f"the state in {source} is not on {target}: {loss.why}"
        guards.append(Guard(Reason.STATE_NOT_MIRRORED, sentence, or_without_state(loss.remedy, target)))
    return tuple(guards)


def compare_again(flow: FlowSettings, source: TopicPartition, target: TopicPartition, again: str) -> str:
    """The remedy for a mirror with other records than its source; ``again`` is what to do at last."""
    names = names_of(flow)
    cause = f"another producer wrote into {target.topic} on {names.target}, or a topic was recreated:"
    if flow.is_external:
        return f"{cause} stop that producer, and {by_other_system(source.topic, names.target)}; then {again}"
    return (
        f"{cause} stop that producer and `mmtool replicate`, run `mmtool flow rebuild -c FILE -s {names.source}"
        f" -t {names.target} --topic {source.topic} --execute`, which compares both logs again, and start `mmtool"
        f" replicate` again; then {again}"
    )
