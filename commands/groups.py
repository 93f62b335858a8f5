"""``mmtool groups``: audit and sync consumer groups, and export or import their offsets as files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands import _options as options
from mmtool.commands._completion import remember_rows
from mmtool.commands._connections import connected_flows, loaded, one_flow, selection, with_group_map
from mmtool.commands._dialogue import is_agreed, say_undo, write_offsets
from mmtool.commands._operations import with_target_group
from mmtool.errors import UnreachableError, UsageError
from mmtool.output import Column, OutputFormat, Result, finish, human, stdout_is_tty, talk, warn, watch
from mmtool.output import layout as of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mmtool.failover.commits.group_sync import GroupSync, SyncTurn
    from mmtool.failover.report.rows import Row
    from mmtool.insight.flow_now import FlowClusters
    from mmtool.plan.groups.undo import Undo

app = typer.Typer(no_args_is_help=True)


Format = Annotated[
    options.OffsetFormat,
    typer.Option("--format", help=f"{options.OFFSET_FORMATS}. The last two are for one group."),
]
From = Annotated[
    tuple[str, Path] | None,
    options.selection_option(
        "--in",
        metavar="spark-checkpoint DIR",
        help="With --format spark, instead of a group: translate the offsets in the checkpoint of a Structured"
        " Streaming query; DIR is its checkpointLocation.",
    ),
]
File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Kafka's reset file with offsets of the target, as `mmtool groups export` writes it, or an undo file.",
    ),
]
OneGroup = Annotated[
    str | None,
    options.group_option(
        "For a file without a group column: the group of its offsets. For a file with a group column: import only this"
        " group."
    ),
]
_Matching = Annotated[
    str | None,
    options.selection_option(
        "--groups",
        metavar="REGEX",
        help="Groups whose whole name matches this Java regular expression; excluded groups are listed too.",
    ),
]
_EveryGroup = Annotated[bool, options.selection_option("--all-groups", help="Every group (default).")]


@dataclass(frozen=True, slots=True)
class AuditedGroups(options.ChosenGroups):
    """The options that select groups; without them every group, also an excluded one."""

    groups: _Matching = None
    all_groups: _EveryGroup = False


Once = Annotated[
    bool, typer.Option("--once", help="Sync once, then exit; exit code 0 unless a group could not be synced.")
]
Every = Annotated[
    float | None,
    typer.Option(
        "--every",
        metavar="SECONDS",
        min=0.1,
        help="Time between syncs. Default: the key sync.group.offsets.interval.seconds.",
    ),
]


_WORST = frozenset({"ahead", "never_ran", "stale", "active_on_target"})
"""The verdicts whose reasons the row of a group shows first."""

AUDITED = (
    Column("source", essential=False, of_group=of.same),
    Column("target", essential=False, of_group=of.same),
    Column("group", of_group=of.same),
    Column("topic", of_group=of.names),
    Column("partition", of_group=of.partitions),
    Column("verdict", verdict=True, of_group=of.words),
    Column("reason", verdict=True, of_group=of.first(lambda row: row["verdict"] in _WORST)),
    Column("upstream_offset", essential=False),
    Column("downstream_offset", essential=False),
    Column("target_offset", essential=False),
    Column("target_age_seconds", title="TARGET-AGE", essential=False, human=human.age, of_group=of.largest),
    Column("expires_seconds", title="EXPIRES-IN", essential=False, human=human.age, of_group=of.smallest),
)
IMPORTED = (
    Column("group"),
    Column("topic"),
    Column("partition"),
    Column("offset"),
    Column("reason"),
    Column("offset_before", essential=False),
    Column("written", essential=False),
)
SYNCED = (
    Column("source", essential=False),
    Column("target", essential=False),
    Column("group"),
    Column("state", verdict=True),
    Column("partitions"),
    Column("written"),
    Column("refused"),
    Column("freshness_seconds", title="FRESHNESS", human=human.age),
    Column("reason"),
)


@app.command()
def audit(
    *,
    where: options.ChosenFlows,
    groups: AuditedGroups,
    topic: options.Topic = None,
    partitions: options.Partitions = False,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Compare the groups' commits on both clusters, partition by partition; works with one cluster down."""
    from time import time

    from mmtool.insight.audit import audit as run
    from mmtool.insight.flow_now import ask_each, worst

    chosen, now_ms = selection(groups), int(time() * 1000)
    flows = connected_flows(where, timeout, groups.group_map)
    found, others = ask_each(flows, lambda flow: run(flow, chosen, topic or (), now_ms))
    rows = [row for one in found for row in one.documents()]
    remember_rows(where.config, rows)
    errors = [*others.errors, *(one.error for one in found if one.error is not None)]
    result = Result(
        "groups audit",
        rows,
        with_target_group(AUDITED, rows),
        warnings=[*others.warnings, *(warning for one in found for warning in one.warnings)],
        errors=errors,
        headlines=[one.headline for one in found],
        per_group=not partitions,
    )
    finish(result, output, worst(errors))


