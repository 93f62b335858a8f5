"""A plan as a Markdown page: for who executes it, for who signs it, and for who has to do it by hand."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from mmtool.plan.failover.emergency import costs_of
from mmtool.plan.failover.failover_plan import KNOWN_AFTER_DRAIN, drain_cures
from mmtool.plan.failover.steps import POINT_OF_NO_RETURN, Mode, topics_of
from mmtool.plan.runbook.by_hand import Hands, read_from
from mmtool.plan.runbook.guides import guide_of
from mmtool.plan.words import few, moment
from mmtool.translation.answers import Bounded, Exact, Refused, Skipping
from mmtool.translation.known import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mmtool.plan.failover.steps import Step
    from mmtool.plan.groups.offsets import GroupPlan, Verdict
    from mmtool.plan.runbook.by_hand import Place
    from mmtool.plan.runbook.fingerprint import SideSeen
    from mmtool.plan.runbook.plan_file import SavedPlan
    from mmtool.translation.types import TopicPartition

_NAMED = 10
_HEADINGS = ("group", "partition", "committed", "moves to", "current offset", "continues at", "how")


@dataclass(frozen=True, slots=True)
class Runbook:
    """What the page is made of.

    Attributes:
        saved: The plan, and what was said beside it.
        source, target: The clusters as Kafka's tools are told of them.
        config: The properties file, as mmtool is told of it.
        meant: The options that mean this plan: ``--plan FILE``, or its groups.
    """

    saved: SavedPlan
    source: Place
    target: Place
    config: str
    meant: tuple[str, ...]

    @property
    def hands(self) -> Hands:
        return Hands(self.saved.plan, self.saved.names, self.source, self.target)

    def command(self, *arguments: str) -> str:
        """A command line of mmtool's."""
        return " ".join(["mmtool", *map(quote, arguments), "-c", quote(self.config)])


def render(runbook: Runbook) -> str:
    """The whole page."""
    parts = (_head, _preconditions, _costs, _table, _execution, _steps, _ways_on, _notes)
    return "\n".join(line for part in parts for line in [*part(runbook), ""])


def _head(runbook: Runbook) -> Iterator[str]:
    saved, plan = runbook.saved, runbook.saved.plan
    groups = few([_code(name) for name in saved.groups], _NAMED)
    here, there = runbook.hands.here, runbook.hands.there
    yield f"# {plan.mode.capitalize()}: {here.alias} -> {there.alias}"
    yield ""
    yield "| | |"
    yield "| --- | --- |"
    yield f"| operation | `{plan.operation_id}` |"
    yield f"| groups | {groups} |"
    yield f"| topics | {few([_code(name) for name in topics_of(plan.groups)], _NAMED)} |"
    yield f"| from | {here.alias}, {_code(here.bootstrap)}, cluster {_id(saved.seen.here)} |"
    yield f"| to | {there.alias}, {_code(there.bootstrap)}, cluster {_id(saved.seen.there)} |"
    for name, value in saved.options.items():
        yield f"| `--{name}` | {_cell(value)} |"
    yield f"| rehearsed | {moment(saved.origin.at_ms)} by {_cell(saved.origin.by)}, mmtool {saved.origin.version} |"


def _id(side: SideSeen) -> str:
    return "unknown" if side.cluster_id is UNKNOWN else f"`{side.cluster_id}`"


def _preconditions(runbook: Runbook) -> Iterator[str]:
    saved = runbook.saved
    here, there = runbook.hands.here.alias, runbook.hands.there.alias
    yield "## Before you begin"
    yield ""
    for guard in saved.plan.guards:
        yield f"- [ ] **Not executable until this is fixed**: {_cell(guard.sentence)}"
    if saved.plan.mode is Mode.EMERGENCY:
        yield f"- [ ] An operator has decided that {here} is lost: no step contacts it."
        yield f"- [ ] The consumers of every group are kept from starting on {here} when it returns."
    else:
        yield f"- [ ] The consumers of every group are stopped on {here}, those with `assign()` as well."
    yield f"- [ ] No consumer of these groups runs on {there}."
    logins = " and ".join(f"`{place.login_file}`" for place in (runbook.hands.here, runbook.hands.there))
    yield f"- [ ] For steps by hand: {logins} with the login properties of Kafka's tools."


def _costs(runbook: Runbook) -> Iterator[str]:
    saved = runbook.saved
    yield "## Records lost and read again"
    yield ""
    here, there = runbook.hands.here.alias, runbook.hands.there.alias
    if saved.plan.mode is Mode.EMERGENCY:
        costs = costs_of(saved.plan)
        lost = "unknown" if costs.lost is UNKNOWN else f"at most {costs.lost:,}"
        age = "unknown" if costs.oldest_seconds is UNKNOWN else f"{costs.oldest_seconds:.0f} s"
        yield f"- Records lost: {lost}"
        expected = "" if costs.expected is UNKNOWN else f"{costs.expected:,} expected, "
        yield f"- Records read again: {expected}at most {costs.reread:,}"
        yield f"- Age of the oldest checkpoint: {age}"
    else:
        yield f"- Records lost: none. Offsets are written after {there} holds every record of {here}."
        yield "- Records read again: none for `exact`; at most the given number for `bounded`."
    for warning in saved.warnings:
        yield f"- {_cell(warning)}"


def _table(runbook: Runbook) -> Iterator[str]:
    yield "## Offsets of each group"
    yield ""
    yield _row(_HEADINGS)
    yield _row(["---"] * len(_HEADINGS))
    for plan in runbook.saved.plan.groups:
        for verdict in plan.verdicts:
            yield _row(_cells(plan, verdict, runbook.saved.plan.mode))


