"""Journal entries as data (``mmtool-journal.internal``): what was intended, what was done, what it replaced.

Every entry has a key of its own, so compaction keeps them all. An operation is what its entries say, read in order:

A  an entry is written before its action is done (``intended``), or after (``done``), never at the same time
B  before the first commit, the journal has every commit that is going to be written, with the commit that it replaces;
   before the first ACL rule, every rule that is going to be created; before the first diverged record, where all of
   them go
C  an entry that cannot be read is refused, never skipped: an operation with a missing entry could not be resumed
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NotRequired, TypedDict, cast

from mmtool.plan.failover.risks import Loss, Risk
from mmtool.plan.groups.facts import Commit, GroupKind
from mmtool.plan.groups.offsets import Direction, GroupPlan, OffsetVerdict
from mmtool.plan.records.documents import Document
from mmtool.plan.records.shapes import made, shaped
from mmtool.translation.answers import Answer, Bounded, Exact, Knowledge, Reason, Skipping
from mmtool.translation.types import UNKNOWN, TopicPartition, or_none

_PREFIX = "operation/"

Risks = dict[tuple[str, TopicPartition], Risk]


class EntryKind(StrEnum):
    """The kinds of entries."""

    BEGAN = "began"
    """The operation's own facts: its operator, reason, flow, groups and steps."""
    STEP = "step"
    """A step's new state."""
    FENCE = "fence"
    """The fence of the source's topics: about to be raised, or lowered."""
    ACLS = "acls"
    """Producers' ACLs on the target: about to be created or withdrawn, or that is undone."""
    TAIL = "tail"
    """Diverged records: about to be written somewhere, or written."""
    GROUP = "group"
    """The offsets to commit for a group on the destination, and the commits that they replace."""
    OUTCOME = "outcome"
    """The result of a group's commits."""
    ENDED = "ended"
    """The operation's final state and its result."""


@dataclass(frozen=True)
class JournalEntry(Document):
    """One record of the journal.

    Attributes:
        number: Counts the operation's entries, from 1.
        by: The operator, as ``user@host``.
        state: Of the operation after this entry; the contract's words.
        past_return: Whether the point of no return is passed after this entry.
        body: The data of ``kind``, as JSON values.
    """

    PREFIX = _PREFIX

    operation_id: str
    number: int
    kind: EntryKind
    at_ms: int
    by: str
    state: str
    past_return: bool
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> bytes:
        return f"{_PREFIX}{self.operation_id}/{self.number:06d}".encode()

    @cached_property
    def planned(self) -> tuple[GroupPlan, Risks]:
        """The plan and risks that an entry of kind GROUP has, decoded once: an operation is read several times.

        Raises:
            KeyError, ValueError, TypeError: As `group_of`.
        """
        return group_of(self.body)


class VerdictBody(TypedDict, total=False):
    """One partition of a group's plan; empty fields are left out.

    Attributes:
        source: Topic and partition on the flow's source.
        target: Topic and partition on the flow's target.
        commit: The committed offset and its metadata, on the cluster that the group leaves.
        answer: `exact`, `bounded` or `skipping`; the new offset; then the most records read again (null if unknown) or
            skipped.
        refusal: Why the partition has no new offset.
        blocks: The refusal keeps the whole group where it is.
        before: The committed offset and its metadata, on the destination.
        knowledge: What the answer is based on.
        same_offsets: Each mirrored record has its source's offset on the target.
    """

    source: tuple[str, int] | None
    target: tuple[str, int] | None
    commit: tuple[int, str] | None
    answer: tuple[str, int] | tuple[str, int, int | None] | None
    refusal: Reason | None
    blocks: bool
    before: tuple[int, str] | None
    knowledge: Knowledge | None
    same_offsets: bool


class GroupBody(TypedDict):
    """A group's plan.

    Attributes:
        group: Its name.
        target_group: Its name on the flow's target, where that is another.
        direction: From the flow's source to its target, or back.
        verdicts: Its partitions.
        risks: Topic, partition, records lost at most, records read again at most, age of the offset in seconds.
        expected: Topic, partition, the expected number of records read again.
        seen: Topic, partition, records lost at least, when the source's end was last seen in ms since 1970.
        kind: Its kind; older plans have only consumer groups.
    """

    group: str
    target_group: NotRequired[str]
    direction: Direction
    verdicts: list[VerdictBody]
    risks: list[tuple[str, int, int | None, int | None, float | None]]
    expected: list[tuple[str, int, int]]
    seen: list[tuple[str, int, int, int]]
    kind: NotRequired[GroupKind]


