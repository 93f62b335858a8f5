"""An operation as read from its journal, for list, show, resume, cancel and rollback."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any

from mmtool.errors import RefusedError
from mmtool.failover.operation.operation import Operation, StepState
from mmtool.failover.operation.states import START, OperationState, OperationStatus, Phase, Trigger
from mmtool.plan.failover.acl_promotion import PrincipalMap, Promotion, promotion_of
from mmtool.plan.failover.acl_rules import Binding
from mmtool.plan.failover.choices import REPLAYED, TO_FILE, FenceKind, Unknowns, diverged_of
from mmtool.plan.failover.failover_plan import FailoverPlan
from mmtool.plan.failover.fence_plan import NO_FENCE, Fence, fence_of
from mmtool.plan.failover.steps import Mode, Step, StepName
from mmtool.plan.failover.tail_progress import Begun, Parts, begun_of, parts_of, together
from mmtool.plan.groups.offsets import GroupPlan
from mmtool.plan.records.identity import JOURNAL_TOPIC
from mmtool.plan.records.journal import EntryKind, JournalEntry, Risks
from mmtool.plan.records.shapes import shaped
from mmtool.plan.words import Names
from mmtool.translation.types import UNKNOWN, ClusterId, TopicPartition, Unknown


@dataclass(frozen=True, slots=True)
class Figures:
    """The measured results of an operation; None for what was not measured (yet).

    Attributes:
        rto_seconds: From its start to the last offset read back.
        rpo_records: Records lost, at the most.
        reread_records: Records read again, at the most.
        diverged_records: Records that were written to the source meanwhile and are not on the target yet.
    """

    rto_seconds: float | None = None
    rpo_records: int | None = None
    reread_records: int | None = None
    diverged_records: int | None = None


@dataclass(frozen=True)
class Recorded:
    """One operation of a journal.

    The groups are decoded only on demand (`operation`): a journal keeps years of operations, and every failover reads
    all of it to find other open operations.

    Attributes:
        head: Its plan without the groups' offsets, and the state of each step.
        names: Its clusters' aliases.
        source_id: UNKNOWN where the journal does not have it: an emergency on a flow that MirrorMaker 2 ran.
        group_names: The groups that move, also before anything was planned for them.
        target_groups: The names on the flow's target of those groups that have another one there.
        unknowns: The operator's choice for partitions where a group's offset is unknown.
        written: By group, the partitions whose new offset is stored; without groups whose result is unknown.
        fence_stands: The plan's fence may be up: it was about to be raised, and was not lowered since.
        promotion_stands: The plan's change of producers' ACLs may be in force: it was about to be made, and was not
            undone since.
        tail: The diverged records that were about to be written and are not known to be; else None.
        salvaged: The diverged records that were written, by the partition on the flow's source.
        entries: How many entries the journal has of it: the next one's number is one more.
        intents: The entries with each group's planned offsets, not decoded yet.
        span: The places of its first and last entry in the journal, as `in_journal_order` counts them.
    """

    head: Operation
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
    intents: tuple[JournalEntry, ...] = ()
    target_groups: Mapping[str, str] = field(default_factory=dict)
    unknowns: Unknowns = Unknowns.LEAVE
    fence_stands: bool = False
    promotion_stands: bool = False
    tail: Begun | None = None
    salvaged: Mapping[TopicPartition, Parts] = field(default_factory=dict)
    span: tuple[int, int] = (0, 0)

    @cached_property
    def operation(self) -> Operation:
        """The operation with its groups' planned offsets and risks, decoded from the journal.

        Raises:
            RefusedError: A group's entry cannot be decoded (``unreadable_state``).
        """
        groups: list[GroupPlan] = []
        risks: Risks = {}
        for entry in self.intents:
            with _making_sense_of(entry):
                group, of_group = entry.planned
                groups.append(group)
                risks |= of_group
        plan = replace(self.head.plan, groups=tuple(groups), risks=risks)
        return replace(self.head, plan=plan)

    @property
    def operation_id(self) -> str:
        return self.head.plan.operation_id

    @property
    def mode(self) -> Mode:
        return self.head.plan.mode

    @property
    def state(self) -> OperationState:
        return self.head.standing.state

    @property
    def may_have_marked(self) -> bool:
        """Whether topics may still have this operation's marks: its mark step started, and was not undone."""
        return self.head.steps.get(StepName.MARK) in {StepState.RUNNING, StepState.DONE}

    @property
    def half_replayed(self) -> frozenset[str]:
        """Topics of which an older mmtool may have replayed some diverged records that the flow does not skip yet."""
        if not self.is_open or self.tail is None or self.head.plan.diverged != REPLAYED:
            return frozenset()
        return frozenset(place.topic for place in self.tail.parts)

    @property
    def way(self) -> tuple[str, str]:
        """The aliases of the clusters from which and to which the groups move."""
        source, target = self.names.source, self.names.target
        return (target, source) if self.mode is Mode.FAILBACK else (source, target)

    def may(self, event: Trigger) -> bool:
        """Whether an event is allowed: resume, cancel or roll back.

        The state table says so; and this mmtool neither completes what an older one replays, nor counts what it has
        replayed.
        """
        replays = self.head.plan.diverged == REPLAYED and not self.head.point_of_no_return_passed
        if replays and (event is Trigger.RESUME or self.half_replayed):
            return False
        return self.head.may(event)

    @property
    def is_open(self) -> bool:
        """Whether the operation is running or failed, so that something is left to complete or undo."""
        return self.state in {OperationState.RUNNING, OperationState.FAILED}


