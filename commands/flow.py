"""``mmtool flow``: seek, forget or rebuild a flow's stored state; pause and resume its topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands import _options as options
from mmtool.commands._connections import destination, one_flow
from mmtool.commands._dialogue import is_agreed
from mmtool.errors import UsageError
from mmtool.output import Column, OutputFormat, Result, finish, talk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta

    from mmtool.insight.flow_now import FlowNow
    from mmtool.plan.flow.moves import FlowRow
    from mmtool.replication.flow_state.flow_moves import MoveRehearsal
    from mmtool.replication.flow_state.rebuild import Rebuilt

app = typer.Typer(no_args_is_help=True)

To = Annotated[
    str | None,
    options.selection_option(
        "--to",
        metavar="POSITION",
        help="Where to continue: earliest, latest, a source offset, or a time with its zone, for example"
        " 2026-01-31T12:00:00Z.",
    ),
]
Csv = Annotated[
    Path | None,
    options.selection_option(
        "--csv",
        metavar="FILE",
        help="File of source offsets, in the format of Kafka's reset file: topic,partition,offset; instead of"
        " --to and --topic.",
    ),
]
Why = Annotated[str, options.reason_option("the pause, shown by `mmtool status`")]

_WHERE = (
    Column("topic", elide=True),
    Column("partition"),
    Column("target_topic", essential=False, elide=True),
)
_MOVED = (
    *_WHERE,
    Column("upstream_before"),
    Column("upstream_after"),
    Column("downstream_after", essential=False),
)
_DONE = (Column("action"), Column("reason"))
COLUMNS = (
    *_MOVED,
    Column("records_skipped", title="SKIPPED"),
    Column("records_repeated", title="REPEATED"),
    *_DONE,
)
REBUILT = (*_MOVED, Column("records_mapped", title="MAPPED"), *_DONE)
HELD = (
    *_WHERE,
    Column("upstream_after", title="UPSTREAM-POSITION"),
    Column("action"),
    Column("state"),
    Column("reason", note=True),
)


@app.command()
def seek(
    *,
    where: options.ChosenFlow,
    topic: options.Topic = None,
    to: To = None,
    csv: Csv = None,
    execution: options.Execution,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Set the source offset where mirroring continues: forward to skip records, back to mirror records again.

    Give --to or --csv. Records that are mirrored again are on the target twice; with mmtool.offsets = same, mirroring
    can only move forward. Stop `mmtool replicate` before --execute.
    """
    from mmtool.replication.flow_state.flow_moves import execute as run
    from mmtool.replication.flow_state.flow_moves import rehearse_seek

    position, topics = destination(to, csv, topic or [])
    flow = _seen(where, timeout, topics)
    found = rehearse_seek(flow, position)
    _do("flow seek", found, lambda: run(found, talk), execution)


@app.command()
def forget(
    *,
    where: options.ChosenFlow,
    topic: options.ForgottenTopic = None,
    execution: options.Execution,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Delete the stored positions and offset maps of topics; the next start of `mmtool replicate` mirrors them again.

    Mirroring restarts at mmtool.start (default: the earliest record). Records that are mirrored again are on the target
    twice. Until a record is mirrored again, commits at its offset cannot be translated. Stop
    `mmtool replicate` before --execute.
    """
    from mmtool.replication.flow_state.flow_moves import execute as run
    from mmtool.replication.flow_state.flow_moves import rehearse_forget

    flow = _seen(where, timeout, past=True)
    found = rehearse_forget(flow, topic or ())
    _do("flow forget", found, lambda: run(found, talk), execution)


@app.command()
def rebuild(
    *,
    where: options.ChosenFlow,
    topic: options.RebuiltTopic = None,
    execution: options.Execution,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Rebuild missing or unreadable offset runs (the map of source to target offsets) from the records on both sides.

    Stop `mmtool replicate` before --execute.
    """
    from mmtool.replication.flow_state.rebuild import execute_rebuild, rehearse_rebuild

    flow = _seen(where, timeout, topic)
    found = rehearse_rebuild(flow, topic or ())
    _do("flow rebuild", found, lambda: execute_rebuild(found, talk), execution)


@app.command()
def pause(
    *,
    where: options.ChosenFlow,
    topic: options.Topic = None,
    reason: Why = "",
    output: options.Output = OutputFormat.TABLE,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Pause topics, or the whole flow, at once; restarts do not end the pause, only `mmtool flow resume` does."""
    from mmtool.replication.flow_state import pause as pausing

    held = pausing.pause(_seen(where, timeout, topic), reason)
    finish(_result("flow pause", held.rows, HELD, applied=bool(held.words)), output, None)
    talk(
        "a running `mmtool replicate` stops mirroring the paused topics within seconds"
        if held.words
        else "nothing was changed: the topics are already paused"
    )


@app.command()
def resume(
    *,
    where: options.ChosenFlow,
    topic: options.PausedTopic = None,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Resume paused topics at once, at the offsets where they stopped."""
    from mmtool.replication.flow_state import pause as pausing

    held = pausing.resume(_seen(where, timeout, topic))
    finish(_result("flow resume", held.rows, HELD, applied=bool(held.words)), output, None)
    talk(
        "a running `mmtool replicate` mirrors the resumed topics again within seconds"
        if held.words
        else "nothing was changed: none of the topics was paused"
    )


def _seen(
    where: options.ChosenFlow,
    timeout: timedelta,
    topics: Iterable[str] | None = None,
    *,
    past: bool = False,
) -> FlowNow:
    """The flow that is meant, once its clusters have answered.

    Raises:
        UsageError: Another system mirrors it.
    """
    from mmtool.insight.flow_now import connect
    from mmtool.insight.translation import look

    flow = one_flow(where)
    if flow.is_external:
        raise UsageError(
            f"{flow.name} has mmtool.mirror = external: mmtool does not mirror its topics, so it can neither stop nor"
            " move the mirrors",
            remedy="use the system that keeps the mirrors",
        )
    return look(connect(flow, timeout), tuple(topics or ()), past=past)


def _do(
    command: str,
    found: MoveRehearsal | Rebuilt,
    run: Callable[[], list[FlowRow]],
    execution: options.Execution,
) -> None:
    """Rehearsed, and executed when that was asked for, is possible, and changes anything."""
    from mmtool.plan.words import counted

    columns = REBUILT if command == "flow rebuild" else COLUMNS

    def shown() -> Result:
        return _result(command, found.rows, columns)

    rows = [row for row in found.rows if row.action != "keep"]
    question = f"change the stored state of {found.flow.identity.name} for {counted(len(rows), 'partition')}"
    for sentence in found.sentences:
        talk(sentence)
    nothing = "" if found.is_needed else "the stored state needs no change"
    if found.refusal is not None:
        nothing = found.refusal.message
    before = "stop `mmtool replicate` and "
    if is_agreed(shown, question, execution, refusal=found.refusal, nothing=nothing, before=before):
        finish(_result(command, run(), columns, applied=True), execution.output, None)
        talk("done; start `mmtool replicate` again")


def _result(
    command: str, rows: Iterable[FlowRow], columns: tuple[Column, ...], *, applied: bool = False
) -> Result:
    return Result(command, [row._asdict() for row in rows], columns, applied=applied)
