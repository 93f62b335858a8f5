"""``mmtool replicate``: run the flows until stopped."""

from __future__ import annotations

from typing import Annotated

import typer

from mmtool.commands._options import Config, Output, Source, Target
from mmtool.output import OutputFormat

UntilCaughtUp = Annotated[
    bool,
    typer.Option("--until-caught-up", help="Stop once the source's end, as seen at the start, is mirrored."),
]
Standby = Annotated[
    bool,
    typer.Option("--standby", help="Wait while another process runs the flow, and take over when it ends."),
]
Every = Annotated[
    int, typer.Option("--every", metavar="SECONDS", min=1, help="Off a terminal, one line of progress per so many.")
]


def replicate(
    config: Config = None,
    source: Source = None,
    target: Target = None,
    output: Output = OutputFormat.TABLE,
    until_caught_up: UntilCaughtUp = False,
    standby: Standby = False,
    every: Every = 10,
) -> None:
    """Mirror topics from source to target, exactly once, until stopped."""
    from mmtool.commands._wiring import selected_flows
    from mmtool.output import Result, emit, talk
    from mmtool.output.progress import Progress
    from mmtool.replication.engine import RunOptions
    from mmtool.replication.service import replicate as run

    flows = selected_flows(config, source, target)
    options = RunOptions(until_caught_up=until_caught_up, standby=standby)
    with Progress(every=float(every)) as progress:
        outcome = run(flows, options, show=progress.show, say=talk)
    emit(Result("replicate", outcome.rows), output)
    outcome.check()
