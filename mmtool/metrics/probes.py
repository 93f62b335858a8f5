"""Poll real clusters and flows for their metrics: from Kafka alone, on any host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.failover.operation.records import in_journal_order
from mmtool.insight.flow_now import FlowClusters
from mmtool.insight.group_status import group_status
from mmtool.insight.status import WatchedFlow
from mmtool.kafka.admin.cluster_facts import KafkaCluster
from mmtool.kafka.mm2.topics import Mm2Topics
from mmtool.kafka.state.flow_state import FollowedFlowState
from mmtool.kafka.state.flow_watch import KafkaFlowWatch
from mmtool.kafka.state.journal import JournalReader
from mmtool.keystores.certificates import first_expiry
from mmtool.metrics.samples import (
    sample_of_certificate,
    samples_of_flow,
    samples_of_groups,
    samples_of_operations,
)
from mmtool.plan.groups.status import summaries
from mmtool.plan.records.journal import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.config import ClusterSettings, FlowSettings
    from mmtool.metrics.families import Level
    from mmtool.metrics.samples import Sample
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.types import TopicId

_PROBE_SECONDS = 5.0


class KafkaProbes:
    """Polls real clusters; see `mmtool.metrics.collector.Probes`.

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
        """Samples of a cluster's certificates, from its configuration alone: no cluster is asked."""
        chains = (settings.security, *settings.role_security.values())
        texts = [chain.certificate.text.get_secret_value() for chain in chains if chain.certificate]
        found = [expires for text in texts if (expires := first_expiry(text)) is not None]
        return [sample_of_certificate(settings.alias, min(found))] if found else []

    def flow(self, settings: FlowSettings) -> Callable[[], list[Sample]]:
        flow = self._watched(settings)

        def look() -> list[Sample]:
            try:
                return samples_of_flow(flow.status(), self._level)
            except UsageError as error:
                if error.code != UsageError.code:
                    raise
                return []  # no topic is matched: there is nothing to measure yet

        return look

    def groups(self, settings: FlowSettings) -> Callable[[], list[Sample]]:
        if not self._level.has_groups:
            return list
        flow = self._watched(settings)
        return lambda: samples_of_groups(_labels(settings), summaries(group_status(flow).rows))

    def operations(self, settings: FlowSettings) -> Callable[[], list[Sample]]:
        journal = JournalReader(settings.target, self._seconds, without={Kind.GROUP, Kind.OUTCOME})
        return lambda: samples_of_operations(_labels(settings), in_journal_order(journal.entries()))

    def _watched(self, settings: FlowSettings) -> WatchedFlow:
        """A flow to watch, with clients of its own: each flow is polled in a thread of its own."""
        watch = _FollowedWatch(settings, self._seconds)
        clusters = FlowClusters(
            settings,
            KafkaCluster(settings.source, self._seconds),
            KafkaCluster(settings.target, self._seconds),
            watch,
            synced=Mm2Topics(settings),
        )
        return WatchedFlow(clusters, watch, on_target=Mm2Topics(settings, target_only=True))


class _FollowedWatch(KafkaFlowWatch):
    """Of the offset runs only what is new is read, too."""

    def __init__(self, flow: FlowSettings, timeout_seconds: float) -> None:
        super().__init__(flow, timeout_seconds)
        self._followed = FollowedFlowState(flow.target)

    def maps(self, identity: FlowIdentity) -> dict[tuple[TopicId, int], PartitionMap]:
        return self._followed.maps(identity)


def _labels(settings: FlowSettings) -> dict[str, str]:
    return {"source": settings.source.alias, "target": settings.target.alias}
