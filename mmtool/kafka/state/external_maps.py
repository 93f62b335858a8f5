"""The stored state of a flow whose mirrors another system keeps (``mmtool.mirror = external``): no offset runs.

The flow's owner notes each mirrored partition as a position in the control topic; the target's log says how far its
mirror has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmtool.kafka.clients import blocking_wire
from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import list_offsets
from mmtool.translation.blocks import MirroredPartition, SeenOffset
from mmtool.translation.equal_mirror import equal_map
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicId, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from mmtool.config import ClusterSettings
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.translation.partition_map import PartitionMap

_SECONDS = 30.0


def external_maps(
    target: ClusterSettings, identity: FlowIdentity, control: ControlView
) -> dict[tuple[TopicId, int], PartitionMap]:
    """The map of every partition with a position, up to the end of its mirror's log; asks the target.

    Raises:
        UnreachableError, NotAuthorisedError: The target does not answer, or denies a topic.
    """
    downs = {at: TopicPartition(at.target_topic, at.partition) for at in control.positions.values()}

    async def read(cluster: WireCluster) -> tuple[dict[TopicPartition, int], dict[str, TopicId]]:
        listed = await cluster.refresh({down.topic for down in downs.values()})
        there = {name: topic.topic_id for name, topic in listed.items() if not topic.error_code}
        asked = {down: LATEST for down in downs.values() if down.topic in there}
        return await list_offsets(cluster, asked, read_committed=False), there

    found: dict[tuple[TopicId, int], PartitionMap] = {}
    if not downs:
        return found
    wire = blocking_wire(target, "mirrors", "consumer", _SECONDS)
    ends, topics = wire.ask(read, "reading the ends of mirrors")
    for at, down in downs.items():
        if down in ends:
            topic_id, ids = TopicId(at.topic_id), (identity.source_id, identity.target_id)
            there = topics[down.topic]
            about = MirroredPartition(*ids, topic_id, at.partition, at.topic, down.topic, there)
            seen = SeenOffset(UpstreamOffset(at.source_end), at.source_seen_ms)
            end = DownstreamOffset(ends[down])
            found[topic_id, at.partition] = equal_map(about, end, seen if seen.at_ms else UNKNOWN)
    return found
