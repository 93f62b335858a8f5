"""``mmtool translate-offsets``: translate committed offsets to the other cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands import _options as options
from mmtool.commands._connections import loaded, require_selector, selection, unit_of, with_group_map
from mmtool.commands._dialogue import consent, say_undo, write_offsets
from mmtool.commands._operations import by_cluster, with_target_group
from mmtool.errors import UsageError
from mmtool.output import Column, Result, finish, talk, warn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from mmtool.config import FlowSettings, Settings
    from mmtool.failover.report.rows import Row
    from mmtool.insight.flow_now import FlowClusters
    from mmtool.insight.translation import Translation
    from mmtool.output import OutputFormat
    from mmtool.plan.groups.facts import GroupSelection
    from mmtool.plan.groups.offsets import Rules

Reverse = Annotated[
    bool,
    typer.Option(
        "--reverse",
        help="From target to source: translate the commits on the target, and with --execute commit the offsets on the"
        " source. -s and -t name the same flow as without --reverse.",
    ),
]
Refine = Annotated[
    bool,
    typer.Option(
        "--refine",
        help="For flows that MirrorMaker 2 runs: where its offset syncs do not give an exact offset, find it by"
        " comparing records on both clusters.",
    ),
]
Csv = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        metavar="FILE",
        help="Also write the offsets to a reset file, for kafka-consumer-groups --reset-offsets --from-file.",
    ),
]
Positions = Annotated[
    Path | None,
    typer.Option(
        "--positions",
        metavar="FILE",
        help="Instead of groups' commits, translate the offsets in this CSV file: topic, partition and next offset to"
        " read, by the topics' names on the source, with --reverse on the target; - is stdin. If the source does not"
        " answer, they are translated by what the target has stored.",
    ),
]
As = Annotated[
    options.OffsetFormat | None,
    typer.Option("--as", help=f"With --positions: print only the offsets. {options.OFFSET_FORMATS}."),
]
AllowSkip = Annotated[
    bool,
    options.execution_option(
        "--allow-skip",
        help="Where records at a group's offset are deleted or were never mirrored: continue at the next record on the"
        " target. The column SKIP-MAX counts the skipped records.",
    ),
]


@dataclass(frozen=True, slots=True)
class ChosenGroupsAndTopics(options.ChosenGroupsOrUnit):
    """The options that select groups, or a unit of groups and topics; the unit's topics count as well."""

    unit: options.UnitWithTopics = None


@dataclass(frozen=True, slots=True)
class OutsidePositions:
    """The options about positions that programs keep outside Kafka."""

    positions: Positions = None
    as_: As = None


COLUMNS = (
    Column("group"),
    Column("topic"),
    Column("partition"),
    Column("upstream_offset"),
    Column("target_topic", essential=False),
    Column("downstream_offset"),
    Column("exactness"),
    Column("reread_max", essential=False),
    Column("skip_max", essential=False),
    Column("reason"),
    Column("knowledge", essential=False),
    Column("target_offset_before", essential=False),
    Column("written", essential=False),
)
_OF_GROUPS = frozenset({"group", "target_group", "target_offset_before", "written"})
"""Columns that say nothing about a position outside Kafka."""


def _around(proof: object) -> str:
    """A record before and one after, as ``1041=980:9f86d081``: offsets on both sides, and how the digest begins."""
    pairs = proof.items() if isinstance(proof, dict) else ()
    said = [
        f"{side} {pair['upstream_offset']}={pair['downstream_offset']}:{pair['upstream_sha256'][:8]}"
        for side, pair in pairs
        if pair is not None
    ]
    return " ".join(said)


PROOF = Column("proof", essential=False, human=_around)


