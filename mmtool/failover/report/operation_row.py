"""The row of an operation in the output contract, as every verb of ``mmtool failover`` prints it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NotRequired, TypedDict

from mmtool.failover.operation.operation import Operation, StepState
from mmtool.failover.operation.records import Figures
from mmtool.failover.operation.states import OperationState
from mmtool.failover.report.rows import (
    Exactness,
    ImportedRow,
    PlaceRow,
    Row,
    exactness,
    offset_in,
    offset_of,
    places,
    reread_expected,
    reread_max,
)
from mmtool.plan.failover.acl_rules import AclRow
from mmtool.plan.failover.drill import shadowed
from mmtool.plan.failover.emergency import losses
from mmtool.plan.failover.failover_plan import KNOWN_AFTER_DRAIN, drain_cures
from mmtool.plan.failover.risks import Loss, total_loss
from mmtool.plan.failover.steps import Mode, StepName
from mmtool.plan.groups.facts import GroupKind
from mmtool.plan.groups.offsets import Direction
from mmtool.plan.records.documents import OffsetKind
from mmtool.plan.words import ID_PLACEHOLDER, clock_time
from mmtool.translation.types import UNKNOWN, or_none

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.failover.modes.cutover import Cutover, Ended
    from mmtool.failover.modes.rehearsal import Rehearsal
    from mmtool.failover.operation.records import Recorded
    from mmtool.plan.failover.failover_plan import FailoverPlan
    from mmtool.plan.failover.risks import Risk
    from mmtool.plan.groups.offsets import GroupPlan, OffsetVerdict
    from mmtool.translation.types import TopicPartition

Places = frozenset[tuple[str, "TopicPartition"]]


class LossRow(TypedDict):
    """The records that an emergency loses.

    Attributes:
        lost_max: Records that are lost at most; null if unknown, as when the source was not seen for some seconds.
        lost_min: Records that are lost at least: the source was seen to hold them.
        source_seen_at: When the source's end of the partition was last seen, or, for the whole operation, that of a
            partition whose loss is unknown; null where it was never seen, and outside of an emergency.
    """

    lost_max: int | None
    lost_min: int
    source_seen_at: datetime | None


class CostsRow(LossRow):
    """What moving a partition of a group costs.

    Attributes:
        reread_max: Records that the group reads again at most; null without a new offset.
        reread_expected: Records that the group is expected to read again, by its commit rate; null if unknown.
        knowledge_age_seconds: The age of the group's committed offset as mmtool knows it; null if unknown.
    """

    reread_max: int | None
    reread_expected: int | None
    knowledge_age_seconds: float | None


class MovedPartitionRow(PlaceRow, CostsRow):
    """One partition of a group that an operation moves.

    Attributes:
        upstream_offset: On the flow's source: committed there; in a failback the new offset.
        target_topic: The topic's name on the flow's target.
        downstream_offset: On the flow's target: the new offset; in a failback committed there. Null before the drain.
        exactness: How far the new offset is certain; null if known only after the drain.
        target_offset_before: Committed on the destination before the operation.
        written: Whether the new offset is stored; null if it was sent and the result is unknown.
        reason: Why the partition has no new offset, or cannot be restored; empty otherwise.
        detail: The reason as a sentence.
        offsets: Whether mirrored records have their source's offsets on the target.
        current_offset: Committed now on the destination; in the rehearsal of a rollback. Null without a commit.
        restored_offset: What the rollback commits there; null where it deletes the commit.
    """

    upstream_offset: int | None
    target_topic: str | None
    downstream_offset: int | None
    exactness: Exactness | None
    target_offset_before: int | None
    written: bool | None
    reason: str
    detail: str
    offsets: OffsetKind
    current_offset: NotRequired[int | None]
    restored_offset: NotRequired[int | None]


class MovedGroupRow(TypedDict):
    """One group that an operation moves.

    Attributes:
        group: Its name.
        target_group: Its name on the flow's target.
        kind: Its kind.
        partitions: Of its topics.
    """

    group: str
    target_group: str
    kind: GroupKind
    partitions: list[MovedPartitionRow]


class StateTopicRow(TypedDict):
    """A state topic of Kafka Streams that an operation moves with its application.

    Attributes:
        topic: Its name on the source.
        records_behind: Records that the source was seen to hold and the target lacks, at most; null where not measured.
        seconds_ahead: How many seconds newer its known end is than the group's known offsets, at most; negative if it
            is older; null where not measured.
    """

    topic: str
    records_behind: float | None
    seconds_ahead: float | None


class StepRow(TypedDict):
    """One step of an operation.

    Attributes:
        name: Its name.
        state: How far it is.
        sentence: What it does.
    """

    name: StepName
    state: StepState
    sentence: str


class OperationRow(LossRow):
    """One operation: a failover, failback or drill.

    Attributes:
        operation_id: Its id.
        mode: Its kind.
        state: Where it stands; see the states of a failover.
        point_of_no_return_passed: Whether an offset may have been written.
        flow: `source->target`.
        groups: The groups that it moves.
        state_topics: The state topics of Kafka Streams that it moves.
        steps: Its steps, in order.
        promoted_acls: ACLs of producers that it creates or removes.
        rto_seconds: From its start to the last offset read back; null where not measured.
        rpo_records: Records lost at most; null if unknown.
        reread_records: Records that all groups read again at most; null if unknown.
        reread_expected: Records that all groups are expected to read again, by their commit rates; null if unknown.
        diverged_records: Records on the source that are not on the target; in a failback the diverged records that the
            groups skip. Null where not measured.
        undo: How to undo it, as a sentence.
        reason: The reason that the operator gave; in `failover list` and `show`.
        by: The operator, as `user@host`; in `failover list` and `show`.
        began_at: When it began; in `failover list` and `show`.
        changed_at: When its journal was last written; in `failover list` and `show`.
        group_names: The names of its groups, also before any is planned; in `failover list` and `show`.
        problem: The error with which it ended; empty without one; in `failover list` and `show`.
        records_read: How many records, read from the new offsets on, are identical on both clusters; of a drill.
        lag_records_before: The mirror's lag before a drill; null if unknown.
        emergency_rpo_records: Records that an emergency failover would have lost when the drill began; null if unknown.
        emergency_knowledge_age_seconds: The age of the oldest checkpoint when the drill began; null if unknown.
    """

    operation_id: str
    mode: Mode
    state: OperationState
    point_of_no_return_passed: bool
    flow: str
    groups: list[MovedGroupRow]
    state_topics: list[StateTopicRow]
    steps: list[StepRow]
    promoted_acls: list[AclRow]
    rto_seconds: float | None
    rpo_records: int | None
    reread_records: int | None
    reread_expected: int | None
    diverged_records: int | None
    undo: str
    reason: NotRequired[str]
    by: NotRequired[str]
    began_at: NotRequired[datetime | None]
    changed_at: NotRequired[datetime | None]
    group_names: NotRequired[list[str]]
    problem: NotRequired[str]
    records_read: NotRequired[int]
    lag_records_before: NotRequired[int | None]
    emergency_rpo_records: NotRequired[int | None]
    emergency_knowledge_age_seconds: NotRequired[float | None]


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
        {
            **shared,
            "group": named(group["group"]),
            "target_group": named(group["target_group"]),
            "kind": group["kind"],
            **partition,
        }
        for group in groups
        for partition in group["partitions"]
    ]


def _row(view: _View) -> OperationRow:
    operation, figures = view.operation, view.figures
    plan, is_emergency = operation.plan, operation.plan.mode is Mode.EMERGENCY
    lost = _loss(total_loss(losses(view.risks).values()) if is_emergency else Loss())
    groups: list[MovedGroupRow] = [
        {
            "group": moved.group,
            "target_group": moved.target_group,
            "kind": moved.kind,
            "partitions": [_partition(moved, verdict, view) for verdict in moved.verdicts],
        }
        for moved in view.groups
    ]
    lags = {lag.topic.name: lag for lag in plan.lags}
    return {
        "operation_id": plan.operation_id,
        "mode": plan.mode,
        "state": operation.standing.state,
        "point_of_no_return_passed": operation.point_of_no_return_passed,
        "flow": plan.flow,
        "groups": groups,
        "state_topics": [
            {
                "topic": name,
                "records_behind": None if name not in lags else or_none(lags[name].lost.most),
                "seconds_ahead": None if name not in lags else or_none(lags[name].ahead_seconds),
            }
            for name in plan.state
        ],
        "steps": [
            {"name": step.name, "state": operation.state_of(step), "sentence": step.sentence}
            for step in plan.steps
        ],
        "promoted_acls": plan.promotion.described,
        "rto_seconds": figures.rto_seconds,
        "lost_max": lost["lost_max"],
        "lost_min": lost["lost_min"],
        "source_seen_at": lost["source_seen_at"],
        "rpo_records": figures.rpo_records,
        "reread_records": figures.reread_records,
        "reread_expected": _expected(groups) if is_emergency or figures.reread_records is not None else None,
        "diverged_records": figures.diverged_records,
        "undo": view.undo,
    }


def _expected(groups: Iterable[MovedGroupRow]) -> int | None:
    """Records that all groups are expected to read again; None if unknown for a partition."""
    of_all = (one for group in groups for one in group["partitions"])
    moved = [one for one in of_all if one["reread_max"] is not None or one["exactness"] == "bounded"]
    known = [one["reread_expected"] for one in moved if one["reread_expected"] is not None]
    return sum(known) if len(known) == len(moved) else None


def _partition(plan: GroupPlan, verdict: OffsetVerdict, view: _View) -> MovedPartitionRow:
    waits = not view.drained and drain_cures(verdict) and view.operation.plan.mode is not Mode.EMERGENCY
    place = plan.written_to(verdict)
    written: bool | None = place is not None and (plan.group, place) in view.written
    if place is not None and view.operation.may_have_written and plan.group not in view.settled:
        written = None  # it was sent, and the result is unknown
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
        "written": written,
        "reason": KNOWN_AFTER_DRAIN if waits else verdict.refusal or "",
        "detail": "" if waits else plan.why(verdict),
        "offsets": OffsetKind.of(verdict.same_offsets),
    }


def _costs(plan: GroupPlan, verdict: OffsetVerdict, view: _View) -> CostsRow:
    most: int | None = None
    expected: int | None = None
    age: float | None = None
    lost = Loss()
    if view.operation.plan.mode is not Mode.EMERGENCY or verdict.source is None:
        most, expected = reread_max(verdict), reread_expected(verdict)
        lost = Loss(0) if verdict.refusal is None else Loss()
        # commits are asked of the living source, by the same run that writes them
        age = None if verdict.commit is None else 0
    elif (risk := view.risks.get((plan.group, verdict.source))) is not None:
        most, expected, lost = or_none(risk.reread), or_none(risk.expected), risk.lost
        age = or_none(risk.age_seconds)
    return {
        "reread_max": most,
        "reread_expected": expected,
        **_loss(lost),
        "knowledge_age_seconds": age,
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


def show_restored(row: OperationRow, restores: Iterable[ImportedRow]) -> None:
    """Add to an operation's row what its rollback would commit or delete; none of it is written yet."""
    back: dict[tuple[object, ...], ImportedRow] = {
        (one["group"], one["topic"], one["partition"]): one for one in restores
    }
    for group in row["groups"]:
        for partition in group["partitions"]:
            topic = partition["topic" if row["mode"] is Mode.FAILBACK else "target_topic"]
            partition["written"] = False
            one = back.get((group["group"], topic, partition["partition"]))
            if one is not None:
                partition["current_offset"], partition["restored_offset"] = (
                    one["offset_before"],
                    one["offset"],
                )
                partition["reason"] = one["reason"]
