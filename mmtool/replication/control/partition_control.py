"""In a worker: wait for the owner's control record that ends the round (STOP or REPLAN)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.plan.records.documents import Command, ControlRecord, SharesRecord
from mmtool.replication.control.feed import ControlFeed

if TYPE_CHECKING:
    from collections.abc import Callable

    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.replication.spark.assignment import FlowAssignment


async def until_told(
    cluster: WireCluster, flow: FlowAssignment, throttled: Callable[[SharesRecord], None]
) -> Command:
    """Wait for the owner's control record that ends this round, and return its command: STOP or REPLAN.

    Records of another owner or about an earlier round are ignored. Meanwhile ``throttled`` gets each new division of
    the throttle.
    """
    feed = ControlFeed(cluster, flow.identity.control_topic, flow.control_topic_id, flow.control_offset)
    ours = (flow.owner, flow.round)
    while True:
        for document in await feed.next():
            if isinstance(document, ControlRecord) and _ends_round(document, flow):
                return Command(document.command)
            if isinstance(document, SharesRecord) and (document.owner, document.round) == ours:
                throttled(document)


def _ends_round(word: ControlRecord, flow: FlowAssignment) -> bool:
    return word.owner == flow.owner and word.round >= flow.round and word.command != Command.RUN
