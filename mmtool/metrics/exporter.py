"""Serve metrics over HTTP, for `mmtool metrics` and `mmtool replicate --metrics-port`."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mmtool.metrics.collector import Collector
from mmtool.metrics.probes import KafkaProbes
from mmtool.metrics.server import Answers
from mmtool.runtime.signals import ended_by_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mmtool.config import FlowSettings
    from mmtool.metrics.level import Level
    from mmtool.metrics.live_flows import LiveFlows
    from mmtool.metrics.server import MetricsServer

_LOOK_SECONDS = 0.5
PROBE_SECONDS = 10.0
"""The default time limit in seconds of one request of a poll."""


def export(
    flows: LiveFlows,
    server: MetricsServer,
    level: Level,
    seconds: float,
    *,
    say: Callable[[str], None],
) -> None:
    """Serve metrics until a signal ends it: ready while all clusters answer and all polls succeed.

    Args:
        flows: The flows, including those that MirrorMaker 2 runs.
        server: The HTTP server.
        level: The detail of the metrics.
        seconds: How long one request to a cluster may take.
        say: Called with sentences for the operator.

    Raises:
        StoppedError: A signal came.
    """
    with (
        ended_by_signals(is_end=True),
        Collector(lambda: flows.settings, KafkaProbes(level, seconds), say=say) as collector,
    ):
        server.serve(Answers(collector.exposition, lambda: [*collector.away(), *collector.unseen()]))
        say(f"metrics on {server.url}")
        while True:
            time.sleep(_LOOK_SECONDS)
            flows.look()


@contextmanager
def exported_beside(
    flows: Callable[[], Sequence[FlowSettings]],
    unowned: Callable[[], Sequence[str]],
    server: MetricsServer,
    level: Level,
    *,
    say: Callable[[str], None],
) -> Iterator[None]:
    """Serve metrics beside a running engine: ready while it owns its flows, and their clusters answer.

    Args:
        flows: The settings in force now, always of the same flows.
        unowned: The flows that the engine does not own now, each with why.
        server: The HTTP server.
        level: The detail of the metrics.
        say: Called with sentences for the operator.
    """
    with Collector(flows, KafkaProbes(level, PROBE_SECONDS), say=say) as collector:
        server.serve(Answers(collector.exposition, lambda: [*collector.away(), *unowned()]))
        say(f"metrics on {server.url}")
        yield
