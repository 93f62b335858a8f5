"""Show an operation: as a row of the output contract, as a table, and as the next commands."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import OwnedElsewhereError, RefusedError, StoppedError, remedied
from mmtool.failover.commits.write import Outcome
from mmtool.failover.diverged_tail.tail_writer import UnknownProgressError
from mmtool.failover.modes.cutover import ways_on as open_ways_on
from mmtool.failover.operation.operation import Operation
from mmtool.failover.operation.records import Figures
from mmtool.failover.operation.states import Event, OperationState
from mmtool.failover.report.reverse_config import reverse_flow
from mmtool.failover.report.rows import (
    Row,
    exactness,
    offset_in,
    offset_of,
    places,
    reread_expected,
    reread_max,
)
from mmtool.failover.report.skipped_tail import place_of_skipped, way_to_read_skipped
from mmtool.plain_text import group_options, shell_line
from mmtool.plan.failover.acl_rules import acl_command
from mmtool.plan.failover.choices import FenceKind, ToTopic
from mmtool.plan.failover.drill import shadowed
from mmtool.plan.failover.emergency import losses, total_expected
from mmtool.plan.failover.failover_plan import KNOWN_AFTER_DRAIN, drain_cures
from mmtool.plan.failover.fence_plan import lowering_commands
from mmtool.plan.failover.risks import Loss, total_loss
from mmtool.plan.failover.steps import Mode, topics_of
from mmtool.plan.groups.offsets import Direction, topic_names
from mmtool.plan.records.documents import OffsetKind
from mmtool.plan.words import AGAIN, ID_PLACEHOLDER, SHOWS_ID, are, clock_time, counted, few
from mmtool.translation.types import UNKNOWN, or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.errors import MmtoolError
    from mmtool.failover.modes.cutover import Cutover, Ended
    from mmtool.failover.modes.rehearsal import Rehearsal
    from mmtool.failover.operation.records import Recorded
    from mmtool.failover.report.operation_row import (
        CostsRow,
        LossRow,
        MovedGroupRow,
        MovedPartitionRow,
        OperationRow,
        StateTopicRow,
    )
    from mmtool.plan.failover.failover_plan import FailoverPlan
    from mmtool.plan.failover.fence_plan import Fence
    from mmtool.plan.failover.risks import Risk
    from mmtool.plan.groups.offsets import GroupPlan, Verdict
    from mmtool.translation.types import TopicPartition

_NAMED = 5
"""How many groups the next commands name; of more groups they name the first ones, or use ``--all-groups``."""

Places = frozenset[tuple[str, "TopicPartition"]]


@dataclass(frozen=True, slots=True)
class _View:
    """What a row is made of, wherever it was found.

    Attributes:
        operation: Its plan's groups are not looked at.
        groups: Offsets as far as they are known.
        risks: As in `FailoverPlan`.
        written: Groups and partitions whose new offset stands.
        settled: Groups of which it is known what stands.
        drained: Whether what a drain cures is cured.
    """

    operation: Operation
    groups: tuple[GroupPlan, ...]
    risks: Mapping[tuple[str, TopicPartition], Risk]
    written: Places = frozenset()
    settled: frozenset[str] = frozenset()
    figures: Figures = field(default_factory=Figures)
    drained: bool = False
    undo: str = ""


def rehearsed_row(rehearsal: Rehearsal) -> OperationRow:
    """The row of the output contract for a plan that was not executed."""
    plan = rehearsal.plan
    return _row(_View(Operation(plan), plan.groups, plan.risks, undo=_undo(plan)))


def ended_row(ended: Ended) -> OperationRow:
    """The row of the output contract for an operation that this process executed, successfully or not."""
    return operation_row(ended.operation, ended.cutover)


def operation_row(operation: Operation, cutover: Cutover) -> OperationRow:
    """The row of the output contract for an operation in progress, with the results so far."""
    plan = operation.plan
    written = frozenset((w.group, place) for w in cutover.results for place in w.written)
    return _row(
        _View(
            operation,
            cutover.plans or plan.groups,
            cutover.risks if cutover.plans else plan.risks,
            written,
            frozenset(w.group for w in cutover.results if not w.unknown),
            cutover.figures,
            bool(cutover.plans),
            _undo(plan, plan.operation_id),
        )
    )


def recorded_row(found: Recorded) -> OperationRow:
    """The row of the output contract for an operation from the journal, with its reason, operator and times."""
    plan = found.operation.plan
    stands = {} if found.state is OperationState.ROLLED_BACK else found.written
    written = frozenset((group, place) for group, of in stands.items() for place in of)
    row = _row(
        _View(
            found.operation,
            plan.groups,
            plan.risks,
            written,
            frozenset(found.written),
            found.figures,
            drained=True,
            undo=_undo(plan, plan.operation_id),
        )
    )
    return {
        **row,
        "reason": found.reason,
        "by": found.by,
        "began_at": clock_time(found.began_ms),
        "changed_at": clock_time(found.last_ms),
        "group_names": list(found.group_names),
        "problem": found.problem,
    }


def partition_rows(row: Row) -> list[Row]:
    """The operation's row flattened for the table and CSV: one row per group and partition.

    A drill's copies have the names of their groups.
    """
    groups: object = row["groups"]
    assert isinstance(groups, list)
    shared = {key: row[key] for key in ("operation_id", "mode", "state")}
    named = shadowed if row["mode"] == Mode.DRILL else str
    return [
        {**shared, "group": named(group["group"]), **partition}
        for group in groups
        for partition in group["partitions"]
    ]


def _row(view: _View) -> OperationRow:
    operation, figures = view.operation, view.figures
    is_emergency = operation.plan.mode is Mode.EMERGENCY
    lost = _loss(total_loss(losses(view.risks).values()) if is_emergency else Loss())
    return {
        "operation_id": operation.plan.operation_id,
        "mode": operation.plan.mode,
        "state": operation.standing.state,
        "point_of_no_return_passed": operation.point_of_no_return_passed,
        "flow": operation.plan.flow,
        "groups": [_group(plan, view) for plan in view.groups],
        "state_topics": _state_topics(operation.plan),
        "steps": [
            {"name": step.name, "state": operation.state_of(step), "sentence": step.sentence}
            for step in operation.plan.steps
        ],
        "promoted_acls": operation.plan.promotion.described,
        "rto_seconds": figures.rto_seconds,
        "lost_max": lost["lost_max"],
        "lost_min": lost["lost_min"],
        "source_seen_at": lost["source_seen_at"],
        "rpo_records": figures.rpo_records,
        "reread_records": figures.reread_records,
        "reread_expected": _expected(view),
        "diverged_records": figures.diverged_records,
        "undo": view.undo,
    }


def _state_topics(plan: FailoverPlan) -> list[StateTopicRow]:
    """The state topics that the plan moves, with their lag relative to the committed offsets where it was measured."""
    lags = {lag.topic.name: lag for lag in plan.lags}
    return [
        {
            "topic": name,
            "records_behind": None if name not in lags else or_none(lags[name].lost.most),
            "seconds_ahead": None if name not in lags else or_none(lags[name].ahead_seconds),
        }
        for name in plan.state
    ]


def _expected(view: _View) -> int | None:
    """Records that all groups are expected to read again; None if unknown for a partition, or before the drain."""
    if view.operation.plan.mode is not Mode.EMERGENCY and view.figures.reread_records is None:
        return None
    costs = [_costs(plan, verdict, view) for plan in view.groups for verdict in plan.verdicts]
    places = [cost["reread_expected"] for cost in costs if cost["reread_max"] is not None]
    known = [number for number in places if isinstance(number, int)]
    return sum(known) if len(known) == len(places) else None


def _group(plan: GroupPlan, view: _View) -> MovedGroupRow:
    return {
        "group": plan.group,
        "partitions": [_partition(plan, verdict, view) for verdict in plan.verdicts],
    }


def _partition(plan: GroupPlan, verdict: Verdict, view: _View) -> MovedPartitionRow:
    waits = not view.drained and drain_cures(verdict) and view.operation.plan.mode is not Mode.EMERGENCY
    place = plan.written_to(verdict)
    read, led = offset_in(verdict.commit), offset_of(verdict)
    upstream, downstream = (read, led) if plan.direction is Direction.FORWARD else (led, read)
    return {
        **places(verdict),
        "upstream_offset": upstream,
        "target_topic": verdict.target and verdict.target.topic,
        "downstream_offset": downstream,
        "exactness": None if waits else exactness(verdict),
        **_costs(plan, verdict, view),  # type: ignore[typeddict-item]  # keys of a rollback's rehearsal come later
        "target_offset_before": offset_in(verdict.before),
        "written": _is_written(plan.group, place, view),
        "reason": KNOWN_AFTER_DRAIN if waits else verdict.refusal or "",
        "detail": "" if waits else plan.why(verdict),
        "offsets": OffsetKind.of(verdict.same_offsets),
    }


def _is_written(group: str, place: TopicPartition | None, view: _View) -> bool | None:
    """Whether a partition's new offset is stored; None if it was sent and the result is unknown."""
    if place is not None and view.operation.may_have_written and group not in view.settled:
        return None
    return place is not None and (group, place) in view.written


