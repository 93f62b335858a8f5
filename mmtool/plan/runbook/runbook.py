"""A runbook: a plan as a Markdown page, to approve it, to execute it, or to do it by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.plain_text import duration, group_options, shell_line
from mmtool.plan.failover.emergency import costs_of, may_lose
from mmtool.plan.failover.failover_plan import KNOWN_AFTER_DRAIN, drain_cures
from mmtool.plan.failover.fence_plan import FenceKind
from mmtool.plan.failover.steps import POINT_OF_NO_RETURN, Mode, StepName, topics_of
from mmtool.plan.runbook.by_hand import Hands, read_from
from mmtool.plan.runbook.guides import NOT_RELEASED, NOTHING_TO_RELEASE, guide_of
from mmtool.plan.words import ID_PLACEHOLDER, code, counted, few, joined, moment, prose, row
from mmtool.translation.answers import Bounded, Exact, Refused, Skipping
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mmtool.plan.failover.steps import Step
    from mmtool.plan.groups.offsets import GroupPlan, Verdict
    from mmtool.plan.runbook.by_hand import Place
    from mmtool.plan.runbook.fingerprint import SideSeen
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
    source: Place
    target: Place
    config: str
    meant: tuple[str, ...]

    @property
    def hands(self) -> Hands:
        return Hands(self.saved.plan, self.saved.names, self.source, self.target)

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
        names = self.saved.names
        named = [word for topic in topics for word in ("--topic", topic)]
        return self.command(*arguments, "-s", names.source, "-t", names.target, *named, *more)


def render(runbook: Runbook) -> str:
    """The runbook as a Markdown page."""
    parts = (_head, _preconditions, _costs, _table, _execution, _steps, _ways_on, _notes)
    return "\n".join(line for part in parts for line in [*part(runbook), ""])


def _head(runbook: Runbook) -> Iterator[str]:
    saved, plan = runbook.saved, runbook.saved.plan
    groups = few([code(name) for name in saved.groups], _NAMED)
    here, there = runbook.hands.here, runbook.hands.there
    yield f"# {plan.mode.capitalize()}: {here.alias} -> {there.alias}"
    yield ""
    yield "| | |"
    yield "| --- | --- |"
    if runbook.is_kept:
        yield row(("operation", code(plan.operation_id)))
    yield row(("groups", groups))
    topics = few([code(name) for name in topics_of(plan.groups)], _NAMED)
    yield row((f"topics, as {prose(saved.names.source)} names them", topics))
    yield row(("from", f"{here.alias}, {code(here.bootstrap)}, cluster {_id(saved.seen.here)}"))
    yield row(("to", f"{there.alias}, {code(there.bootstrap)}, cluster {_id(saved.seen.there)}"))
    for option, *values in saved.option_words:
        yield row((code(option), prose(" ".join(values))))
    by, version = prose(saved.origin.by), prose(saved.origin.version)
    yield row(("rehearsed", f"{moment(saved.origin.at_ms)} by {by}, mmtool {version}"))


def _id(side: SideSeen) -> str:
    return "unknown" if side.cluster_id is UNKNOWN else code(side.cluster_id)


def _preconditions(runbook: Runbook) -> Iterator[str]:
    saved = runbook.saved
    here, there = runbook.hands.here.alias, runbook.hands.there.alias
    yield "## Before you begin"
    yield ""
    for guard in saved.plan.guards:
        yield f"- [ ] **Not executable until this is fixed**: {prose(joined(guard.sentence, guard.remedy))}"
    if saved.plan.mode is Mode.EMERGENCY:
        yield f"- [ ] An operator has decided that {here} is lost: no step contacts it."
        yield f"- [ ] The consumers of every group are kept from starting on {here} when it returns."
    else:
        yield (
            f"- [ ] The consumers of every group are stopped on {here}, and those that use `assign()` as well:"
            " mmtool cannot list them."
        )
    yield f"- [ ] No consumer of these groups runs on {there}."
    logins = " and ".join(f"`{place.login_file}`" for place in (runbook.hands.here, runbook.hands.there))
    yield f"- [ ] For steps by hand: {logins} exist, with the login properties for Kafka's tools."


def _costs(runbook: Runbook) -> Iterator[str]:
    saved = runbook.saved
    yield "## Records lost and read again"
    yield ""
    here, there = runbook.hands.here.alias, runbook.hands.there.alias
    if saved.plan.mode is Mode.EMERGENCY:
        costs = costs_of(saved.plan)
        age = "unknown" if costs.oldest_seconds is UNKNOWN else duration(costs.oldest_seconds)
        yield f"- Records lost: {costs.lost.words(here)}"
        expected = "" if costs.expected is UNKNOWN else f"{costs.expected:,} expected, "
        yield f"- Records read again: {expected}at most {costs.reread:,}"
        yield f"- Age of the oldest checkpoint: {age}"
    else:
        yield (
            f"- Records lost: none. Offsets are written after {there} holds every record that {here} has in these"
            " topics."
        )
        yield "- Records read again: none at `exact` offsets; at `bounded` ones at most the number in the table below."
    for warning in saved.warnings:
        yield f"- {prose(warning)}"


def _table(runbook: Runbook) -> Iterator[str]:
    yield "## Offsets of each group"
    yield ""
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
    yield row(headings)
    yield row(["---"] * len(headings))
    for plan in runbook.saved.plan.groups:
        for verdict in plan.verdicts:
            yield row(_cells(plan, verdict, runbook.saved.plan.mode))


def _cells(plan: GroupPlan, verdict: Verdict, mode: Mode) -> Sequence[str]:
    offset, how = _answer(verdict, mode)
    return (
        code(plan.group),
        _place(read_from(plan, verdict)),
        "" if verdict.commit is None else str(verdict.commit.offset),
        _place(plan.written_to(verdict)),
        "" if verdict.before is None else str(verdict.before.offset),
        offset,
        how,
    )


def _place(place: TopicPartition | None) -> str:
    return "" if place is None else code(str(place))


def _answer(verdict: Verdict, mode: Mode) -> tuple[str, str]:
    if mode is not Mode.EMERGENCY and drain_cures(verdict):
        return "", KNOWN_AFTER_DRAIN
    if verdict.refusal is not None:
        return "", f"not moved: {verdict.refusal}"
    match verdict.answer:
        case Exact(offset):
            return str(offset), "exact"
        case Bounded(offset, most):
            return str(offset), f"bounded: reads at most {counted(most, 'record')} again"
        case Skipping(offset, most):
            return str(offset), f"skips at most {counted(most, 'record')}"
        case Refused() | None:
            return "", ""


def _execution(runbook: Runbook) -> Iterator[str]:
    plan = runbook.saved.plan
    accept = ["--accept-data-loss"] if plan.mode is Mode.EMERGENCY and may_lose(plan) else []
    yield "## Execute"
    yield ""
    if runbook.is_kept:
        yield (
            "If the clusters or groups have changed since the rehearsal, mmtool refuses the plan as stale (exit code"
            " 5) and changes nothing."
        )
    else:
        yield (
            "This command plans again, so its offsets may differ from this page. To execute exactly the plan of a"
            " rehearsal, rehearse with `--out FILE`, then execute with `--plan FILE`."
        )
    yield from _block([runbook.command("failover", plan.mode, *runbook.meant, *accept, "--execute")])


def _steps(runbook: Runbook) -> Iterator[str]:
    yield "## Steps"
    for number, step in enumerate(runbook.saved.plan.steps, 1):
        yield ""
        if step.name is POINT_OF_NO_RETURN:
            yield (
                "> **Point of no return.** Before this step, a failure leaves the groups on both"
                f" clusters unchanged. From this step on, `{runbook.on('resume')}` completes the move, and"
                f" `{runbook.on('rollback')}` undoes it."
            )
            yield ""
        yield from _step(number, step, runbook)


def _step(number: int, step: Step, runbook: Runbook) -> Iterator[str]:
    plan = runbook.saved.plan
    guide = guide_of(plan.mode, step.name, plan.diverged, plan.fence.kind)
    if step.name is StepName.RELEASE and not plan.released:
        guide = NOT_RELEASED if plan.held else NOTHING_TO_RELEASE
    names = _names(runbook, _topics(runbook, step.name))
    yield f"### {number}. {step.name}"
    yield ""
    yield f"- **Does**: {prose(step.sentence)}"
    yield f"- **Done when**: {guide.done_when.format_map(names)}"
    yield f"- **Stop when**: {guide.stop_when.format_map(names)}"
    yield f"- **Undo**: {guide.way_back.format_map(names)}"
    yield f"- **By hand**: {guide.by_hand.format_map(names)}"
    yield from _block(runbook.hands.commands(step.name))


def _topics(runbook: Runbook, name: StepName) -> Sequence[str]:
    """The topics that a step is about, by their names on the flow's source."""
    plan = runbook.saved.plan
    if plan.mode is not Mode.FAILBACK:
        return sorted({*topics_of(plan.groups), *plan.state})
    return plan.released if name is StepName.RELEASE and plan.released else plan.held


