"""A runbook: a plan as a Markdown page, to approve it, to execute it, or to do it by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmtool.output.documents import page_template
from mmtool.plain_text import duration, group_options, shell_line
from mmtool.plan.failover.emergency import costs_of, may_lose
from mmtool.plan.failover.failover_plan import KNOWN_AFTER_DRAIN, drain_cures
from mmtool.plan.failover.steps import POINT_OF_NO_RETURN, Column, Mode, StepName, text_of, topics_of
from mmtool.plan.groups.offsets import topic_names
from mmtool.plan.runbook.by_hand import Hands
from mmtool.plan.words import ID_PLACEHOLDER, at_most, code, counted, few, moment, prose, row
from mmtool.translation.answers import Bounded, Exact, Refused, Skipping
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mmtool.plan.failover.failover_plan import FailoverPlan
    from mmtool.plan.failover.steps import Step
    from mmtool.plan.groups.offsets import GroupPlan, OffsetVerdict
    from mmtool.plan.runbook.by_hand import ToolCluster
    from mmtool.plan.runbook.plan_file import SavedPlan
    from mmtool.translation.types import TopicPartition

_NAMED = 10


@dataclass(frozen=True, slots=True)
class Runbook:
    """The facts from which the page is made.

    Attributes:
        saved: The plan, with its warnings.
        source, target: The clusters as arguments of Kafka's tools.
        config: The path of the properties file, as given to mmtool.
        meant: The options that select this plan: ``--plan FILE``, or its groups.
    """

    saved: SavedPlan
    source: ToolCluster
    target: ToolCluster
    config: str
    meant: tuple[str, ...]

    @property
    def hands(self) -> Hands:
        return Hands(self.saved.plan, self.source, self.target)

    @property
    def is_kept(self) -> bool:
        """Whether the page executes a plan file (``--plan``), which keeps its operation's id."""
        return "--plan" in self.meant

    @property
    def operation(self) -> str:
        """The operation's id; a placeholder without a plan file, because executing makes a plan with another id."""
        return self.saved.plan.operation_id if self.is_kept else ID_PLACEHOLDER

    def command(self, *arguments: str) -> str:
        """A command line of mmtool."""
        return shell_line(["mmtool", *arguments, "-c", self.config])

    def on(self, verb: str) -> str:
        """A command line that executes ``verb`` (resume, cancel, rollback) on the operation."""
        return self.command("failover", verb, self.operation, "--execute")

    def of_flow(self, *arguments: str, topics: Iterable[str] = (), more: Iterable[str] = ()) -> str:
        """A command line for the flow, or for some of its topics."""
        names = self.saved.plan.names
        named = [word for topic in topics for word in ("--topic", topic)]
        return self.command(*arguments, "-s", names.source, "-t", names.target, *named, *more)


def render(runbook: Runbook) -> str:
    """The runbook as a Markdown page."""
    saved, plan, hands = runbook.saved, runbook.saved.plan, runbook.hands
    accept = ["--accept-data-loss"] if plan.mode is Mode.EMERGENCY and may_lose(plan) else []
    return page_template("mmtool.failover.report", "runbook.md.j2").render(
        runbook=runbook,
        saved=saved,
        plan=plan,
        hands=hands,
        facts=_facts(runbook),
        costs=costs_of(plan) if plan.mode is Mode.EMERGENCY else None,
        offsets=_offsets(runbook),
        execute=runbook.command("failover", plan.mode, *runbook.meant, *accept, "--execute"),
        steps=[_step(step, runbook) for step in plan.steps],
        renamed=_renamed(plan),
        failback=runbook.of_flow("failover", "failback", more=group_options(saved.groups)),
        unknown=UNKNOWN,
        code=code,
        prose=prose,
        row=row,
        duration=duration,
    )


def _facts(runbook: Runbook) -> Iterator[tuple[str, str]]:
    """Yield the rows of the page's first table."""
    saved, plan = runbook.saved, runbook.saved.plan
    if runbook.is_kept:
        yield "operation", code(plan.operation_id)
    yield "groups", _named(saved.groups)
    yield f"topics, as {prose(plan.names.source)} names them", _named(topics_of(plan.groups))
    here, there = (runbook.hands.here, saved.seen["here"]), (runbook.hands.there, saved.seen["there"])
    for name, (place, side) in (("from", here), ("to", there)):
        cluster = "unknown" if side["cluster_id"] is None else code(side["cluster_id"])
        yield name, f"{place.alias}, {code(place.bootstrap)}, cluster {cluster}"
    for option, *values in saved.option_words:
        yield code(option), prose(" ".join(values))
    by, version = prose(saved.origin.by), prose(saved.origin.version)
    yield "rehearsed", f"{moment(saved.origin.at_ms)} by {by}, mmtool {version}"