def _costs(plan: GroupPlan, verdict: Verdict, view: _View) -> CostsRow:
    if view.operation.plan.mode is not Mode.EMERGENCY or verdict.source is None:
        return {
            "reread_max": reread_max(verdict),
            "reread_expected": reread_expected(verdict),
            **_loss(Loss(0) if verdict.refusal is None else Loss()),
            # commits are asked of the living source, by the same run that writes them
            "knowledge_age_seconds": None if verdict.commit is None else 0,
        }
    risk = view.risks.get((plan.group, verdict.source))
    if risk is None:
        return {
            "reread_max": None,
            "reread_expected": None,
            **_loss(Loss()),
            "knowledge_age_seconds": None,
        }
    return {
        "reread_max": or_none(risk.reread),
        "reread_expected": or_none(risk.expected),
        **_loss(risk.lost),
        "knowledge_age_seconds": or_none(risk.age_seconds),
    }


def _loss(loss: Loss) -> LossRow:
    seen_at = None if loss.seen_ms is UNKNOWN else clock_time(loss.seen_ms)
    return {"lost_max": or_none(loss.most), "lost_min": loss.least, "source_seen_at": seen_at}


def _undo(plan: FailoverPlan, operation_id: str = ID_PLACEHOLDER) -> str:
    where = plan.way.target
    back = (
        f"as long as no consumer of the groups has started on {where}, `mmtool failover rollback {operation_id} -c FILE"
        f" --execute` restores their previous offsets on {where}"
    )
    if plan.mode is Mode.PLANNED:
        lifts = " and lifts the fence" if plan.fence.asked_for else ""
        return (
            f"{back}{lifts}; then start the consumers on {plan.way.source}: their commits there are unchanged"
        )
    if plan.mode is Mode.FAILBACK:
        return f"{back}; it removes no diverged record that the failback has written"
    if plan.mode is Mode.DRILL:
        return "nothing to undo: a drill deletes its copies of the groups"
    return f"{back}, and lets `mmtool replicate` mirror the topics again"