def _names(runbook: Runbook, topics: Sequence[str]) -> dict[str, str]:
    """The values of `mmtool.plan.runbook.guides.FIELDS`."""
    flow = runbook.saved.names
    return {
        "here": runbook.hands.here.alias,
        "there": runbook.hands.there.alias,
        "groups": few([code(name) for name in runbook.saved.groups]) or "no group",
        "topics": few([code(name) for name in topics]) or "the groups' topics",
        "operation": runbook.operation,
        **{verb: runbook.on(verb) for verb in ("resume", "cancel", "rollback")},
        "show": runbook.command("failover", "show", runbook.operation),
        "release": runbook.of_flow("failover", "release", topics=topics, more=["--execute"]),
        "pause": runbook.of_flow("flow", "pause", topics=topics),
        "status": runbook.of_flow("status", topics=topics),
        "status_back": runbook.command("status", "-s", flow.target, "-t", flow.source),
        "verify": runbook.of_flow("verify", topics=topics),
    }


def _block(commands: Iterable[str]) -> Iterator[str]:
    lines = list(commands)
    if lines:
        yield from ["", "```sh", *lines, "```"]


def _ways_on(runbook: Runbook) -> Iterator[str]:
    yield "## Show, resume, cancel or roll back"
    yield ""
    yield f"When the operation has started, the journal on {runbook.saved.names.target} has it:"
    commands = (
        [] if runbook.is_kept else [runbook.of_flow("failover", "list") + f"  # shows {ID_PLACEHOLDER}"]
    )
    yield from _block(
        [
            *commands,
            runbook.command("failover", "show", runbook.operation) + "  # its state, and the next commands",
            runbook.on("resume") + "  # continue after a failure or a crash, from any host",
            runbook.on("cancel") + "  # end it before the point of no return",
            runbook.on("rollback") + "  # after the point of no return: restore the previous offsets",
        ]
    )


