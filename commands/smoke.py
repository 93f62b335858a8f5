"""``mmtool smoke``: send a canary record through a running flow, for CI."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands import _options as options
from mmtool.errors import CheckFailedError
from mmtool.output import Column, OutputFormat, Result, finish
from mmtool.output.console import switches
from mmtool.plain_text import duration, shell_word

if TYPE_CHECKING:
    from mmtool.errors import MmtoolError
    from mmtool.insight.smoke import Smoked

Junit = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Write a JUnit report, one case per step."),
]
ReadOnly = Annotated[
    bool,
    typer.Option(
        "--read-only",
        help="Write nothing to the source: follow the newest record of a mirrored topic. Default with"
        " emit.heartbeats.enabled = false.",
    ),
]
SmokeTimeout = Annotated[
    timedelta,
    options.duration_option(
        "--timeout", "Time limit of the whole test, for example 90s or 2m (default 2m).", options.COMMON
    ),
]


def _seconds(value: object) -> str:
    return duration(value if isinstance(value, (int, float)) else None)


_COLUMNS = (Column("step"), Column("result"), Column("seconds", human=_seconds), Column("message"))


def smoke(
    *,
    where: options.ChosenFlow,
    read_only: ReadOnly = False,
    junit: Junit = None,
    output: options.Output = OutputFormat.TABLE,
    timeout: SmokeTimeout = timedelta(minutes=2),
) -> None:
    """Send a canary record through a running flow, and read it on the target from a test group's translated offset.

    Writes only to topic mmtool-canary and to a test group, on the source. Exit code 0: every step passed. 4: a step
    failed, or the time limit ended.
    """
    from mmtool.commands._connections import loaded, smoke_flow
    from mmtool.insight import smoke as service
    from mmtool.output.junit import claimed
    from mmtool.runtime.process import ended_by_signals

    flow = loaded(where.config).one(where.source, where.target, to_write=not read_only)
    with claimed(junit), ended_by_signals():
        start = f"mmtool replicate -c {shell_word(str(where.config))} -s {flow.source.alias} -t {flow.target.alias}"
        tried = smoke_flow(flow, timeout, start)
        ended = service.smoke(tried, read_only=read_only or not flow.emit_heartbeats)
    unwritten = None if junit is None else _report(junit, ended)
    rows = [result.row() for result in ended.results]
    others = () if unwritten is None else (unwritten,)
    shown = Result("smoke", rows, _COLUMNS, warnings=ended.warnings, errors=others)
    finish(shown, output, ended.error or unwritten)


def _report(path: Path, ended: Smoked) -> MmtoolError | None:
    """The JUnit report is written; why it could not be."""
    from mmtool.output.junit import Case, junit_xml, write_report

    cases = [
        Case(result.step, result.seconds, result.message, result.passed, not result.tried)
        for result in ended.results
    ]
    document = junit_xml(f"mmtool smoke {ended.flow}", cases, datetime.now(UTC), switches.replaced)
    try:
        write_report(path, document)
    except CheckFailedError as error:
        return error
    return None