def group_body(plan: GroupPlan, risks: Mapping[tuple[str, TopicPartition], Risk]) -> GroupBody:
    """A group's plan and risks as JSON values: enough to commit, show and undo the plan from the journal alone."""
    ours = [(place, risk) for (group, place), risk in risks.items() if group == plan.group]
    body: GroupBody = {
        "group": plan.group,
        "direction": plan.direction,
        "verdicts": [_verdict_row(verdict) for verdict in plan.verdicts],
        "risks": [
            (*place, or_none(risk.lost.most), or_none(risk.reread), or_none(risk.age_seconds))
            for place, risk in ours
        ],
        "expected": [(*place, risk.expected) for place, risk in ours if risk.expected is not UNKNOWN],
        "seen": [
            (*place, risk.lost.least, risk.lost.seen_ms)
            for place, risk in ours
            if risk.lost.seen_ms is not UNKNOWN
        ],
    }
    if plan.kind is not GroupKind.CONSUMER:
        body["kind"] = plan.kind
    if plan.renamed is not None:
        body["target_group"] = plan.renamed
    return body


def group_of(body: Mapping[str, Any]) -> tuple[GroupPlan, Risks]:
    """A group's plan and risks from the JSON values of `group_body`.

    Raises:
        KeyError, ValueError, TypeError: The values are not those of a group's plan.
    """
    name = body["group"]
    verdicts = tuple(_verdict(name, row) for row in body["verdicts"])
    # an older mmtool wrote none of these
    expected = {(topic, partition): number for topic, partition, number in body.get("expected", ())}
    seen = {(topic, partition): of for topic, partition, *of in body.get("seen", ())}
    risks = {
        (name, made(TopicPartition, topic, partition)): Risk(
            Loss(_unknown(lost), *seen.get((topic, partition), (lost or 0,))),
            _unknown(reread),
            _unknown(age),
            expected.get((topic, partition), UNKNOWN),
        )
        for topic, partition, lost, reread, age in body["risks"]
    }
    kind = GroupKind(body.get("kind", GroupKind.CONSUMER))
    renamed = shaped(body.get("target_group"), str | None)
    return GroupPlan(name, Direction(body["direction"]), verdicts, kind=kind, renamed=renamed), risks


def _verdict_row(verdict: OffsetVerdict) -> VerdictBody:
    """A verdict as JSON values, without empty fields: a thousand groups have twenty thousand verdicts."""
    row: VerdictBody = {
        "source": verdict.source,
        "target": verdict.target,
        "commit": None if verdict.commit is None else verdict.commit.pair,
        "answer": None if verdict.answer is None else _answer_row(verdict.answer),
        "refusal": verdict.refusal,
        "blocks": verdict.blocks,
        "before": None if verdict.before is None else verdict.before.pair,
        "knowledge": verdict.knowledge,
        "same_offsets": verdict.same_offsets,
    }
    return cast("VerdictBody", {key: value for key, value in row.items() if value})


_ANSWERS: dict[str, Callable[..., Answer | Skipping]] = {
    "exact": Exact,
    "bounded": Bounded,
    "skipping": Skipping,
}


def _verdict(group: str, row: Mapping[str, Any]) -> OffsetVerdict:
    kind, *numbers = row.get("answer", ("",))
    return OffsetVerdict(
        group,
        made(TopicPartition, *row["source"]) if "source" in row else None,
        made(TopicPartition, *row["target"]) if "target" in row else None,
        made(Commit, *row["commit"]) if "commit" in row else None,
        made(_ANSWERS[kind], *map(_unknown, numbers)) if kind else None,
        Reason(row["refusal"]) if "refusal" in row else None,
        row.get("blocks", False),
        made(Commit, *row["before"]) if "before" in row else None,
        Knowledge(row["knowledge"]) if "knowledge" in row else None,
        same_offsets=row.get("same_offsets", False),
    )


def _answer_row(answer: Answer | Skipping) -> tuple[str, int] | tuple[str, int, int | None]:
    match answer:
        case Exact(offset):
            return ("exact", offset)
        case Bounded(offset, most):
            return ("bounded", offset, or_none(most))
        case Skipping(offset, most):
            return ("skipping", offset, most)
    raise TypeError(f"{answer} leads nowhere")


def _unknown(number: Any) -> Any:
    return UNKNOWN if number is None else number
