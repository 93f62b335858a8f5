"""``mmtool metrics``: a stand-alone Prometheus exporter."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from mmtool.commands import _options as options
from mmtool.metrics.families import Level

Port = Annotated[
    int,
    typer.Option("--port", metavar="N", min=0, max=65535, help="Port to listen on; 0: any free port."),
]

Timeout = Annotated[timedelta, options.timeout_option("10s")]

DEFAULT_PORT = 9464
"""Where OpenTelemetry's Prometheus exporters listen by default."""


def metrics(
    *,
    where: options.ChosenFlows,
    port: Port = DEFAULT_PORT,
    metrics_address: options.MetricsAddress = options.LOOPBACK,
    metrics_level: options.MetricsLevel = Level.GROUP,
    timeout: Timeout = timedelta(seconds=10),
) -> None:
    """Serve Prometheus metrics of flows until stopped, from any host that reaches the clusters; change nothing."""
    from mmtool.commands._connections import live_file
    from mmtool.metrics.server import LiveFlows, MetricsServer, export
    from mmtool.output import talk, warn

    flows = LiveFlows(live_file(where), warn)
    with MetricsServer(metrics_address, port, "--port") as server:
        export(flows, server, metrics_level, timeout.total_seconds(), say=talk)
