"""An operation as its journal tells it: what list, show, resume, cancel and rollback go by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mmtool.errors import RefusedError
from mmtool.failover.operation import Operation, StepState
from mmtool.failover.states import START, OperationState, Phase, Standing
from mmtool.plan.diverged import TO_FILE, diverged_of
from mmtool.plan.emergency import Unknowns
from mmtool.plan.failover import FailoverPlan
from mmtool.plan.fenced import NO_FENCE, Fence, FenceKind, fence_of
from mmtool.plan.identity import JOURNAL_TOPIC
from mmtool.plan.journal import Kind, group_of
from mmtool.plan.salvage import Begun, Parts, begun_of, parts_of, together
from mmtool.plan.steps import Mode, Names, Step, StepName
from mmtool.translation.known import UNKNOWN, Unknown
from mmtool.translation.types import ClusterId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mmtool.plan.journal import Entry


@dataclass(frozen=True, slots=True)
class Figures:
    """What an operation came to; None for what was not measured (yet).

    Attributes:
        rto_seconds: From its beginning to the last offset read back.
        rpo_records: Records lost, at the most.
        reread_records: Records read again, at the most.
        diverged_records: Records that came to the source meanwhile and are not on the target yet.
    """

    rto_seconds: float | None = None
    rpo_records: int | None = None
    reread_records: int | None = None
    diverged_records: int | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """One operation.

    Attributes:
        operation: Its plan, with the groups as they were about to be written, and where each step is.
        names: Its clusters.
        source_id: UNKNOWN where the source never told it: an emergency on a flow that MirrorMaker 2 ran.
        group_names: Whom it is about, also before anything was planned for them.
        unknowns: What its operator has said of partitions that nobody knows a position of.
        written: By group, the partitions whose new offset stands.
        fence_stands: The plan's fence may be there: it was about to be raised, and was not lowered since.
        tail: The diverged records that were about to be written, where it is not known that they are; else None.
        salvaged: Those that were written, by the partition at home.
        entries: How many the journal has: the next one's number is one more.
    """

    operation: Operation
    names: Names
    source_id: ClusterId | Unknown
    target_id: ClusterId
    group_names: tuple[str, ...]
    reason: str
    by: str
    began_ms: int
    last_ms: int
    written: Mapping[str, frozenset[TopicPartition]] = field(default_factory=dict)
    figures: Figures = field(default_factory=Figures)
    problem: str = ""
    entries: int = 1
    unknowns: Unknowns = Unknowns.LEAVE
    fence_stands: bool = False
    tail: Begun | None = None
    salvaged: Mapping[TopicPartition, Parts] = field(default_factory=dict)

    @property
    def operation_id(self) -> str:
        return self.operation.plan.operation_id

    @property
    def mode(self) -> Mode:
        return self.operation.plan.mode

    @property
    def state(self) -> OperationState:
        return self.operation.standing.state

    @property
    def is_open(self) -> bool:
        """Whether something is left to be done, or to be taken back."""
        return self.state in {OperationState.RUNNING, OperationState.FAILED}


def recorded(entries: Iterable[Entry]) -> list[Recorded]:
    """Every operation of a journal, the oldest first.

    Raises:
        RefusedError: An entry that makes no sense (``unreadable_state``).
    """
    found: dict[str, Recorded] = {}
    for entry in sorted(entries, key=lambda entry: (entry.operation_id, entry.number)):
        try:
            found[entry.operation_id] = _after(found.get(entry.operation_id), entry)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise RefusedError(
                f"{JOURNAL_TOPIC}: entry {entry.number} of operation {entry.operation_id} cannot be read: {error!r}",
                remedy="nothing is guessed: it was written by a newer mmtool, or by somebody else",
                code="unreadable_state",
            ) from error
    return sorted(found.values(), key=lambda one: one.began_ms)


def _after(before: Recorded | None, entry: Entry) -> Recorded:
    if before is None:
        if entry.kind != Kind.BEGAN:
            raise ValueError("the beginning is missing")
        return _standing(_begun(entry), entry)
    return _standing(_TAKE[Kind(entry.kind)](before, entry.body), entry)


def _standing(now: Recorded, entry: Entry) -> Recorded:
    phase = Phase.AFTER if entry.past_return else Phase.BEFORE
    operation = replace(now.operation, standing=Standing(OperationState(entry.state), phase))
    return replace(now, operation=operation, last_ms=entry.at_ms, entries=entry.number)


def _begun(entry: Entry) -> Recorded:
    body = entry.body
    names = Names(body["source"], body["target"])
    steps = tuple(Step(StepName(name), sentence) for name, sentence in body["steps"])
    released = tuple(body.get("released", ()))
    plan = FailoverPlan(
        entry.operation_id,
        Mode(body["mode"]),
        names.flow,
        (),
        steps,
        released=released,
        fence=_fence_asked_for(body),
        diverged=diverged_of(body.get("diverged", TO_FILE.words)),
    )
    source_id = body["source_id"]
    return Recorded(
        Operation(plan, START),
        names,
        UNKNOWN if source_id is None else ClusterId(source_id),
        ClusterId(body["target_id"]),
        tuple(body["groups"]),
        body["reason"],
        entry.by,
        entry.at_ms,
        entry.at_ms,
        unknowns=Unknowns(body.get("unknown", Unknowns.LEAVE)),
    )


def _fence_asked_for(body: Mapping[str, Any]) -> Fence:
    """Its kind alone: what is denied is on record when it is about to be."""
    if "fence" not in body:
        return NO_FENCE
    asked = body["fence"]
    return Fence(FenceKind(asked["kind"]), watch_seconds=asked["watch_seconds"])


def _again(before: Recorded, body: Mapping[str, Any]) -> Recorded:
    """Taken up again: the steps begin anew, as far as they are done anew."""
    states = {StepName(name): StepState(state) for name, state in body["step_states"].items()}
    operation = replace(before.operation, steps=states)
    return replace(before, operation=operation, problem="")


def _step(before: Recorded, body: Mapping[str, Any]) -> Recorded:
    states = {**before.operation.steps, StepName(body["step"]): StepState(body["step_state"])}
    operation = replace(before.operation, steps=states)
    return replace(before, operation=operation, problem=body.get("problem", before.problem))


def _fence(before: Recorded, body: Mapping[str, Any]) -> Recorded:
    plan = replace(before.operation.plan, fence=fence_of(body))
    return replace(before, operation=replace(before.operation, plan=plan), fence_stands=bool(body["stands"]))


def _tail(before: Recorded, body: Mapping[str, Any]) -> Recorded:
    if body["stands"]:
        return replace(before, tail=begun_of(body))
    return replace(before, tail=None, salvaged=together(before.salvaged, parts_of(body)))


def _group(before: Recorded, body: Mapping[str, Any]) -> Recorded:
    group, risks = group_of(body)
    plan = before.operation.plan
    groups = (*(other for other in plan.groups if other.group != group.group), group)
    plan = replace(plan, groups=groups, risks={**plan.risks, **risks})
    return replace(before, operation=replace(before.operation, plan=plan))


def _outcome(before: Recorded, body: Mapping[str, Any]) -> Recorded:
    places = frozenset(TopicPartition(topic, partition) for topic, partition in body["written"])
    return replace(before, written={**before.written, body["group"]: places})


def _ended(before: Recorded, body: Mapping[str, Any]) -> Recorded:
    operation = replace(before.operation, sentence=body["sentence"])
    figures = Figures(**{key: body["figures"].get(key) for key in Figures.__slots__})
    return replace(before, operation=operation, figures=figures, problem=body["problem"])


_TAKE: dict[Kind, Callable[[Recorded, Mapping[str, Any]], Recorded]] = {
    Kind.BEGAN: _again,
    Kind.STEP: _step,
    Kind.FENCE: _fence,
    Kind.TAIL: _tail,
    Kind.GROUP: _group,
    Kind.OUTCOME: _outcome,
    Kind.ENDED: _ended,
}
