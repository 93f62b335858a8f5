"""What a flow has stored on its target, for those who ask about it and do not run it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from mmtool.errors import UsageError
from mmtool.kafka.state_log import partition_maps, read_blocks, read_control

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.config import ClusterSettings
    from mmtool.plan.documents import FlowRecord
    from mmtool.plan.identity import FlowIdentity
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.types import TopicId

_CONTROL_TOPIC = re.compile(r"mmtool-control\.(.+)\.internal")


class KafkaFlowState:
    """A `FlowStatePort` on the flow's target."""

    def __init__(self, target: ClusterSettings) -> None:
        self._target = target

    def maps(self, identity: FlowIdentity) -> dict[tuple[TopicId, int], PartitionMap]:
        return partition_maps(read_blocks(self._target, identity).values())

    def check_aliases(self, identity: FlowIdentity, topics: Iterable[str]) -> None:
        """See `FlowStatePort.check_aliases`.

        A flow that never ran under this alias may have run under another: each control topic knows.
        """
        stored = read_control(self._target, identity).flow
        if stored is not None:
            _check(identity, stored)
            return
        for alias in (match[1] for topic in topics if (match := _CONTROL_TOPIC.fullmatch(topic))):
            other = read_control(self._target, replace(identity, source_alias=alias)).flow
            if other is not None and _same_clusters(identity, other):
                _check(identity, other)


def _same_clusters(identity: FlowIdentity, stored: FlowRecord) -> bool:
    return (stored.source_cluster_id, stored.target_cluster_id) == (identity.source_id, identity.target_id)


def _check(identity: FlowIdentity, stored: FlowRecord) -> None:
    """A flow's identity is its two cluster ids; the aliases are in topic names, so they are fixed with it."""
    if not _same_clusters(identity, stored):
        raise UsageError(
            f"{identity.control_topic} on {identity.target_alias} is about clusters"
            f" {stored.source_cluster_id} -> {stored.target_cluster_id}, but {identity.name}"
            f" is now {identity.source_id} -> {identity.target_id}",
            remedy="give the other cluster an alias of its own",
            code="alias_clash",
        )
    if (stored.source_alias, stored.target_alias) != (identity.source_alias, identity.target_alias):
        raise UsageError(
            f"these two clusters are mirrored as {stored.source_alias}->{stored.target_alias} already,"
            f" not as {identity.name}",
            remedy=f"use the aliases {stored.source_alias} and {stored.target_alias}",
            code="alias_clash",
        )
