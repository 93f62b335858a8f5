"""How living clusters and flows are asked for their metrics: by Kafka alone, from any host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.insight.status import WatchedFlow
from mmtool.insight.translation import FlowClusters
from mmtool.kafka.cluster_facts import KafkaCluster
from mmtool.kafka.flow_watch import KafkaFlowWatch
from mmtool.metrics.samples import samples_of_flow

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config import ClusterSettings, FlowSettings
    from mmtool.metrics.level import Level
    from mmtool.metrics.samples import Sample

_PROBE_SECONDS = 5.0


class KafkaProbes:
    """Asks real clusters; see `mmtool.metrics.collector.Probes`.

    Args:
        level: How detailed the metrics are.
        seconds: How long one request may take.
    """

    def __init__(self, level: Level, seconds: float) -> None:
        self._level = level
        self._seconds = seconds

    def cluster(self, settings: ClusterSettings) -> Callable[[], object]:
        return KafkaCluster(settings, min(self._seconds, _PROBE_SECONDS)).probe

    def certificates(self, settings: ClusterSettings) -> list[Sample]:
        del settings
        return []

    def flow(self, settings: FlowSettings) -> Callable[[], list[Sample]]:
        watch = KafkaFlowWatch(settings, self._seconds)
        clusters = FlowClusters(
            settings,
            KafkaCluster(settings.source, self._seconds),
            KafkaCluster(settings.target, self._seconds),
            watch,
        )
        flow = WatchedFlow(clusters, watch)

        def look() -> list[Sample]:
            try:
                return samples_of_flow(flow.status(), self._level)
            except UsageError as error:
                if error.code != UsageError.code:
                    raise
                return []  # no topic is matched: there is nothing to measure yet

        return look

    def operations(self, settings: FlowSettings) -> Callable[[], list[Sample]]:
        del settings
        return list