def summary(ended: Ended) -> str:
    """A one-line summary of a successful operation: groups, offsets, loss, re-reads, duration; empty for others."""
    cutover, figures = ended.cutover, ended.cutover.figures
    if ended.operation.error is not None or figures.rto_seconds is None:
        return ""
    words = Counter(exactness(v) for plan in cutover.plans for v in plan.verdicts if v.refusal is None)
    kinds = "exact" if set(words) <= {"exact"} else f"{words['exact']} exact, {words['bounded']} bounded"
    kinds = f", {kinds}" if words else ""
    done = "drill: moved copies of" if ended.rehearsal.plan.mode is Mode.DRILL else "moved"
    left = [plan.group for plan in cutover.plans if not plan.to_write()]
    moved = f"{done} {counted(len(cutover.plans) - len(left), 'group')}, {counted(words.total(), 'offset')}{kinds}"
    if not words:
        return f"nothing was moved: no offset to move of {few(left)}"
    unmoved = f"; not moved, without an offset to move: {few(left)}" if left else ""
    return f"{moved}{unmoved}; {_price(ended)}; {figures.rto_seconds:.1f} s"


def _price(ended: Ended) -> str:
    figures = ended.cutover.figures
    lost, again = figures.rpo_records, figures.reread_records
    if ended.rehearsal.plan.mode is Mode.EMERGENCY:
        risks = ended.cutover.risks
        loss = total_loss(losses(risks).values()).words(ended.rehearsal.names.source)
        expected = total_expected(risks.values())
        likely = "" if expected is UNKNOWN else f" ({expected:,} expected)"
        most = f"at most {again:,}" if again else again
        return f"{loss} lost, {most} read again{likely}"
    if ended.rehearsal.plan.mode is Mode.FAILBACK:
        number, target = figures.diverged_records or 0, ended.rehearsal.names.target
        never = f"{counted(number, 'record')} that never reached {target} {are(number)}"
        if place := place_of_skipped(ended):
            it = "it is" if number == 1 else "they are"
            return f"{never} skipped: {it} in {place}; {lost} other records lost, {again} read again"
        more = f"; {never} replayed" if number else ""
        return f"{lost} records lost, {again} read again{more}"
    names, behind = ended.rehearsal.names, figures.diverged_records
    late = (
        f"; {counted(behind or 0, 'record')} produced on {names.source} after the groups had stopped, not yet on"
        f" {names.target}"
    )
    return f"{lost} records lost, {again} read again{late if behind else ''}"


