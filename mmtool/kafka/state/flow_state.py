"""The `FlowStatePort` of a real flow: read its stored state on the target without owning the flow."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from mmtool.errors import NotAuthorisedError, UsageError
from mmtool.kafka.state.control_view import ControlView
from mmtool.kafka.state.log_reader import newest_records, read_log
from mmtool.kafka.state.state_log import partition_maps, read_control, read_maps, take_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mmtool.config import ClusterSettings, FlowSettings
    from mmtool.plan.records.documents import FlowRecord
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.translation.blocks import Block, BlockKey
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.types import TopicId

    Place = tuple[TopicId, int]

_CONTROL_TOPIC = re.compile(r"mmtool-control\.(.+)\.internal")


class KafkaFlowState:
    """A `FlowStatePort` on the flow's target."""

    def __init__(self, target: ClusterSettings) -> None:
        self._target = target

    def maps(self, identity: FlowIdentity) -> dict[Place, PartitionMap]:
        return read_maps(self._target, identity)

    def control(self, identity: FlowIdentity) -> ControlView:
        """Read the flow's control topic whole."""
        return read_control(self._target, identity)

    def check_aliases(self, identity: FlowIdentity, topics: Iterable[str]) -> None:
        """See `FlowStatePort.check_aliases`.

        Each control topic on the target is read: a flow that never ran under this alias may have run under another.
        """
        stored = self.control(identity).flow
        if stored is not None:
            _check(identity, stored)
            return
        for alias in (match[1] for topic in topics if (match := _CONTROL_TOPIC.fullmatch(topic))):
            other = read_control(self._target, replace(identity, source_alias=alias)).flow
            if other is not None and _same_clusters(identity, other):
                _check(identity, other)


class FollowedFlowState(KafkaFlowState):
    """The same for repeated reads of one flow: only new records are read, decoded and joined."""

    def __init__(self, target: ClusterSettings) -> None:
        super().__init__(target)
        self._blocks: dict[BlockKey, Block] = {}
        self._keys: dict[Place, set[BlockKey]] = {}
        self._maps: dict[Place, PartitionMap] = {}
        self._stale: set[Place] = set()
        self._next: dict[int, int] = {}

    def maps(self, identity: FlowIdentity) -> dict[Place, PartitionMap]:
        records = list(read_log(self._target, identity.runs_topic, start=self._next))
        if any(record.offset < self._next.get(record.partition, 0) for record in records):
            self._forget()  # the topic was made again, or its log was cut
            records = list(read_log(self._target, identity.runs_topic))
        for key in [take_block(self._blocks, record, identity) for record in newest_records(records)]:
            if key is not None:
                place = (key.topic_id, key.partition)
                self._keys.setdefault(place, set()).add(key)
                self._stale.add(place)
        self._next |= {record.partition: record.offset + 1 for record in records}
        for place in self._stale:
            self._maps.pop(place, None)
        stale = [key for place in self._stale for key in self._keys[place]]
        self._maps |= partition_maps((self._blocks[key] for key in stale if key in self._blocks), identity)
        self._stale.clear()
        return dict(self._maps)

    def _forget(self) -> None:
        self._blocks.clear()
        self._keys.clear()
        self._maps.clear()
        self._stale.clear()
        self._next.clear()


class WayBackState:
    """A `FlowStatePort` on a flow's *source*: the stored state of the reverse flow.

    Args:
        state: Reads it.
        required: The reverse flow is certain to run. Where it is not, a source that denies its state counts as one
            that no flow mirrors to.
    """

    def __init__(self, state: KafkaFlowState, *, required: bool) -> None:
        self._state = state
        self._required = required

    def maps(self, identity: FlowIdentity) -> Mapping[Place, PartitionMap]:
        try:
            return self._state.maps(identity)
        except NotAuthorisedError:
            if self._required:
                raise
            return {}

    def control(self, identity: FlowIdentity) -> ControlView:
        try:
            return self._state.control(identity)
        except NotAuthorisedError:
            if self._required:
                raise
            return ControlView()

    def check_aliases(self, identity: FlowIdentity, topics: Iterable[str]) -> None:
        try:
            self._state.check_aliases(identity, topics)
        except NotAuthorisedError:
            if self._required:
                raise


def way_back_state(flow: FlowSettings, kind: type[KafkaFlowState] = KafkaFlowState) -> WayBackState | None:
    """The reverse flow's stored state, for a flow that keeps topic names, and so may share topics; else None."""
    if not flow.keeps_names:
        return None
    return WayBackState(kind(flow.source), required=flow.must_tell_origins)


def _same_clusters(identity: FlowIdentity, stored: FlowRecord) -> bool:
    return (stored.source_cluster_id, stored.target_cluster_id) == (identity.source_id, identity.target_id)


def _check(identity: FlowIdentity, stored: FlowRecord) -> None:
    """Refuse aliases or cluster ids that differ from the stored ones.

    A flow's identity is its two cluster ids; the aliases are in topic names, so they are fixed with it.
    """
    if not _same_clusters(identity, stored):
        raise UsageError(
            f"topic {identity.control_topic} on {identity.target_alias} belongs to cluster ids"
            f" {stored.source_cluster_id} -> {stored.target_cluster_id}, but the cluster ids of {identity.name}"
            f" are now {identity.source_id} -> {identity.target_id}",
            remedy="if bootstrap.servers names the wrong cluster, correct it; if a cluster was replaced, give the"
            " new cluster a new alias",
            code="alias_clash",
        )
    if (stored.source_alias, stored.target_alias) != (identity.source_alias, identity.target_alias):
        raise UsageError(
            f"the clusters of {identity.name} are already mirrored under the aliases"
            f" {stored.source_alias}->{stored.target_alias}",
            remedy=f"use the aliases {stored.source_alias} and {stored.target_alias}",
            code="alias_clash",
        )