@app.command()
def sync(
    *,
    where: options.ChosenFlow,
    groups: options.AllGroupsByDefault,
    topic: options.Topic = None,
    once: Once = False,
    every: Every = None,
    output: options.Output = OutputFormat.TABLE,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Keep groups ready on the target: commit their translated offsets there at an interval, until stopped.

    Commits at once, without --execute. Never moves a group back and never commits for a group that has members on the
    target. The column FRESHNESS shows how long ago mmtool read the source commits of a group. Works for flows that
    MirrorMaker 2 runs as well.
    """
    from mmtool.failover.commits.group_sync import GroupSync
    from mmtool.insight.flow_now import connect

    chosen, flow = selection(groups), with_group_map(one_flow(where), groups.group_map)
    synced = GroupSync(connect(flow, timeout, beside_mm2=True), chosen, topic or ())
    seconds = float(flow.sync_group_offsets_interval_seconds) if every is None else every
    if not once:
        talk(
            f"{flow.name}: committing the groups' translated offsets on {flow.target.alias} every {seconds:g} s, until"
            " you stop this command (Ctrl-C)"
        )
    first = synced.turn()
    if once:
        finish(_synced(first), output, first.error)
    else:
        watch(_turns(synced, _synced(first), output), output, seconds)


def _turns(synced: GroupSync, first: Result, output: OutputFormat) -> Iterator[Result]:
    """Result after result; while a cluster is away, the last one and what is the matter."""
    brief = output is OutputFormat.TABLE and not stdout_is_tty()
    last, shown = first, first
    while True:
        yield shown
        try:
            before, last = last, _synced(synced.turn())
            shown = _changed(before, last) if brief else last
        except UnreachableError as error:
            shown = replace(last, rows=() if brief else last.rows, errors=[error])


def _changed(before: Result, now: Result) -> Result:
    """The groups that were moved, or stand otherwise than before."""
    stood = {row["group"]: (row["state"], row["reason"]) for row in before.rows}
    news = [
        row for row in now.rows if row["written"] or stood.get(row["group"]) != (row["state"], row["reason"])
    ]
    return replace(now, rows=news)


def _synced(turn: SyncTurn) -> Result:
    return Result(
        "groups sync",
        rows := turn.documents(),
        with_target_group(SYNCED, rows),
        warnings=turn.warnings,
        headlines=[turn.headline],
        applied=any(row.written for row in turn.rows),
    )


@app.command()
def export(
    *,
    where: options.ChosenFlow,
    groups: options.AllGroupsByDefault,
    topic: options.Topic = None,
    from_: From = None,
    format_: Format = options.OffsetFormat.KAFKA,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Write the groups' offsets, translated to the target, to stdout as a file for Kafka's tools, Connect or Spark.

    With --format kafka, partitions whose offset cannot be translated are left out: a warning names them, and the exit
    code is 3, unless the group has no commit in them or the flow does not mirror them. With the other formats, nothing
    is written if there is a refused offset: Spark needs every partition of a topic. -s A -t C also translates along a
    chain of enabled flows, A->B->C.
    """
    from mmtool.failover.commits.exchange import checkpointed, refusal, refused_positions
    from mmtool.failover.service.connections import target_side
    from mmtool.insight.flow_now import connect
    from mmtool.insight.positions import translate_positions
    from mmtool.insight.translation import look_along, translate_groups
    from mmtool.plan.groups.offsets import Rules

    chosen = selection(groups)
    kind, query = from_ or ("spark-checkpoint", None)
    if kind != "spark-checkpoint":
        raise UsageError(
            f"--in {kind}: only spark-checkpoint is known", remedy="write --in spark-checkpoint DIR"
        )
    chain = loaded(where.config).chain(where.source, where.target)
    chain = tuple(with_group_map(one, groups.group_map) for one in chain)
    flows = [connect(one, timeout, beside_mm2=True) for one in chain]
    if query is None:
        found = translate_groups(look_along(flows, topic or ()), chosen, Rules())
        refused = refusal(found)
    else:
        positions = checkpointed(query, topic or ())
        side = partial(target_side, chain[0], timeout)
        found = translate_positions(flows, side, positions, Rules(), every_partition=True)
        refused = refused_positions(query, found.plans[0], outside=False) or found.error
    write_offsets(found, format_, refused, with_group=not chosen.is_one)


_SOURCE_SECONDS = timedelta(seconds=5)
"""So long an import waits for the source, which it does not need."""


class ImportedKind(StrEnum):
    """The values of ``--kind``."""

    CONSUMER = "consumer"
    SHARE = "share"


Kind = Annotated[
    ImportedKind | None,
    typer.Option(
        "--kind",
        help="The kind of the groups, for those that the target does not have yet.",
        show_default="the kind that the target has, else consumer",
    ),
]


@app.command("import")
def import_(
    file: File,
    *,
    where: options.ChosenFlow,
    group: OneGroup = None,
    kind: Kind = None,
    allow_rewind: options.AllowRewind = False,
    execution: options.Execution,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Check the offsets of a kafka-consumer-groups reset file; commit them on the target with --execute.

    FILE may also be an undo file, which mmtool writes when it commits offsets: then --execute restores the previous
    offsets, and deletes commits that did not exist before.
    """
    from mmtool.failover.commits.apply import is_undo, read_undo
    from mmtool.failover.commits.exchange import (
        check_import,
        content_of,
        import_rows,
        kinds_that_differ,
        question_of,
        read_reset_file,
    )
    from mmtool.insight.flow_now import connect
    from mmtool.plan.groups.facts import GroupKind

    if group == "":
        raise UsageError("-g/--group is empty", remedy="write -g NAME; leave out -g if FILE names the groups")
    content, flow = content_of(file), one_flow(where)
    of_kind = None if kind is None else GroupKind(kind)
    if is_undo(content):
        for option, given in (("--allow-rewind", allow_rewind), ("--kind", kind)):
            if given:
                raise UsageError(f"{option} has no effect with an undo file", remedy=f"leave out {option}")
        _undo(read_undo(str(file), content, group), connect(flow, timeout), execution)
        return
    wanted = read_reset_file(str(file), content, group)
    cluster = connect(flow, timeout).target
    found = check_import(cluster, wanted, kind=of_kind, allow_rewind=allow_rewind)
    for sentence in kinds_that_differ(found, connect(flow, min(timeout, _SOURCE_SECONDS)).source):
        warn(sentence)
    question = question_of(found.plans, found.cluster.alias)

    def shown() -> Result:
        return _imported(import_rows(found.plans), found.warnings)

    nothing = "" if found.writable else "there is nothing to commit"
    if not is_agreed(shown, question, execution, refusal=found.refusal, nothing=nothing):
        return
    again = found if execution.yes else check_import(cluster, wanted, kind=of_kind, allow_rewind=allow_rewind)
    ended = again.write(synced=flow.sync_group_offsets)
    say_undo(ended, flow, where.config)
    finish(_imported(ended.rows, found.warnings, applied=True), execution.output, ended.error)


def _undo(kept: Undo, clusters: FlowClusters, execution: options.Execution) -> None:
    from mmtool.failover.commits.undo import check_undo

    places = (clusters.target, clusters.source)
    found = check_undo(places, kept)
    nothing = "" if found.writable else "there is nothing to restore"

    def shown() -> Result:
        return _imported(found.rows())

    if not is_agreed(shown, found.question, execution, refusal=found.refusal, nothing=nothing):
        return
    doing = found if execution.yes else check_undo(places, kept)
    ended = doing.write()
    if ended.error is None:
        talk(f"done: {doing.question}")
    finish(_imported(ended.rows, applied=True), execution.output, ended.error)


def _imported(rows: Sequence[Row], warnings: tuple[str, ...] = (), *, applied: bool = False) -> Result:
    return Result("groups import", rows, IMPORTED, warnings=warnings, applied=applied)
