"""The steps of each mode, with their names and sentences; rehearsal, execution, runbook and journal share them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from mmtool.plan.failover.divergence import TO_FILE, Diverged, ToTopic
from mmtool.plan.failover.fence_plan import NO_FENCE, Fence, FenceKind
from mmtool.plan.words import Names, counted, few

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    if mode is Mode.FAILBACK:
        sentences = _going_home(names, plans, held, state) | _salvaging(names, held, diverged)
        sentences[StepName.RELEASE] = _releasing(names, held, released)
    elif mode is Mode.DRILL:
        sentences = _drilling(names, plans, state)
    else:
        sentences = _going_away(mode, names, plans, state)
        if is_promotion(mode, fence) and (topics := sorted({place.topic for place in continued(plans)})):
            sentences[StepName.HAND_OVER] += (
                f"; write a marker, which takes one offset, to each partition of {few(topics)} there: it shuts out any"
                " mmtool that was frozen while it mirrored"
            )
    sentences |= _fencing(names, plans, fence)
    return tuple(Step(name, sentences[name]) for name in order_of(mode, fence.kind))


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


def _fencing(names: Names, plans: tuple[GroupPlan, ...], fence: Fence) -> dict[StepName, str]:
    groups = few([plan.group for plan in plans]) or "no group"
    has = "has" if len(plans) == 1 else "have"
    return dict(zip(FENCE_STEPS, fence.sentences(names.source, f"{groups} {has}", names.flow), strict=True))


def _going_home(
    names: Names, plans: tuple[GroupPlan, ...], held: tuple[str, ...], state: tuple[str, ...]
) -> dict[StepName, str]:
    """The sentences of a failback's steps; ``names`` are the flow's: groups move from its target to its source."""
    home, away = names.source, names.target
    groups = few([plan.group for plan in plans]) or "no group"
    are = "is" if len(plans) == 1 else "are"
    read = "reads" if len(plans) == 1 else "read"
    committed = _translatable(plans)
    topics, them = few(held), "it" if len(held) == 1 else "them"
    return {
        StepName.CHECK: f"check that {groups} {are} idle on {away} and on {home}",
        StepName.DRAIN: (
            f"mirror the remaining records of {topics} from {home} to {away}; skip a topic that is already marked as"
            " failed over"
            if held
            else f"mirror nothing: {_no_mirror(names)}"
        ),
        StepName.MARK: (
            f"mark {topics} as failed over: {names.flow} does not mirror {them} until all groups that read {them}"
            f" are back on {home}"
            if held
            else f"mark no topic as failed over: {_no_mirror(names)}"
        ),
        StepName.FIND: (
            f"find the diverged tail: records of {topics} on {home} that were never mirrored to {away}"
            if held
            else f"skip this step: {_no_mirror(names)}"
        ),
        StepName.DRAIN_BACK: (
            f"mirror to {home} the records that were produced on {away} in topics that {groups} {read}"
            + (f", and the state in {few(state)}" if state else "")
        ),
        StepName.TRANSLATE: (
            f"translate {counted(committed, 'committed offset')} of {away} to offsets of {home}"
            + (
                ": a group that has read all mirrored records continues after the diverged tail"
                if held
                else ""
            )
        ),
        StepName.VALIDATE: f"check every offset against the logs of {home}, and that no client committed"
        " meanwhile",
        StepName.WRITE: f"commit the offsets of {groups} on {home}",
        StepName.READ_BACK: f"read the offsets back from {home} with another client",
        StepName.HAND_OVER: f"store that {groups} {are} on {home} again",
        StepName.REPORT: "measure the operation, and list the next steps",
    }


def _translatable(plans: Iterable[GroupPlan]) -> int:
    """The number of commits in partitions that have a counterpart on the other cluster."""
    return sum(
        None not in (verdict.commit, verdict.source, verdict.target)
        for plan in plans
        for verdict in plan.verdicts
    )


def _no_mirror(names: Names) -> str:
    """Why a plan without topics of the flow has nothing to do in a step."""
    return f"these groups read no topic that {names.flow} mirrors"


def _salvaging(names: Names, held: tuple[str, ...], diverged: Diverged) -> dict[StepName, str]:
    """The sentence of the step that writes the diverged tail."""
    if not held:
        return {StepName.EXPORT: f"skip this step: {_no_mirror(names)}"}
    where = f"topic {diverged.topic} of {names.source}" if isinstance(diverged, ToTopic) else "a file"
    return {StepName.EXPORT: f"write the diverged records to {where}, before any other write"}


def _releasing(names: Names, held: tuple[str, ...], released: tuple[str, ...]) -> str:
    """The sentence of the step that lets the flow mirror topics again after the groups have moved."""
    if held and not released:
        them = "it" if len(held) == 1 else "them"
        return f"leave {few(held)} failed over: other groups still read {them} on {names.target}"
    if not released:
        return f"release no topic: {_no_mirror(names)}"
    return f"let {names.flow} mirror {few(released)} again, including the diverged tail"


def _going_away(
    mode: Mode, names: Names, plans: tuple[GroupPlan, ...], state: tuple[str, ...]
) -> dict[StepName, str]:
    groups = few([plan.group for plan in plans]) or "no group"
    belong, are, them = ("belongs", "is", "it") if len(plans) == 1 else ("belong", "are", "them")
    committed = _translatable(plans)
    moved = sorted({*topics_of(plans), *state})
    topics, marked = few(moved), "it" if len(moved) == 1 else "them"
    planned = mode is Mode.PLANNED
    return {
        StepName.CHECK: (
            f"check that {groups} {are} stopped on {names.source} and idle on {names.target}"
            if planned
            else f"check that {groups} {are} idle on {names.target}; {names.source} is not contacted"
        ),
        StepName.MARK: (
            f"mark {topics} as failed over: {names.flow} does not mirror {marked} until `mmtool failover failback` or"
            " `mmtool failover release`"
            if moved
            else f"mark no topic as failed over: {_no_mirror(names)}"
        ),
        StepName.DRAIN: (
            f"mirror until {names.target} holds every record of {topics} on {names.source}"
            if moved
            else f"mirror nothing: {_no_mirror(names)}"
        ),
        StepName.TRANSLATE: (
            f"translate {counted(committed, 'committed offset')} of {names.source} to offsets of {names.target}"
            if planned
            else f"translate {counted(committed, 'offset')} of {names.source} to offsets of {names.target}, by the last"
            f" checkpoints on {names.target}"
        ),
        StepName.VALIDATE: (
            f"check every offset against the logs of {names.target}, and that no client committed meanwhile"
        ),
        StepName.PROVE: (
            "check that the records before and after "
            + ("each exact offset" if committed <= MOST_PROVEN else f"{MOST_PROVEN:,} of the exact offsets")
            + (f", and the last record of {few(state)}," if state else "")
            + f" are the same on {names.source} and on {names.target}"
        ),
        StepName.WRITE: f"commit the offsets of {groups} on {names.target}",
        StepName.READ_BACK: f"read the offsets back from {names.target} with another client",
        StepName.HAND_OVER: f"store that {groups} now {belong} to {names.target}: offset sync stops for {them}",
        StepName.REPORT: "measure the operation, and list the next steps",
    }


def _drilling(names: Names, plans: tuple[GroupPlan, ...], state: tuple[str, ...]) -> dict[StepName, str]:
    """The sentences of a drill's steps: those of a planned failover, except for the steps that differ."""
    shadows = few([plan.group for plan in plans]) or "no group"
    return {
        **_going_away(Mode.PLANNED, names, plans, state),
        StepName.CHECK: f"read the groups' committed offsets on {names.source}; the groups may be active",
        StepName.WRITE: f"commit the offsets on {names.target} for copies of the groups: {shadows}",
        StepName.READ: (
            f"read the first records after each offset on {names.target}, and compare them with"
            f" {names.source}'s"
        ),
        StepName.CLEAN_UP: f"delete the copies of the groups on {names.target}",
        StepName.REPORT: "measure what a planned failover and an emergency failover would cost now",
    }


def topics_of(plans: Iterable[GroupPlan]) -> list[str]:
    """The flow's topics in plans, by their names on the source: partitions with a name on both clusters."""
    verdicts = [verdict for plan in plans for verdict in plan.verdicts]
    return sorted({v.source.topic for v in verdicts if v.source is not None and v.target is not None})