def _cells(plan: GroupPlan, verdict: Verdict, mode: Mode) -> Sequence[str]:
    offset, how = _answer(verdict, mode)
    return (
        _code(plan.group),
        _place(read_from(plan, verdict)),
        "" if verdict.commit is None else str(verdict.commit.offset),
        _place(plan.written_to(verdict)),
        "" if verdict.before is None else str(verdict.before.offset),
        offset,
        how,
    )


def _place(place: TopicPartition | None) -> str:
    return "" if place is None else _code(str(place))


def _answer(verdict: Verdict, mode: Mode) -> tuple[str, str]:
    if mode is not Mode.EMERGENCY and drain_cures(verdict):
        return "", KNOWN_AFTER_DRAIN
    if verdict.refusal is not None:
        return "", str(verdict.refusal)
    match verdict.answer:
        case Exact(offset):
            return str(offset), "exact"
        case Bounded(offset, most):
            return str(offset), f"bounded: reads at most {most:,} again"
        case Skipping(offset, most):
            return str(offset), f"skips at most {most:,}"
        case Refused() | None:
            return "", ""


def _execution(runbook: Runbook) -> Iterator[str]:
    plan = runbook.saved.plan
    accept = ["--accept-data-loss"] if plan.mode is Mode.EMERGENCY and _at_risk(runbook) else []
    yield "## Execute"
    yield ""
    if "--plan" in runbook.meant:
        yield "mmtool refuses the plan as stale when the clusters or groups have changed."
    else:
        yield "mmtool plans again when it executes: use `--out` to execute exactly this plan."
    yield from _block([runbook.command("failover", plan.mode, *runbook.meant, *accept, "--execute")])


def _at_risk(runbook: Runbook) -> bool:
    lost = costs_of(runbook.saved.plan).lost
    return lost is UNKNOWN or lost > 0


def _steps(runbook: Runbook) -> Iterator[str]:
    yield "## Steps"
    for number, step in enumerate(runbook.saved.plan.steps, 1):
        yield ""
        if step.name is POINT_OF_NO_RETURN:
            yield (
                "> **Point of no return.** Before this step, a failure leaves the groups on both"
                " clusters unchanged."
            )
            yield ""
        yield from _step(number, step, runbook)


def _step(number: int, step: Step, runbook: Runbook) -> Iterator[str]:
    saved, plan = runbook.saved, runbook.saved.plan
    guide = guide_of(plan.mode, step.name, plan.diverged, plan.fence.kind)
    names = {
        "here": runbook.hands.here.alias,
        "there": runbook.hands.there.alias,
        "groups": few([_code(name) for name in saved.groups]),
        "topics": few([_code(name) for name in sorted({*topics_of(plan.groups), *plan.state})]),
    }
    yield f"### {number}. {step.name}"
    yield ""
    yield f"- **Does**: {_cell(step.sentence)}"
    yield f"- **Done when**: {guide.done_when.format_map(names)}"
    yield f"- **Stop when**: {guide.stop_when.format_map(names)}"
    yield f"- **Undo**: {guide.way_back.format_map(names)}"
    yield f"- **By hand**: {guide.by_hand.format_map(names)}"
    yield from _block(runbook.hands.commands(step.name))


def _block(commands: Iterable[str]) -> Iterator[str]:
    lines = list(commands)
    if lines:
        yield from ["", "```sh", *lines, "```"]


def _ways_on(runbook: Runbook) -> Iterator[str]:
    saved = runbook.saved
    name = saved.plan.operation_id
    yield "## Show, resume, cancel or roll back"
    yield ""
    yield f"After the start, the journal on {saved.names.target} has the operation:"
    yield ""
    yield "```sh"
    yield runbook.command("failover", "show", name) + "  # its state, and the possible next commands"
    yield runbook.command("failover", "resume", name, "--execute") + (
        "  # continue after a crash, from any host"
    )
    yield (
        runbook.command("failover", "cancel", name, "--execute") + "  # end it before the point of no return"
    )
    yield runbook.command("failover", "rollback", name, "--execute") + "  # restore the previous offsets"
    yield "```"


def _notes(runbook: Runbook) -> Iterator[str]:
    here, there = runbook.hands.here, runbook.hands.there
    yield "## Afterwards"
    yield ""
    yield f"- Start the consumers with `bootstrap.servers={there.bootstrap}`{_renamed(runbook)}."
    if runbook.saved.plan.mode is Mode.EMERGENCY:
        yield (
            f"- Let producers write to {there.alias}; records that are only on {here.alias} stay there"
            " when it returns."
        )
    else:
        yield f"- Keep `mmtool replicate` running while producers still write to {here.alias}."


def _renamed(runbook: Runbook) -> str:
    found = [
        (read_from(plan, verdict), plan.written_to(verdict))
        for plan in runbook.saved.plan.groups
        for verdict in plan.verdicts
    ]
    pairs = sorted({(here.topic, there.topic) for here, there in found if here and there})
    changed = [f"`{there}` for `{here}`" for here, there in pairs if here != there]
    return f"; they subscribe to {few(changed, _NAMED)}" if changed else ""


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    """As code; a name that holds what Markdown would read is shown without its marks."""
    plain = _cell(text)
    return plain if "`" in plain else f"`{plain}`"


def _cell(text: str) -> str:
    """One line that leaves a table's columns alone."""
    return "".join(c if c.isprintable() else "?" for c in text).replace("|", "\\|")
