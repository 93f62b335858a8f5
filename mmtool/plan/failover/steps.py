"""The steps of each mode, with their names and sentences; rehearsal, execution, runbook and journal share them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mmtool.plan.failover.choices import FenceKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mmtool.plan.groups.offsets import GroupPlan
    from mmtool.translation.types import TopicPartition


MOST_PROVEN = 1_000
"""The most exact offsets whose neighbouring records are compared before the write: four small reads each."""


class Mode(StrEnum):
    """The modes of a failover (the contract's words)."""

    PLANNED = "planned"
    EMERGENCY = "emergency"
    FAILBACK = "failback"
    DRILL = "drill"


class StepName(StrEnum):
    """The names of all steps; a mode has those of `ORDER`."""

    CHECK = "check_groups"
    FENCE = "fence"
    TRANSACTIONS = "await_transactions"
    ENDS = "watch_ends"
    MARK = "mark_failed_over"
    DRAIN = "drain"
    FIND = "find_diverged"
    EXPORT = "export_diverged"
    DRAIN_BACK = "drain_back"
    TRANSLATE = "translate"
    VALIDATE = "validate"
    PROVE = "prove_boundary"
    PROMOTE = "promote_acls"
    WITHDRAW = "withdraw_acls"
    STOP_MIRROR = "promote"
    WRITE = "write"
    READ_BACK = "read_back"
    HAND_OVER = "hand_over"
    RELEASE = "release_topics"
    READ = "read_first_records"
    CLEAN_UP = "clean_up"
    REPORT = "report"


POINT_OF_NO_RETURN = StepName.WRITE
"""Before this step a failure leaves both clusters as they were; from this step on the operation rolls forward."""

_ENDING = (
    StepName.VALIDATE,
    StepName.WRITE,
    StepName.READ_BACK,
    StepName.HAND_OVER,
    StepName.REPORT,
)

ORDER: dict[Mode, tuple[StepName, ...]] = {
    Mode.PLANNED: (
        StepName.CHECK,
        StepName.DRAIN,
        StepName.TRANSLATE,
        StepName.PROVE,
        *_ENDING,
    ),
    Mode.EMERGENCY: (StepName.CHECK, StepName.MARK, StepName.TRANSLATE, *_ENDING),
    Mode.FAILBACK: (
        StepName.CHECK,
        StepName.DRAIN,
        StepName.MARK,
        StepName.FIND,
        StepName.EXPORT,
        StepName.DRAIN_BACK,
        StepName.TRANSLATE,
        *_ENDING[:-1],
        StepName.RELEASE,
        StepName.REPORT,
    ),
    Mode.DRILL: (
        StepName.CHECK,
        StepName.DRAIN,
        StepName.TRANSLATE,
        StepName.PROVE,
        StepName.VALIDATE,
        StepName.WRITE,
        StepName.READ_BACK,
        StepName.READ,
        StepName.CLEAN_UP,
        StepName.REPORT,
    ),
}

FENCE_STEPS = (StepName.FENCE, StepName.TRANSACTIONS, StepName.ENDS)
"""The steps of a fence, between the check of the groups and the drain."""


def order_of(
    mode: Mode, fence: FenceKind = FenceKind.NONE, *, changes_acls: bool = False, stops_mirror: bool = False
) -> tuple[StepName, ...]:
    """The names of a mode's steps in order, with those of a fence and of producers' ACLs where they are requested.

    The ACLs come before the offsets are validated, so that these are still written right after that. A mirror that
    another system keeps is stopped when all is validated, because mmtool cannot start it again.
    """
    order = ORDER[mode]
    if fence is not FenceKind.NONE:
        at = order.index(StepName.DRAIN)
        order = (*order[:at], *FENCE_STEPS, *order[at:])
    if changes_acls:
        at = order.index(StepName.VALIDATE)
        order = (*order[:at], acl_step(mode), *order[at:])
    if stops_mirror:
        at = order.index(StepName.WRITE)
        order = (*order[:at], StepName.STOP_MIRROR, *order[at:])
    return order


_REAL = [name.value for mode, order in ORDER.items() if mode is not Mode.DRILL for name in order]
_ASKED_FOR = (*FENCE_STEPS, StepName.PROMOTE, StepName.WITHDRAW, StepName.STOP_MIRROR)
HOOKABLE = tuple(dict.fromkeys([*_REAL, *(name.value for name in _ASKED_FOR)]))
"""The steps that ``mmtool.hook.STEP`` may name: every step but a drill's own."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step, with one sentence that says what it does."""

    name: StepName
    sentence: str


Column: TypeAlias = Literal["does", "done", "stop", "undo", "by_hand"]
"""The texts of a step, see ``steps.toml``."""


class _Fields(dict[str, str]):
    """The values of a text's fields; the shared texts are fields, too."""

    def __missing__(self, name: str) -> str:
        return str(_tables()["shared"][name]).format_map(self)


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads(files("mmtool.plan.failover").joinpath("steps.toml").read_text(encoding="utf-8"))


def text_of(step: StepName, column: Column, case: Collection[str], fields: Mapping[str, str]) -> str:
    """A text of a step.

    Args:
        step: The step.
        column: The kind of text.
        case: What the plan is, of `FailoverPlan.case`: it selects the variant of the text.
        fields: The values of the text's fields, by name.

    Raises:
        KeyError: The step has no such text, or a field has no value.
    """
    table = _tables()[step]
    variants = [
        texts
        for words, texts in table.items()
        if isinstance(texts, dict) and column in texts and set(words.split(", ")) <= set(case)
    ]
    return str([table, *variants][-1][column]).format_map(_Fields(fields))


def continued(plans: Iterable[GroupPlan]) -> list[TopicPartition]:
    """The partitions of the target in which producers go on with the source's log, see `Verdict.is_continued`."""
    verdicts = (verdict for plan in plans for verdict in plan.verdicts)
    return sorted({verdict.target for verdict in verdicts if verdict.is_continued and verdict.target})


def acl_step(mode: Mode) -> StepName:
    """The step that changes producers' ACLs on the flow's target."""
    return StepName.WITHDRAW if mode is Mode.FAILBACK else StepName.PROMOTE


def topics_of(plans: Iterable[GroupPlan]) -> list[str]:
    """The flow's topics in plans, by their names on the source: partitions with a name on both clusters."""
    verdicts = [verdict for plan in plans for verdict in plan.verdicts]
    return sorted({v.source.topic for v in verdicts if v.source is not None and v.target is not None})