def translate_offsets(
    *,
    where: options.ChosenFlow,
    groups: ChosenGroupsAndTopics,
    topic: options.Topic = None,
    reverse: Reverse = False,
    refine: Refine = False,
    csv: Csv = None,
    outside: OutsidePositions,
    allow_rewind: options.AllowRewind = False,
    allow_skip: AllowSkip = False,
    accept_unverified: options.AcceptUnverified = False,
    execution: options.Execution,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Translate committed offsets to the target; commit them on the target with --execute.

    Without a choice of groups, all groups are translated. --execute needs -g, --groups, --unit or --all-groups.
    -s A -t C also translates along a chain of enabled flows, A->B->C.
    """
    from mmtool.failover.commits.exchange import moved, question_of, refusal, write_csv
    from mmtool.failover.report.rows import translation_rows
    from mmtool.insight.flow_now import connect
    from mmtool.insight.translation import look_along, translate_groups
    from mmtool.plan.groups.offsets import Direction, Rules

    settings = loaded(where.config)
    flows = settings.chain(where.source, where.target, to_write=execution.execute)
    meant = unit_of(flows[0], groups.unit)
    chosen = selection(groups, meant)
    _check_options(execution, chosen, csv, flows, refine=refine)
    rules = Rules(Direction.REVERSE if reverse else Direction.FORWARD, allow_rewind, allow_skip)
    named = [with_group_map(one, groups.group_map).accepting_unverified(accept_unverified) for one in flows]
    ways = [connect(one, timeout, beside_mm2=True) for one in named]
    if outside.positions is not None:
        _translate_positions(outside, ways, rules, timeout, execution.output, refine=refine)
        return

    def translated() -> Translation:
        flow = look_along(ways, topic or ())
        if meant is not None and meant.has_topics:
            flow = flow.narrowed_to([name for name in flow.topics if meant.topics(name)])
        return translate_groups(flow, chosen, rules, refine=refine)

    found = translated()
    question = question_of(found.plans, found.flow.written_at(rules.direction).alias)
    if csv is not None and (left_out := write_csv(csv, found, with_group=not chosen.is_one)):
        warn(left_out)
    if execution.execute and found.writable:
        consent(question, yes=execution.yes, about=lambda: _result(translation_rows(found.plans), found))
        # minutes may have passed at the prompt, and a topic may be another one by now: asked again, with the guards
        again = found if execution.yes else translated()
        ended = moved(again, synced=_synced(flows, settings, reverse=reverse))
        say_undo(ended, flows[0] if reverse else flows[-1], where.config)
        finish(_result(ended.rows, found, applied=True), execution.output, ended.error)
    else:
        finish(_result(translation_rows(found.plans), found), execution.output, refusal(found))
        if found.writable and flows[0].enabled:
            add = "--execute" if chosen.given else "--all-groups --execute"
            talk(f"nothing was changed; add {add} to {question}")


def _translate_positions(
    outside: OutsidePositions,
    ways: Sequence[FlowClusters],
    rules: Rules,
    timeout: timedelta,
    output: OutputFormat,
    *,
    refine: bool,
) -> None:
    from mmtool.failover.commits.exchange import outside_positions, read_positions, refused_positions
    from mmtool.failover.report.rows import position_rows
    from mmtool.failover.service import connections
    from mmtool.insight.positions import translate_positions
    from mmtool.plan.words import few

    path, as_ = outside.positions, outside.as_
    assert path is not None
    found = translate_positions(
        ways,
        partial(connections.target_side, ways[0].settings, timeout),
        read_positions("--positions", path),
        rules,
        refine=refine,
        every_partition=as_ is options.OffsetFormat.SPARK,
    )
    (plan,) = found.plans
    one_document = as_ not in (None, options.OffsetFormat.KAFKA)
    refused = refused_positions(path, plan, outside=one_document) or found.error
    if refused is None and (said := outside_positions(path, plan)):
        found = replace(found, warnings=(*found.warnings, said))
    if as_ is None:
        columns = tuple(column for column in _columns(found) if column.key not in _OF_GROUPS)
        finish(replace(_result(position_rows(plan), found), columns=columns), output, refused)
        return
    unnamed = [str(plan.written_to(one)) for one in plan.verdicts if one.commit is None]
    if unnamed and refused is None:
        warn(f"{path} has no position in {few(unnamed)}: Spark starts there at the earliest record")
    write_offsets(found, as_, refused, with_group=False)


def _check_options(
    execution: options.Execution,
    chosen: GroupSelection,
    csv: Path | None,
    flows: Sequence[FlowSettings],
    *,
    refine: bool,
) -> None:
    if execution.execute:
        require_selector(chosen, "--execute")
    if csv is not None and str(csv) == "-":
        raise UsageError(
            "--csv needs a file, and - is stdout",
            remedy="to write to stdout, use `mmtool groups export -c FILE`",
        )
    if refine and len(flows) > 1:
        names, first = ", ".join(one.name for one in flows), flows[0]
        raise UsageError(
            f"--refine is for one flow, and -s and -t name several: {names}",
            remedy="leave out --refine, or run the command with --execute for each of these flows, first"
            f" -s {first.source.alias} -t {first.target.alias}",
        )


def _synced(flows: Sequence[FlowSettings], settings: Settings, *, reverse: bool) -> bool:
    """Whether groups are kept ready where they are written, so that young commits there are nobody's work."""
    if not reverse:
        return flows[-1].sync_group_offsets
    back = settings.one(flows[0].target.alias, flows[0].source.alias)
    return back.enabled and back.sync_group_offsets


def _result(rows: Sequence[Row], found: Translation, *, applied: bool = False) -> Result:
    from mmtool.failover.commits.exchange import summary

    return Result(
        "translate-offsets",
        rows,
        with_target_group(_columns(found), rows),
        warnings=found.warnings,
        applied=applied,
        summary=summary(rows),
    )


def _columns(found: Translation) -> tuple[Column, ...]:
    """With ``--reverse`` the headings name the clusters."""
    from mmtool.plan.groups.offsets import Direction

    if found.rules.direction is Direction.FORWARD:
        return (*COLUMNS, PROOF) if found.has_proof else COLUMNS
    return by_cluster(COLUMNS, found.flow.clusters.source.alias, found.flow.clusters.target.alias)
