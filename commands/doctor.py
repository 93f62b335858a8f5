"""``mmtool doctor``: find what would break a flow before it does."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from mmtool.commands import _options as options
from mmtool.output import Column, OutputFormat, Result, finish, talk

_TIMEOUT = timedelta(seconds=8)
"""Of one request: a cluster that is away is one of the answers, and is not waited for."""
Timeout = Annotated[timedelta, options.timeout_option("8s")]
_COLUMNS = (
    Column("check"),
    Column("cluster"),
    Column("subject"),
    Column("severity", verdict=True),
    Column("message", note=True),
    Column("remedy", note=True),
)


Everything = Annotated[
    bool,
    typer.Option(
        "--all",
        help="In the table, show all checks and places; without it problems and warnings. JSON and CSV have all.",
    ),
]


def doctor(
    *,
    where: options.ChosenFlows,
    everything: Everything = False,
    output: options.Output = OutputFormat.TABLE,
    timeout: Timeout = _TIMEOUT,
) -> None:
    """Check clusters, rights, topics, groups and an existing MirrorMaker 2; nothing is changed.

    Exit code 0: no problem, perhaps warnings. 4: at least one problem.
    """
    import os

    from mmtool.commands._connections import examined
    from mmtool.config.live import exposed_files
    from mmtool.config.load import config_path
    from mmtool.doctor.checks import examine

    clusters, flows = examined(where, timeout)
    found = examine(clusters, flows)
    is_brief = output is OutputFormat.TABLE and not everything
    rows = [finding._asdict() for finding in (found.brief if is_brief else found.findings)]
    exposed = exposed_files(config_path(where.config, os.environ), os.environ)
    finish(Result("doctor", rows, _COLUMNS, warnings=exposed), output, found.error)
    talk(found.summary)
