"""``mmtool status``: where flows stand."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands import _options as options
from mmtool.errors import UsageError
from mmtool.output import Column, OutputFormat, Result, finish, rows_that_fit, stdout_is_tty, watch

if TYPE_CHECKING:
    from mmtool.errors import MmtoolError
    from mmtool.insight.status import Status

Watch = Annotated[
    bool, typer.Option("--watch", help="Look again and again; with -o json one document per line.")
]
Every = Annotated[
    float,
    typer.Option(
        "--every", metavar="SECONDS", min=0.1, help="With --watch: so long from one look to the next."
    ),
]
MaxLag = Annotated[
    float | None,
    typer.Option(
        "--max-lag-seconds",
        metavar="N",
        min=0,
        help="End with 4 unless every partition is known to lag no longer than this.",
    ),
]

_COLUMNS = (
    Column("source"),
    Column("target"),
    Column("topic"),
    Column("partition"),
    Column("target_topic", essential=False),
    Column("upstream_position", essential=False),
    Column("downstream_position", essential=False),
    Column("records", essential=False),
    Column("bytes", essential=False),
    Column("lag_records"),
    Column("lag_seconds"),
    Column("state"),
    Column("reason"),
)


def status(
    *,
    config: options.Config = None,
    source: options.Source = None,
    target: options.Target = None,
    topic: options.Topic = None,
    watching: Watch = False,
    every: Every = 2.0,
    max_lag_seconds: MaxLag = None,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Say where flows stand, from any host: who runs them, and every partition's position and lag."""
    from mmtool.commands._wiring import watched_flows
    from mmtool.insight.status import look_at_all
    from mmtool.insight.status_report import gate

    if watching and max_lag_seconds is not None:
        raise UsageError("--max-lag-seconds looks once, --watch for ever", remedy="leave one of them out")
    flows = watched_flows(config, source, target, topic, timeout)
    found = look_at_all(flows)
    if watching and found.error is None:
        later = iter(lambda: look_at_all(flows), None)
        watch((_result(look, output, look.others.errors) for look in chain([found], later)), output, every)
    else:
        others = tuple(error for error in found.others.errors if error is not found.error)
        finish(_result(found, output, others), output, found.error or gate(found.rows, max_lag_seconds))


def _result(found: Status, output: OutputFormat, errors: tuple[MmtoolError, ...]) -> Result:
    from mmtool.insight.status_report import headline, on_screen

    rows, left_out = found.documents(), ""
    if output is OutputFormat.TABLE and stdout_is_tty():
        rows, left_out = on_screen(found.rows, rows_that_fit(len(found.flows)))
    return Result(
        "status",
        rows,
        _COLUMNS,
        warnings=found.others.warnings,
        errors=errors,
        headlines=[headline(flow) for flow in found.flows],
        summary=left_out,
    )
