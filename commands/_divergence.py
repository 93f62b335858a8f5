"""``--diverged file | topic NAME | replay``: what becomes of the records that home never sent away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmtool.commands import _options as options
from mmtool.errors import OwnedElsewhereError, UsageError
from mmtool.output import detail
from mmtool.plan.failover.divergence import Kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from mmtool.config import FlowSettings
    from mmtool.failover.diverged.tail_writer import PassingPort, TailTools
    from mmtool.failover.modes.both_ways import BothWays
    from mmtool.failover.modes.cutover import OperationContext
    from mmtool.failover.modes.failback import FailbackRehearsal
    from mmtool.failover.operation.records import Recorded
    from mmtool.kafka.ports import AppendPort
    from mmtool.plan.failover.divergence import Diverged
    from mmtool.plan.runbook.plan_file import SavedPlan


Option = Annotated[
    Kind,
    typer.Option(
        "--diverged",
        help="Where the diverged records go: a file, a topic of the flow's source (`--diverged topic"
        " NAME`), or the mirrored topics of the target as new records, which are mirrored back"
        " (replay).",
        rich_help_panel=options.WHAT,
    ),
]
Name = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="With `--diverged topic`: an existing topic.", show_default=False),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--diverged-dir",
        metavar="DIR",
        help="Folder for the file of diverged records. Default: the current folder.",
        show_default=False,
    ),
]


def chosen(saved: SavedPlan | None, kind: Kind, name: str | None, folder: Path | None) -> Diverged:
    """What the command line says, or the plan.

    Raises:
        UsageError: A topic without a name, a name without a topic, or a folder without a file.
    """
    from mmtool.plan.failover.divergence import diverged_of

    found = saved.plan.diverged if saved is not None else diverged_of(_words(kind, name))
    if folder is not None and found.kind is not Kind.FILE:
        raise UsageError(
            f"--diverged-dir is for the file of diverged records, and --diverged {found.words} writes none",
            remedy="leave one of them out",
        )
    return found


def folder_again(found: Recorded, folder: Path | None) -> Path:
    """Where an operation that is taken up again writes the file.

    Raises:
        UsageError: A folder for an operation that writes none.
    """
    from mmtool.plan.failover.steps import Mode

    if folder is not None and (found.mode != Mode.FAILBACK or found.head.plan.diverged.kind is not Kind.FILE):
        raise UsageError(
            f"--diverged-dir is for the file of diverged records, and {found.operation_id} writes none",
            remedy="leave it out",
        )
    return folder or Path()


def _words(kind: Kind, name: str | None) -> str:
    if kind is Kind.TOPIC and not name:
        raise UsageError("--diverged topic needs the topic's name", remedy="add it: --diverged topic NAME")
    if kind is not Kind.TOPIC and name is not None:
        raise UsageError(
            f"{name} is no option, and --diverged {kind} takes no name",
            remedy="only --diverged topic NAME takes a name",
        )
    return kind if name is None else f"{kind} {name}"


def said(diverged: Diverged) -> dict[str, str]:
    """As a plan keeps it."""
    return {} if diverged.kind is Kind.FILE else {"diverged": diverged.words}


def told(both: BothWays, rehearsal: FailbackRehearsal) -> FailbackRehearsal:
    """With what has to be done before a replay."""
    if rehearsal.plan.diverged.kind is not Kind.REPLAY or not rehearsal.plan.executable:
        return rehearsal
    try:
        passing().check(both.flow)
    except OwnedElsewhereError as error:
        said = f"{error.message}: stop it before you execute this"
        return replace(rehearsal, warnings=(*rehearsal.warnings, said))
    return rehearsal


def tools(
    both: BothWays, rehearsal: FailbackRehearsal, timeout: timedelta, since: Recorded | None = None
) -> TailTools | None:
    """What diverged records are written with; None where they go into a file.

    Args:
        both: The flow and its way back.
        rehearsal: Of the failback.
        timeout: For one batch.
        since: What the journal has of it, when it is taken up again.
    """
    from mmtool.failover.diverged.tail_writer import TailTools

    diverged = rehearsal.plan.diverged
    if diverged.kind is Kind.FILE:
        return None
    writer = writer_into(both, diverged, rehearsal.plan.operation_id, timeout)
    if since is None:
        return TailTools(writer, passing())
    return TailTools(writer, passing(), since.tail, since.salvaged)


def giving_up(
    flow: FlowSettings, back: FlowSettings, found: Recorded, timeout: timedelta
) -> Callable[[OperationContext], None] | None:
    """How a replay that may be done in part is ended; None where none was under way."""
    if found.tail is None or found.head.plan.diverged.kind is not Kind.REPLAY:
        return None

    def give_up(ways: OperationContext) -> None:
        from mmtool.failover.diverged.tail_writer import TailTools
        from mmtool.failover.modes import failback
        from mmtool.failover.service.connections import both_ways

        both = both_ways(flow, back, timeout)
        writer = writer_into(both, found.head.plan.diverged, found.operation_id, timeout)
        failback.give_up(both, found, TailTools(writer, passing(), found.tail, found.salvaged), ways)

    return give_up


def writer_into(both: BothWays, diverged: Diverged, operation_id: str, timeout: timedelta) -> AppendPort:
    """Writes under the operation's own producer id, into the cluster that is meant."""
    from mmtool.failover.diverged.tail_replay import transactional_id
    from mmtool.kafka.logs.sequence_append import KafkaAppender

    settings = both.flow.clusters.settings
    cluster = settings.target if diverged.kind is Kind.REPLAY else settings.source
    return KafkaAppender(cluster, transactional_id(operation_id), timeout.total_seconds())


def passing() -> PassingPort:
    """The one who moves a flow's position; nothing is asked yet."""
    from mmtool.replication.flow_state.skip_replayed import FlowPassing

    return FlowPassing(detail)