def in_journal_order(entries: Iterable[JournalEntry]) -> list[Recorded]:
    """Every operation of a journal, by its first entry's place in the journal rather than by the hosts' clocks.

    Raises:
        RefusedError: As `recorded`.
    """
    told, spans = list(entries), dict[str, tuple[int, int]]()
    for at, entry in enumerate(told):
        spans[entry.operation_id] = spans.get(entry.operation_id, (at, at))[0], at
    found = [replace(one, span=spans[one.operation_id]) for one in recorded(told)]
    return sorted(found, key=attrgetter("span"))


def promoted_acls(in_order: Iterable[Recorded]) -> frozenset[Binding]:
    """The producers' ACLs that operations created on a flow's target, without those that failbacks withdrew.

    Args:
        in_order: The flow's operations, in the order in which they started.
    """
    found: frozenset[Binding] = frozenset()
    for one in in_order:
        if one.promotion_stands:
            promotion = one.head.plan.promotion
            changed = frozenset(promotion.acls)
            found = found - changed if promotion.withdraws else found | changed
    return found


def fences_standing(operations: Iterable[Recorded]) -> frozenset[Binding]:
    """The DENY ACLs of fences that may still be up on a flow's source."""
    return frozenset(deny for one in operations if one.fence_stands for deny in one.head.plan.fence.denies)


def recorded(entries: Iterable[JournalEntry]) -> list[Recorded]:
    """Every operation of a journal, the oldest first by the clock of the host that started it.

    Raises:
        RefusedError: An entry cannot be decoded (``unreadable_state``).
    """
    in_order = sorted(entries, key=attrgetter("operation_id", "number"))
    found = [_one(list(of)) for _, of in groupby(in_order, attrgetter("operation_id"))]
    return sorted(found, key=lambda one: one.began_ms)


def _one(entries: Sequence[JournalEntry]) -> Recorded:
    """One operation from its entries; only the last entry of each kind for a group is kept."""
    of_groups: dict[tuple[EntryKind, str], JournalEntry] = {}
    found: Recorded | None = None
    for entry in entries:
        with _making_sense_of(entry):
            state = OperationState(entry.state)  # refused where it is unknown; the last one counts
            if found is None:
                found = _begun(entry)
            elif entry.kind in _OF_GROUPS:
                key = EntryKind(entry.kind), entry.body["group"]
                of_groups.pop(key, None)  # where it was told of last is its place
                of_groups[key] = entry
            else:
                found = _TAKE[EntryKind(entry.kind)](found, entry.body)
    assert found is not None
    written, last = {}, entries[-1]
    for (kind, group), entry in of_groups.items():
        if kind is EntryKind.OUTCOME and entry.body.get("known", True):
            with _making_sense_of(entry):
                written[group] = frozenset(TopicPartition(*place) for place in entry.body["written"])
    standing = OperationStatus(state, Phase.AFTER if last.past_return else Phase.BEFORE)
    return replace(
        found,
        head=replace(found.head, standing=standing),
        last_ms=last.at_ms,
        entries=last.number,
        intents=tuple(entry for (kind, _), entry in of_groups.items() if kind is EntryKind.GROUP),
        written=written,
    )


_BURY = "write a tombstone (a null value) with the key of each of these entries"


@contextmanager
def _making_sense_of(entry: JournalEntry) -> Iterator[None]:
    try:
        yield
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        why = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise RefusedError(
            f"entry {entry.number} of operation {entry.operation_id} in {JOURNAL_TOPIC} on the flow's target"
            f" cannot be read: {why}",
            remedy="if a newer mmtool wrote the entry, upgrade mmtool on this host; otherwise stop the program that"
            f" wrote it, and delete all entries of the operation: {_BURY}",
            code="unreadable_state",
        ) from error


