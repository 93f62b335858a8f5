"""``mmtool replicate``: run the flows until stopped."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Annotated

import typer

from mmtool.commands._options import LOOPBACK, ChosenFlows, MetricsAddress, MetricsLevel, Output
from mmtool.metrics.families import Level
from mmtool.output import Column, OutputFormat, human

UntilCaughtUp = Annotated[
    bool,
    typer.Option(
        "--until-caught-up",
        help="Stop when all records that the source held when the command started are mirrored.",
    ),
]
Standby = Annotated[
    bool,
    typer.Option(
        "--standby",
        help="While another mmtool runs the flow, wait, and run the flow when that process ends. Without this option:"
        " exit with 10.",
    ),
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over",
        help="For a flow that MirrorMaker 2 runs: wait until MirrorMaker 2 stops, then continue from its last record.",
    ),
]
Every = Annotated[
    int,
    typer.Option(
        "--every", metavar="SECONDS", min=1, help="Without a terminal, print progress every SECONDS."
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="N",
        min=0,
        max=65535,
        help="Serve Prometheus metrics on this port; 0: any free port. Default: no metrics.",
    ),
]

Timings = Annotated[
    bool,
    typer.Option(
        "--timings",
        help="Print on stderr how long each step of the start took, when the first Spark job that mirrored a record"
        " has ended. JSON has the steps as `timings`.",
    ),
]

_COLUMNS = (
    Column("source"),
    Column("target"),
    Column("topic", elide=True),
    Column("partition"),
    Column("target_topic", essential=False, elide=True),
    Column("upstream_position"),
    Column("downstream_position", essential=False),
    Column("records"),
    Column("bytes", essential=False),
    Column("lag_records"),
    Column("lag_seconds", title="LAG-TIME", essential=False, human=human.age),
    Column("state", verdict=True),
    Column("reason", note=True, verdict=True),
)
_STEPS = (
    Column("step"),
    Column("at_seconds", title="AT", human=human.age),
    Column("seconds", title="TOOK", human=human.age),
    Column("meaning", note=True),
)


def replicate(
    *,
    where: ChosenFlows,
    output: Output = OutputFormat.TABLE,
    until_caught_up: UntilCaughtUp = False,
    standby: Standby = False,
    take_over: TakeOver = False,
    every: Every = 10,
    timings: Timings = False,
    metrics_port: MetricsPort = None,
    metrics_address: MetricsAddress = LOOPBACK,
    metrics_level: MetricsLevel = Level.GROUP,
) -> None:
    """Mirror topics from source to target, exactly once, until stopped.

    On the source, mmtool writes only what MirrorMaker 2 writes: heartbeats and offset syncs.
    """
    from mmtool.commands._connections import live_file, served_beside
    from mmtool.output import Result, beside, finish, talk, warn
    from mmtool.output.console import stderr_is_tty, switches
    from mmtool.output.progress import Progress
    from mmtool.replication.driver.engine import replicate as run
    from mmtool.replication.driver.supervisor import RunOptions
    from mmtool.replication.driver.timeline import StartStep, TimedStep, Timeline

    def tell(steps: Sequence[TimedStep]) -> None:
        if timings:
            beside(Result("replicate", steps, _STEPS))

    timeline = Timeline(tell)
    timeline.note(StartStep.PROCESS)
    switches.timed = not stderr_is_tty()
    file = live_file(where, mirrors=True)
    options = RunOptions(until_caught_up=until_caught_up, standby=standby, take_over=take_over)
    with (
        closing(timeline),  # a start that fails is told as far as it came
        served_beside(metrics_address, metrics_port, metrics_level) as observe,
        Progress(every=float(every)) as progress,
    ):
        outcome = run(
            file, options, show=progress.show, say=talk, warn=warn, timeline=timeline, observe=observe
        )
    steps = timeline.rows() if timings else None
    finish(Result("replicate", outcome.rows, _COLUMNS, applied=True, timings=steps), output, outcome.error)
