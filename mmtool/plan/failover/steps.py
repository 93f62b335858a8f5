"""The steps of each mode, with their names and sentences; rehearsal, execution, runbook and journal share them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mmtool.plan.failover.choices import TO_FILE, Diverged, FenceKind, ToTopic
from mmtool.plan.failover.fence_plan import NO_FENCE, Fence
from mmtool.plan.words import Names, counted, few

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from mmtool.plan.failover.acl_promotion import Promotion
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


def order_of(mode: Mode, fence: FenceKind = FenceKind.NONE) -> tuple[StepName, ...]:
    """The names of a mode's steps in order, with those of a fence where one is requested."""
    order = ORDER[mode]
    if fence is FenceKind.NONE:
        return order
    at = order.index(StepName.DRAIN)
    return (*order[:at], *FENCE_STEPS, *order[at:])


_REAL = [name.value for mode, order in ORDER.items() if mode is not Mode.DRILL for name in order]
_ASKED_FOR = (*FENCE_STEPS, StepName.PROMOTE, StepName.WITHDRAW)
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
        case: What the plan is, of `case_of`: it selects the variant of the text.
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


def case_of(
    mode: Mode, fence: Fence, diverged: Diverged, topics: Collection[str], released: Collection[str]
) -> set[str]:
    """The words for what a plan is, that select variants of its texts.

    Args:
        mode: The failover's mode.
        fence: How producers are kept off the source.
        diverged: For a failback, where the diverged tail is written.
        topics: The topics that the plan is about, see `moved_topics`.
        released: For a failback, the topics that the flow mirrors again.
    """
    words = {
        str(mode): True,
        f"--fence {fence.kind}": True,
        "fenced": fence.asked_for,
        "no fenced topics": not fence.topics,
        "--diverged topic": isinstance(diverged, ToTopic),
        "no topics": not topics,
        "nothing released": not released,
    }
    return {word for word, holds in words.items() if holds}


def steps_of(
    mode: Mode,
    names: Names,
    plans: tuple[GroupPlan, ...],
    held: tuple[str, ...] = (),
    fence: Fence = NO_FENCE,
    diverged: Diverged = TO_FILE,
    state: tuple[str, ...] = (),
    *,
    released: tuple[str, ...] = (),
) -> tuple[Step, ...]:
    """The steps of a failover and their sentences, with the numbers that are known when it is planned.

    Args:
        mode: The failover's mode.
        names: The names of the flow's clusters.
        plans: The groups' plans.
        held: For a failback, the source's topics that are not mirrored meanwhile.
        fence: How producers are kept off the source.
        diverged: For a failback, where the diverged tail is written.
        state: Changelogs and repartition topics of Kafka Streams applications that move.
        released: For a failback, those of ``held`` that the flow mirrors again.
    """
    here, there = (names.target, names.source) if mode is Mode.FAILBACK else (names.source, names.target)
    topics = moved_topics(mode, plans, held, state)
    promoted = sorted({at.topic for at in continued(plans)}) if is_promotion(mode, fence) else []
    case = case_of(mode, fence, diverged, topics, released)
    case |= {word for word, holds in {"state": state, "promoted": promoted}.items() if holds}
    is_one = len(plans) == 1
    offsets = _translatable(plans)
    fields = {
        "here": here,
        "there": there,
        "flow": names.flow,
        "groups": few([plan.group for plan in plans]) or "no group",
        "groups_them": "it" if is_one else "them",
        "are": "is" if is_one else "are",
        "have": "has" if is_one else "have",
        "read": "reads" if is_one else "read",
        "belong": "belongs" if is_one else "belong",
        "topics": few(topics),
        "topics_them": "it" if len(topics) == 1 else "them",
        "released": few(released),
        "state": few(state),
        "continued": few(promoted),
        "diverged_topic": diverged.topic if isinstance(diverged, ToTopic) else "",
        "committed": counted(offsets, "committed offset"),
        "known": counted(offsets, "offset"),
        "proven": "each exact offset" if offsets <= MOST_PROVEN else f"{MOST_PROVEN:,} of the exact offsets",
        "fenced": few(fence.topics),
        "rules": fence.rules.sentence,
        "seconds": f"{fence.watch_seconds:g} s",
    }
    return tuple(Step(name, text_of(name, "does", case, fields)) for name in order_of(mode, fence.kind))


def moved_topics(
    mode: Mode, plans: Iterable[GroupPlan], held: Sequence[str], state: Iterable[str]
) -> Sequence[str]:
    """The topics that a plan is about, by their names on the flow's source; arguments as for `steps_of`."""
    return held if mode is Mode.FAILBACK else sorted({*topics_of(plans), *state})


def is_promotion(mode: Mode, fence: Fence) -> bool:
    """Whether producers go on with the mirrored topics on the target, because none reaches the source any more."""
    return mode is Mode.EMERGENCY or (mode is Mode.PLANNED and fence.kind is not FenceKind.NONE)


def continued(plans: Iterable[GroupPlan]) -> list[TopicPartition]:
    """The partitions of the target in which producers go on with the source's log, see `Verdict.is_continued`."""
    verdicts = (verdict for plan in plans for verdict in plan.verdicts)
    return sorted({verdict.target for verdict in verdicts if verdict.is_continued and verdict.target})


def acl_step(mode: Mode) -> StepName:
    """The step that changes producers' ACLs on the flow's target."""
    return StepName.WITHDRAW if mode is Mode.FAILBACK else StepName.PROMOTE


def with_acl_step(
    steps: tuple[Step, ...], mode: Mode, names: Names, promotion: Promotion
) -> tuple[Step, ...]:
    """The steps with the one that changes producers' ACLs, where that is requested.

    It comes before the offsets are validated, so that they are still written right after that.
    """
    if not promotion.is_asked_for:
        return steps
    at = [step.name for step in steps].index(StepName.VALIDATE)
    return (*steps[:at], Step(acl_step(mode), promotion.sentence(names)), *steps[at:])


def _translatable(plans: Iterable[GroupPlan]) -> int:
    """The number of commits in partitions that have a counterpart on the other cluster."""
    return sum(
        None not in (verdict.commit, verdict.source, verdict.target)
        for plan in plans
        for verdict in plan.verdicts
    )


def topics_of(plans: Iterable[GroupPlan]) -> list[str]:
    """The flow's topics in plans, by their names on the source: partitions with a name on both clusters."""
    verdicts = [verdict for plan in plans for verdict in plan.verdicts]
    return sorted({v.source.topic for v in verdicts if v.source is not None and v.target is not None})