@dataclass(frozen=True, slots=True)
class NextStep:
    """What an operator does next.

    Attributes:
        sentence: What to do.
        commands: The commands that do it.
    """

    sentence: str
    commands: tuple[str, ...] = ()


def next_steps(ended: Ended, given: Sequence[str] = ()) -> list[NextStep]:
    """What the operator does after a successful operation, in order.

    Args:
        ended: The operation, which has succeeded.
        given: ``-c``, ``-s`` and ``-t`` as the command was given them.
    """
    settings, names = ended.rehearsal.settings, _moved(ended)
    home = ended.rehearsal.plan.mode is Mode.FAILBACK
    bootstrap = (settings.source if home else settings.target).bootstrap_servers
    some = len(names) <= _NAMED
    described = [word for name in names for word in ("--group", name)] if some else ["--all-groups"]
    watch = ["kafka-consumer-groups", "--bootstrap-server", bootstrap, "--describe", *described]
    start = f"start the consumers of {few(names, _NAMED)} with bootstrap.servers={bootstrap}{_renamed(ended)}"
    first = [NextStep(start), NextStep("watch their lag:", (shell_line(watch),))]
    if ended.rehearsal.plan.mode is Mode.EMERGENCY:
        return [*first, *_after_emergency(ended, settings, given)]
    if ended.rehearsal.plan.mode is Mode.DRILL:
        return []
    if home:
        skipped = [NextStep(*way_to_read_skipped(ended, bootstrap))] if place_of_skipped(ended) else []
        return [*skipped, *first, NextStep(_after_failback(ended))]
    if ended.rehearsal.plan.fence.asked_for:
        return [*first, *_after_fence(ended, settings, given)]
    return [*first, *_after_planned(ended, settings, given)]


def _after_failback(ended: Ended) -> str:
    released, names = ended.rehearsal.plan.released, ended.rehearsal.names
    if not released:
        topics = few(topics_of(ended.cutover.plans))
        if not topics:
            return f"leave `mmtool replicate` as it is: these groups read no topic that {names.flow} mirrors"
        return (
            f"also fail back the other groups that read {topics} on {names.target}: until then {names.flow} does not"
            f" mirror {topics}"
        )
    return f"keep `mmtool replicate` running: {names.flow} mirrors {few(released)} again"


def _after_planned(ended: Ended, settings: FlowSettings, given: Sequence[str]) -> list[NextStep]:
    here, there = settings.source.alias, settings.target.alias
    return [
        *_promoted(ended, settings),
        NextStep(f"keep `mmtool replicate` running while producers still write to {here}"),
        _rollback(ended, f"before their consumers start on {there}", given),
    ]