def _notes(runbook: Runbook) -> Iterator[str]:
    plan, here, there = runbook.saved.plan, runbook.hands.here, runbook.hands.there
    yield "## Afterwards"
    yield ""
    yield f"- Start the consumers with `bootstrap.servers={there.bootstrap}`{_renamed(runbook)}."
    if plan.mode is Mode.EMERGENCY:
        yield (
            f"- Let producers write to {there.alias}. Records that never reached {there.alias} are still on"
            f" {here.alias} when {here.alias} returns. {code(_failback(runbook))} rehearses the failback, which saves"
            " them; add `--execute` to do it."
        )
    elif plan.fence.kind is not FenceKind.NONE:
        yield f"- Start the producers with `bootstrap.servers={there.bootstrap}`. {_fence_stays(runbook)}"
    else:
        yield (
            f"- Keep `mmtool replicate` running for the flow {here.alias}->{there.alias} while producers still write"
            f" to {here.alias}."
        )


def _failback(runbook: Runbook) -> str:
    groups = group_options(runbook.saved.groups)
    return runbook.of_flow("failover", "failback", more=groups)


def _fence_stays(runbook: Runbook) -> str:
    here = runbook.hands.here.alias
    match runbook.saved.plan.fence.kind:
        case FenceKind.ACL if runbook.saved.plan.fence.denies:
            return f"The DENY ACLs on {here} stay: the commands after `# to undo:` in step fence remove them."
        case FenceKind.HOOK:
            return f"What the hook `mmtool.hook.fence` did on {here} stays until you undo it."
        case _:
            return f"Let no producer write to {here} again: no ACL stops it."


def _renamed(runbook: Runbook) -> str:
    found = [
        (read_from(plan, verdict), plan.written_to(verdict))
        for plan in runbook.saved.plan.groups
        for verdict in plan.verdicts
    ]
    pairs = sorted({(here.topic, there.topic) for here, there in found if here and there})
    beside = "and" if runbook.saved.plan.moves_producers else "instead of"
    changed = [f"{code(there)} {beside} {code(here)}" for here, there in pairs if here != there]
    return f"; they must subscribe to {few(changed, _NAMED)}" if changed else ""
