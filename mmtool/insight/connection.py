"""The connection to a flow's clusters, for all that looks at both."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

    from mmtool.config import FlowSettings
    from mmtool.insight.flow_now import FlowClusters


def connect(flow: FlowSettings, timeout: timedelta, *, beside_mm2: bool = False) -> FlowClusters:
    """The ways to a flow's clusters; nothing is asked yet. No request takes longer than ``timeout``.

    Args:
        flow: Which flow.
        timeout: For one request.
        beside_mm2: Answer from what MM2 has told as well, where mmtool has not mirrored.
    """
    from mmtool.insight.flow_now import FlowClusters
    from mmtool.kafka.admin.cluster_facts import KafkaCluster
    from mmtool.kafka.mm2.topics import Mm2Topics
    from mmtool.kafka.state.flow_state import KafkaFlowState, way_back_state

    seconds = timeout.total_seconds()
    return FlowClusters(
        flow,
        KafkaCluster(flow.source, seconds),
        KafkaCluster(flow.target, seconds),
        KafkaFlowState(flow.target),
        way_back_state(flow),
        Mm2Topics(flow) if beside_mm2 else None,
    )