def _rollback(ended: Ended, while_possible: str, given: Sequence[str]) -> NextStep:
    fence, arguments = ended.rehearsal.plan.fence, shell_line([ended.rehearsal.plan.operation_id, *given])
    lifts = " and lift the fence" if fence.asked_for and fence.kind is not FenceKind.WATCH else ""
    return NextStep(
        f"to restore the groups' previous offsets{lifts}, {while_possible}:",
        (f"mmtool failover rollback {arguments} --execute",),
    )


def _promoted(ended: Ended, settings: FlowSettings) -> list[NextStep]:
    """The step that starts producers whose ACLs were promoted; empty without a promotion."""
    promotion, there = ended.rehearsal.plan.promotion, settings.target
    if not promotion.granted_on:
        return []
    may = f"{few(promotion.granted_to)} may write {few(promotion.granted_on)} on {there.alias}"
    return [
        NextStep(f"{may}: to move the producers, start them with bootstrap.servers={there.bootstrap_servers}")
    ]


def _meant(ended: Ended, settings: FlowSettings, given: Sequence[str]) -> str:
    """Command-line options that name the flow and the moved groups."""
    names = _moved(ended)
    groups = group_options(names) if len(names) <= _NAMED else ["--all-groups"]
    flow = ["-s", settings.source.alias, "-t", settings.target.alias]
    return shell_line([*(given[:2] if "-c" in given else ()), *flow, *groups])


def _after_fence(ended: Ended, settings: FlowSettings, given: Sequence[str]) -> list[NextStep]:
    """The next commands after a failover with a fence: the producers move to the target too."""
    there, fence = settings.target, ended.rehearsal.plan.fence
    topics = few(fence.topics) or "the groups' topics"
    return [
        NextStep(f"start the producers of {topics} with bootstrap.servers={there.bootstrap_servers}"),
        _what_stays(fence, settings),
        _rollback(ended, f"before clients continue on {there.alias}", given),
    ]


def fence_left(found: Recorded, settings: FlowSettings) -> list[NextStep]:
    """A sentence on how to lift a fence that may still be up; empty if the operation has none."""
    return [_what_stays(found.head.plan.fence, settings)] if found.fence_stands else []


def acls_left(found: Recorded, settings: FlowSettings) -> list[NextStep]:
    """A sentence on how to undo a change of producers' ACLs by hand; empty if the operation made none."""
    promotion, there = found.head.plan.promotion, settings.target
    if not found.promotion_stands or not promotion.acls:
        return []
    said = (
        f"the operation removed the ACLs of producers on {there.alias}; if these producers must write there again"
        " without a rollback, an administrator creates the ACLs with:"
        if promotion.withdraws
        else f"the operation created ACLs for producers on {there.alias}; if these producers must not write there any"
        " more, an administrator removes the ACLs with:"
    )
    servers, adds = there.bootstrap_servers, promotion.withdraws
    commands = tuple(acl_command(acl, servers, adds=adds) for acl in promotion.acls)
    return [NextStep(said, commands)]


def tail_left(found: Recorded) -> tuple[str, ...]:
    """Sentences that diverged records may be written in part, and how to end an older mmtool's replay; may be empty."""
    if found.tail is None:
        return ()
    names, diverged = found.names, found.head.plan.diverged
    where = f"topic {diverged.topic} of {names.source}" if isinstance(diverged, ToTopic) else names.target
    written = f"some of {counted(found.tail.records, 'diverged record')} may already be written to {where}"
    return (written, open_ways_on(found)) if found.half_replayed else (written,)


def _what_stays(fence: Fence, settings: FlowSettings) -> NextStep:
    here = settings.source
    match fence.kind:
        case FenceKind.ACL if fence.denies:
            commands = tuple(lowering_commands(fence.denies, here.bootstrap_servers))
            return NextStep(
                f"the fence on {here.alias} stays; before producers write to {here.alias} again, an administrator lifts"
                " it with:",
                commands,
            )
        case FenceKind.HOOK:
            hook = settings.hooks.get("fence", "mmtool.hook.fence")
            return NextStep(f"the fence that the hook {hook} raised on {here.alias} stays until you lift it")
        case _:
            topics = few(fence.topics) or "the groups' topics"
            return NextStep(f"keep the producers of {topics} on {here.alias} stopped: no ACL stops them")


