"""``mmtool status``: show the status of flows or of their groups."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from mmtool.commands import _options as options
from mmtool.commands._completion import remember_rows
from mmtool.commands._operations import with_target_group
from mmtool.output import Column, OutputFormat, Result, finish, human, rows_that_fit, stdout_is_tty, watch
from mmtool.output import layout as of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from mmtool.errors import MmtoolError
    from mmtool.insight.group_status import GroupsStatus
    from mmtool.insight.status import Status
    from mmtool.insight.status_report import Trends

Reading = TypeVar("Reading", "Status", "GroupsStatus")

Watch = Annotated[
    bool, typer.Option("--watch", help="Refresh until stopped; with -o json one document per line.")
]
Every = Annotated[
    float,
    typer.Option("--every", metavar="SECONDS", min=0.1, help="With --watch: refresh every SECONDS."),
]
ByGroup = Annotated[
    bool,
    options.selection_option(
        "--groups",
        help="Show the groups: whether each can fail over now, and how many records would be lost or read again.",
    ),
]
Group = Annotated[
    list[str] | None,
    options.group_option(
        "Show only this group (implies --groups); repeatable. Overrides the keys `groups` and `groups.exclude`."
    ),
]
MaxLag = Annotated[
    float | None,
    typer.Option(
        "--max-lag-seconds",
        metavar="N",
        min=0,
        help="Exit with 4 if a partition lags more than N seconds, is halted, was never mirrored, or if its lag is"
        " unknown.",
    ),
]


FirstTimeout = Annotated[timedelta | None, options.timeout_option("30s; for the first answer: 3s")]


def _rounded(number: object) -> str:
    return f"{number:.1f}" if isinstance(number, int | float) else "-"


_SHOWN = {
    column.key: column
    for column in (
        Column("source"),
        Column("target"),
        Column("topic", elide=True),
        Column("partition"),
        Column("target_topic", essential=False, elide=True),
        Column("lag_records"),
        Column("lag_seconds", title="LAG-TIME", human=human.age),
        Column("state", verdict=True),
        Column("reason", note=True, verdict=True),
        Column("records_per_second", essential=False, human=_rounded),
        Column("bytes_per_second", essential=False, human=_rounded),
        Column("state_seconds", title="STATE-AGE", essential=False, human=human.age),
    )
}
"""The columns that are shown in a way of their own; every other field of a row is a column of a wide table."""


def columns() -> tuple[Column, ...]:
    """The columns of the table of partitions: the fields of its rows."""
    from mmtool.plan.flow.positions import PartitionRow
    from mmtool.plan.flow.status import Activity

    keys = [key for key in (*PartitionRow._fields, *Activity._fields) if key != "offsets"]
    return tuple(_SHOWN.get(key, Column(key, essential=False)) for key in keys)


def _moves(row: Mapping[str, object]) -> bool:
    """Whether the group has an offset in the partition that a failover would move."""
    has_offset = row["committed"] is not None or row["checkpoint_age_seconds"] is not None
    return bool(row["blocks_group"] or (row["ready"] and has_offset))


_GROUP_COLUMNS = (
    Column("source", essential=False, of_group=of.same),
    Column("target", essential=False, of_group=of.same),
    Column("group", elide=True, of_group=of.same),
    Column("topic", elide=True, of_group=of.names),
    Column("partition", of_group=of.partitions),
    Column("committed", essential=False),
    Column("lag_records", of_group=of.total(_moves)),
    Column("lag_seconds", title="LAG-TIME", essential=False, human=human.age, of_group=of.largest),
    Column("target_committed", essential=False),
    Column("reread_expected", of_group=of.total(_moves)),
    Column("reread_max", essential=False, of_group=of.total(_moves)),
    Column("rpo_records", of_group=of.total(_moves)),
    Column(
        "checkpoint_age_seconds",
        title="CHECKPOINT-AGE",
        essential=False,
        human=human.age,
        of_group=of.largest,
    ),
    Column("ready", of_group=lambda rows, _: not any(row["blocks_group"] or row["moved"] for row in rows)),
    Column("reason", note=True, verdict=True, of_group=of.first(lambda row: bool(row["blocks_group"]))),
    Column("rpo_seconds", title="RPO-TIME", essential=False, human=human.age, of_group=of.largest),
    Column("blocks_group", essential=False),
)


def status(
    *,
    where: options.ChosenFlows,
    by_group: ByGroup = False,
    group: Group = None,
    topic: options.Topic = None,
    partitions: options.Partitions = False,
    watching: Watch = False,
    every: Every = 2.0,
    max_lag_seconds: MaxLag = None,
    output: options.Output = OutputFormat.TABLE,
    timeout: FirstTimeout = None,
) -> None:
    """Show the flows, with state and lag of each partition, or with --groups whether groups can fail over."""
    from mmtool.commands._connections import selection, watched_flows

    chosen = selection(options.ChosenGroups(group))
    flows = watched_flows(where, topic, timeout)
    interval = every if watching else None
    if by_group or group is not None:
        from mmtool.insight.group_status import look_at_groups

        of_groups = partial(_of_groups, output=output, per_group=not partitions)
        _show(where.config, partial(look_at_groups, flows, chosen), of_groups, output, interval)
    else:
        from mmtool.insight.status import look_at_all
        from mmtool.insight.status_report import Trends, gate

        result = partial(_result, output=output, trends=Trends())
        lags = partial(gate, max_lag_seconds=max_lag_seconds)
        _show(where.config, partial(look_at_all, flows), result, output, interval, lags)


def _show(
    config: Path | None,
    read: Callable[[], Reading],
    result: Callable[[Reading], Result],
    output: OutputFormat,
    every: float | None,
    gate: Callable[[Any], MmtoolError | None] = lambda _: None,
) -> None:
    """Show what is read, with the error of the gate on its rows; or again after ``every`` seconds, until stopped."""
    first = read()
    remember_rows(config, (row._asdict() for row in first.rows))
    if every is not None and first.error is None:
        watch(map(result, chain([first], iter(read, None))), output, every)
    else:
        finish(result(first), output, first.error or gate(first.rows))


def _of_groups(found: GroupsStatus, *, output: OutputFormat, per_group: bool) -> Result:
    from mmtool.insight.status_report import groups_headline, groups_on_screen

    rows: Sequence[Mapping[str, object]] = [row._asdict() for row in found.rows]
    left_out = ""
    if output is OutputFormat.TABLE and stdout_is_tty():
        rows, left_out = groups_on_screen(found.rows, rows_that_fit(len(found.flows)), per_group=per_group)
    return Result(
        "status",
        rows,
        with_target_group(_GROUP_COLUMNS, rows),
        warnings=found.warnings,
        errors=found.errors,
        headlines=[groups_headline(flow) for flow in found.flows],
        summary=left_out,
        per_group=per_group,
    )


def _result(found: Status, output: OutputFormat, trends: Trends) -> Result:
    from mmtool.insight.status_report import headline, on_screen

    rows, left_out = found.documents(), ""
    if output is OutputFormat.TABLE and stdout_is_tty():
        rows, left_out = on_screen(found, rows_that_fit(len(found.flows)))
    return Result(
        "status",
        rows,
        columns(),
        warnings=found.others.warnings,
        errors=found.errors,
        headlines=[headline(flow, trends.note(flow)) for flow in found.flows],
        summary=left_out,
    )