def _begun(entry: JournalEntry) -> Recorded:
    if entry.kind != EntryKind.BEGAN:
        raise RefusedError(
            f"the first entry of operation {entry.operation_id} in {JOURNAL_TOPIC} on the flow's target is missing, so"
            " mmtool cannot read the operation",
            remedy="check that the topic has cleanup.policy=compact, and delete the operation's other entries:"
            f" {_BURY}",
            code="unreadable_state",
        )
    body, mode, fence = entry.body, Mode(entry.body["mode"]), NO_FENCE
    if "fence" in body:  # the ACLs of the fence and of the promotion have entries of their own
        fence = Fence(FenceKind(body["fence"]["kind"]), watch_seconds=body["fence"]["watch_seconds"])
    renamed = PrincipalMap(dict(body.get("promotes", {})))
    names = Names(body["source"], body["target"])
    steps = tuple(Step(StepName(name), sentence) for name, sentence in body["steps"])
    diverged = body.get("diverged", TO_FILE.words)
    plan = FailoverPlan(
        entry.operation_id,
        mode,
        names,
        (),
        steps,
        fence=fence,
        diverged=REPLAYED if diverged == REPLAYED.words else diverged_of(diverged),
        state=tuple(body.get("state", ())),
        without_state=bool(body.get("without_state", False)),
        accepts_unverified=bool(body.get("accept_unverified", False)),
        promotion=Promotion("promotes" in body, withdraws=mode is Mode.FAILBACK, renamed=renamed),
    )
    source_id = body["source_id"]
    return Recorded(
        Operation(_releasing(plan, body), START),
        names,
        UNKNOWN if source_id is None else ClusterId(source_id),
        ClusterId(body["target_id"]),
        tuple(body["groups"]),
        body["reason"],
        entry.by,
        entry.at_ms,
        entry.at_ms,
        target_groups=shaped(body.get("target_groups", {}), dict[str, str]),
        unknowns=Unknowns(body.get("unknown", Unknowns.LEAVE)),
    )


def _again(before: Recorded, body: Mapping[str, Any]) -> Recorded:
    """The operation after it was resumed: the resumed attempt's step states and released topics, and no problem.

    The other fields of its plan stay as they were.
    """
    states = {StepName(name): StepState(state) for name, state in body["step_states"].items()}
    head = replace(before.head, plan=_releasing(before.head.plan, body), steps=states)
    return replace(before, head=head, problem="")


def _releasing(plan: FailoverPlan, body: Mapping[str, Any]) -> FailoverPlan:
    """The plan with the topics that it releases, and the marks of them; an older mmtool did not write the marks."""
    released = tuple(body.get("released", ()))
    return replace(plan, released=released, marked=dict(body.get("marked", dict.fromkeys(released, ""))))


def _step(before: Recorded, body: Mapping[str, Any]) -> Recorded:
    states = {**before.head.steps, StepName(body["step"]): StepState(body["step_state"])}
    head = replace(before.head, steps=states)
    return replace(before, head=head, problem=body.get("problem", before.problem))


def _fence(before: Recorded, body: Mapping[str, Any]) -> Recorded:
    plan = replace(before.head.plan, fence=fence_of(body))
    return replace(before, head=replace(before.head, plan=plan), fence_stands=bool(body["stands"]))


def _acls(before: Recorded, body: Mapping[str, Any]) -> Recorded:
    promotion = replace(promotion_of(body), renamed=before.head.plan.promotion.renamed)
    plan = replace(before.head.plan, promotion=promotion)
    return replace(before, head=replace(before.head, plan=plan), promotion_stands=bool(body["stands"]))


def _tail(before: Recorded, body: Mapping[str, Any]) -> Recorded:
    if body["stands"]:
        return replace(before, tail=begun_of(body))
    return replace(before, tail=None, salvaged=together(before.salvaged, parts_of(body)))


def _ended(before: Recorded, body: Mapping[str, Any]) -> Recorded:
    head = replace(before.head, sentence=body["sentence"])
    figures = Figures(**{key: body["figures"].get(key) for key in Figures.__slots__})
    return replace(before, head=head, figures=figures, problem=body["problem"])


_OF_GROUPS = frozenset({EntryKind.GROUP, EntryKind.OUTCOME})

_TAKE: dict[EntryKind, Callable[[Recorded, Mapping[str, Any]], Recorded]] = {
    EntryKind.BEGAN: _again,
    EntryKind.STEP: _step,
    EntryKind.FENCE: _fence,
    EntryKind.ACLS: _acls,
    EntryKind.TAIL: _tail,
    EntryKind.ENDED: _ended,
}