def _named(names: Iterable[str]) -> str:
    return few([code(name) for name in names], _NAMED)


def _offsets(runbook: Runbook) -> Iterator[Sequence[str]]:
    """Yield the rows of the table of offsets, its heading included."""
    here, there = (prose(place.alias) for place in (runbook.hands.here, runbook.hands.there))
    headings = (
        "group",
        f"partition on {here}",
        f"committed on {here}",
        f"partition on {there}",
        f"committed on {there} now",
        "continues at",
        "how",
    )
    yield headings
    yield ["---"] * len(headings)
    for plan in runbook.saved.plan.groups:
        for verdict in plan.verdicts:
            yield _cells(plan, verdict, runbook.saved.plan.mode)


def _cells(plan: GroupPlan, verdict: OffsetVerdict, mode: Mode) -> Sequence[str]:
    offset, how = _answer(verdict, mode)
    return (
        code(plan.group),
        _place(plan.read_from(verdict)),
        "" if verdict.commit is None else str(verdict.commit.offset),
        _place(plan.written_to(verdict)),
        "" if verdict.before is None else str(verdict.before.offset),
        offset,
        how,
    )


def _place(place: TopicPartition | None) -> str:
    return "" if place is None else code(str(place))


def _answer(verdict: OffsetVerdict, mode: Mode) -> tuple[str, str]:
    if mode is not Mode.EMERGENCY and drain_cures(verdict):
        return "", KNOWN_AFTER_DRAIN
    if verdict.refusal is not None:
        return "", f"not moved: {verdict.refusal}"
    match verdict.answer:
        case Exact(offset):
            return str(offset), "exact"
        case Bounded(offset, most):
            return str(offset), f"bounded: reads {at_most(most, 'record')} again"
        case Skipping(offset, most):
            return str(offset), f"skips at most {counted(most, 'record')}"
        case Refused() | None:
            return "", ""


def _step(step: Step, runbook: Runbook) -> dict[str, Any]:
    """A step with its texts, and its commands by hand."""
    plan = runbook.saved.plan
    topics = plan.topics
    if step.name is StepName.RELEASE and plan.released:
        topics = plan.released
    fields = _fields(runbook, step.name, topics)
    return {
        "name": step.name,
        "sentence": step.sentence,
        "is_point_of_no_return": step.name is POINT_OF_NO_RETURN,
        **{column: text_of(step.name, column, plan.case, fields) for column in _COLUMNS},
        "commands": runbook.hands.commands(step.name),
    }


_COLUMNS: tuple[Column, ...] = ("done", "stop", "undo", "by_hand")


def _fields(runbook: Runbook, step: StepName, topics: Sequence[str]) -> dict[str, str]:
    """The values of the fields of a step's texts; those after ``operation`` are commands."""
    flow = runbook.saved.plan.names
    is_back = step is StepName.DRAIN_BACK
    return {
        "here": runbook.hands.here.alias,
        "there": runbook.hands.there.alias,
        "target": runbook.target.alias,
        "groups": few([code(name) for name in runbook.saved.groups]) or "no group",
        "topics": few([code(name) for name in topics]) or "the groups' topics",
        "operation": runbook.operation,
        **{verb: runbook.on(verb) for verb in ("resume", "cancel", "rollback")},
        "show": runbook.command("failover", "show", runbook.operation),
        "release": runbook.of_flow("failover", "release", topics=topics, more=["--execute"]),
        "pause": runbook.of_flow("flow", "pause", topics=topics),
        "status": (
            runbook.command("status", "-s", flow.target, "-t", flow.source)
            if is_back
            else runbook.of_flow("status", topics=topics)
        ),
        "verify": runbook.of_flow("verify", topics=topics),
    }


def _renamed(plan: FailoverPlan) -> str:
    """The topics that consumers must subscribe to on the destination; empty if all names stay."""
    pairs = topic_names(plan.groups)
    beside = "and" if plan.moves_producers else "instead of"
    return few([f"{code(there)} {beside} {code(here)}" for here, there in pairs if here != there], _NAMED)