def reverse_lines(ended: Ended) -> list[str]:
    """Properties of the reverse flow after a failover that moved producers; empty if the file has that flow."""
    fence = ended.rehearsal.plan.fence
    if not fence.asked_for or ended.operation.error is not None:
        return []
    return reverse_flow(ended.rehearsal.settings, fence.topics, _moved(ended))


def _after_emergency(ended: Ended, settings: FlowSettings, given: Sequence[str]) -> list[NextStep]:
    here, there = settings.source.alias, settings.target.alias
    back = f"mmtool failover failback {_meant(ended, settings, given)}"
    flow = [*(given[:2] if "-c" in given else ()), "-s", here, "-t", there]
    stay = f"mmtool failover release {shell_line([*flow, '--execute'])}"
    return [
        NextStep(
            f"let producers write to {there}; when {here} returns, keep the consumers on {here} stopped"
        ),
        NextStep(
            f"when {here} returns, rehearse the failback, and add --execute to move the groups back to {here}:",
            (back,),
        ),
        NextStep(
            f"or, if the groups stay on {there}, let `mmtool replicate` mirror the topics of {here} again:",
            (stay,),
        ),
    ]


def ways_on(
    operation: Operation, given: Sequence[str] = (), may: Callable[[Event], bool] | None = None
) -> list[NextStep]:
    """The commands that can continue or end an operation, each with a sentence: resume, cancel, rollback.

    Empty for an operation that was refused because another one is open or runs: it has done nothing.

    Args:
        operation: The operation in its current state.
        given: ``-c``, ``-s`` and ``-t`` as the command was given them.
        may: Whether an event is allowed; by default, by the state table.
    """
    error = operation.error
    refused = isinstance(error, RefusedError) and error.code == "open_operation"
    if refused or isinstance(error, OwnedElsewhereError):
        return []
    arguments = shell_line([operation.plan.operation_id, *given, "--execute"])
    return [
        NextStep(f"{_way_on(event, operation)}:", (f"mmtool failover {verb} {arguments}",))
        for event, verb in _WAYS_ON.items()
        if (may or operation.may)(event)
        and not (event is Event.RESUME and isinstance(error, UnknownProgressError))
    ]


_WAYS_ON = {Event.RESUME: "resume", Event.CANCEL: "cancel", Event.ROLL_BACK: "rollback"}


def _way_on(event: Event, operation: Operation) -> str:
    """What the command of an event does, and when an operator wants that."""
    match event, operation.standing.state:
        case Event.RESUME, OperationState.FAILED if not isinstance(operation.error, StoppedError):
            return "when the cause is removed, complete the operation"
        case Event.RESUME, _:
            return "complete the operation"
        case Event.CANCEL, _:
            return "end the operation and undo its preparations"
        case _ if operation.plan.mode is Mode.DRILL:
            return "delete the copies of the groups"
        case _, OperationState.COMPLETED:
            return "to undo the operation, restore the groups' previous offsets"
        case _:
            return "restore the groups' previous offsets"


def error_of(operation: Operation) -> MmtoolError | None:
    """The error that ended an operation; its remedy names `failover resume` in place of "the same command again".

    A resumed operation checks and plans everything again, also where a second start from the saved plan is refused.
    """
    error, name = operation.error, operation.plan.operation_id
    if error is None:
        return None
    remedy = error.remedy.replace(SHOWS_ID, "").replace(ID_PLACEHOLDER, name)
    if ways_on(operation) and operation.may(Event.RESUME):
        remedy = remedy.replace(AGAIN, f"run `mmtool failover resume {name} -c FILE --execute`")
    return error if remedy == error.remedy else remedied(error, remedy)


def _moved(ended: Ended) -> list[str]:
    return [w.group for w in ended.cutover.results if w.outcome is Outcome.WRITTEN]


def _renamed(ended: Ended) -> str:
    """The topic names that the moved consumers subscribe to, as a sentence; empty if the names stay."""
    pairs = topic_names(ended.cutover.plans)
    beside = "and" if ended.rehearsal.plan.moves_producers else "instead of"
    changed = [f"{there} {beside} {here}" for here, there in pairs if here != there]
    return f"; they must subscribe to {', and '.join(changed)}" if changed else ""
