"""Read a flow's stored state and its status from the clusters, without owning it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from mmtool.config.aliases import workers_groups
from mmtool.errors import NotAuthorisedError, UsageError
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.batches import SEQUENCES
from mmtool.kafka.groups.groups import KafkaGroups
from mmtool.kafka.groups.lease import members_now
from mmtool.kafka.logs.missing_times import first_missing_times
from mmtool.kafka.mirror_maker import FollowedMirrorMaker
from mmtool.kafka.state.control_view import ControlView
from mmtool.kafka.state.external_maps import external_maps
from mmtool.kafka.state.log_reader import StoredTopic
from mmtool.kafka.state.own_log import internal_topics
from mmtool.kafka.state.state_log import (
    partition_maps,
    read_control,
    read_maps,
    read_newest_blocks,
    take_block,
)
from mmtool.kafka.wire.scan import active_producers
from mmtool.plan.flow.mirror_maker import MirrorMakerProgress
from mmtool.plan.flow.positions import PositionTrails
from mmtool.plan.topics.configs import cleanup_policies
from mmtool.plan.topics.requirements import faults_of
from mmtool.plan.topics.retention import Retention
from mmtool.translation.blocks import Block
from mmtool.translation.mm2_records import Checkpoint, decode_checkpoint
from mmtool.translation.stored_runs import stored_block
from mmtool.translation.types import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mmtool.config import ClusterSettings, FlowSettings
    from mmtool.kafka.ports import FirstMissing
    from mmtool.kafka.wire.cluster import WireCluster
    from mmtool.kafka.wire.transactions import ProducerState
    from mmtool.plan.flow.status import FlowMember
    from mmtool.plan.records.documents import FlowRecord
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.topics.configs import ConfigEntry
    from mmtool.translation.blocks import BlockKey, WriterState
    from mmtool.translation.partition_map import PartitionMap
    from mmtool.translation.types import TopicId

    Place = tuple[TopicId, int]

T = TypeVar("T")


async def count_unbooked(target: WireCluster, known: Block | PartitionMap) -> int | Unknown:
    """Count the unrecorded records that a partition's leader has from the flow's producer; UNKNOWN where it cannot.

    To be called before the fence, whose marker makes the leader forget. UNKNOWN where the leader has forgotten the
    producer, or does not list it. A negative number counts recorded records that the leader's log lacks.
    """
    if known.tail.writer is UNKNOWN:
        return UNKNOWN
    producers = await active_producers(target, known.about.downstream, purpose="scan")
    return UNKNOWN if producers is UNKNOWN else unbooked_of(known.tail.writer, producers)


def unbooked_of(writer: WriterState, producers: Sequence[ProducerState]) -> int | Unknown:
    """Count a producer's unrecorded records as `count_unbooked` does, from a leader's list of producers."""
    states = [state for state in producers if state.producer_id == writer.producer_id]
    if not states or states[0].epoch > writer.epoch:
        return UNKNOWN
    if states[0].epoch < writer.epoch:
        return -writer.next_sequence
    ahead = (states[0].last_sequence + 1 - writer.next_sequence) % SEQUENCES
    return ahead if ahead < SEQUENCES // 2 else ahead - SEQUENCES  # numbers wrap


class KafkaFlowState:
    """A `FlowStatePort` on the flow's target; the maps of an ``external`` flow come from the ends of its mirrors."""

    def __init__(self, target: ClusterSettings, *, external: bool = False) -> None:
        self._target = target
        self._external = external

    def maps(self, identity: FlowIdentity) -> dict[Place, PartitionMap]:
        if self._external:
            return external_maps(self._target, identity, self.control(identity))
        return read_maps(self._target, identity)

    def control(self, identity: FlowIdentity) -> ControlView:
        """Read the flow's control topic whole."""
        return read_control(self._target, identity)

    def check_aliases(self, identity: FlowIdentity, topics: Iterable[str]) -> ControlView:
        """See `FlowStatePort.check_aliases`.

        Each control topic on the target is read: a flow that never ran under this alias may have run under another.
        """
        view = self.control(identity)
        if view.flow is not None:
            _check(identity, view.flow)
            return view
        for under_alias in identity.others(topics).values():
            other = read_control(self._target, under_alias).flow
            if other is not None and _same_clusters(identity, other):
                _check(identity, other)
        return view


class FollowedFlowState(KafkaFlowState):
    """The same for repeated reads of one flow: only new records are read, decoded and joined."""

    def __init__(self, target: ClusterSettings, *, external: bool = False) -> None:
        super().__init__(target, external=external)
        self._blocks: dict[BlockKey, Block] = {}
        self._keys: dict[Place, set[BlockKey]] = {}
        self._maps: dict[Place, PartitionMap] = {}
        self._stale: set[Place] = set()
        self._runs = StoredTopic(target)
        self._view = ControlView()

    def control(self, identity: FlowIdentity) -> ControlView:
        self._view = read_control(self._target, identity, self._view)
        return self._view

    def maps(self, identity: FlowIdentity) -> dict[Place, PartitionMap]:
        if self._external:
            return super().maps(identity)
        records = self._runs.follow(identity.runs_topic, self._forget)
        while records:  # a record is let go once its block is taken
            if (key := take_block(self._blocks, records.pop(), identity, stored_block)) is not None:
                place = (key.topic_id, key.partition)
                self._keys.setdefault(place, set()).add(key)
                self._stale.add(place)
        self._runs.taken()
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
        return self._unless_denied(lambda: self._state.maps(identity), {})

    def control(self, identity: FlowIdentity) -> ControlView:
        return self._unless_denied(lambda: self._state.control(identity), ControlView())

    def check_aliases(self, identity: FlowIdentity, topics: Iterable[str]) -> ControlView:
        return self._unless_denied(lambda: self._state.check_aliases(identity, topics), ControlView())

    def _unless_denied(self, read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except NotAuthorisedError:
            if self._required:
                raise
            return otherwise


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


_EMPTY = "Empty"
_LOOK_SECONDS = 3.0
"""Time limit, in seconds, for all first missing records: `status --watch` refreshes every two seconds."""


class KafkaFlowWatch(FollowedFlowState):
    """A `FlowWatchPort`. Later reads take only new records; `newest_blocks` alone reads the whole offset-runs topic."""

    def __init__(self, flow: FlowSettings, timeout_seconds: float) -> None:
        """Take the flow's settings and the longest time of one request, in seconds."""
        super().__init__(flow.target, external=flow.is_external)
        self._flow = flow
        self._seconds = timeout_seconds
        self._view = ControlView(trails=PositionTrails())
        self._groups: set[str] = set()
        self._checkpoints = StoredTopic(flow.target)

    def members(self, identity: FlowIdentity) -> tuple[FlowMember, ...]:
        return members_now(self._flow.target, identity.ownership_group, self._seconds)

    def topic_faults(self, identity: FlowIdentity) -> str:
        wanted = internal_topics(identity, self._flow.offset_syncs_replication_factor)
        return faults_of(TopicAdmin(self._flow.target).compare(wanted))

    def newest_blocks(self, identity: FlowIdentity) -> dict[tuple[TopicId, int], Block]:
        if self._external:  # the whole map as one block
            maps = self.maps(identity)
            return {
                place: Block(
                    m.about,
                    m.last_block_start,
                    m.mirror_start,
                    None,
                    m.runs,
                    m.tail,
                    sealed=False,
                    made=m.made,
                )
                for place, m in maps.items()
            }
        return read_newest_blocks(self._flow.target, identity)

    def first_missing_times(self, places: Collection[FirstMissing]) -> Mapping[FirstMissing, int]:
        committed = self._flow.reads_committed
        try:
            return first_missing_times(self._flow.source, places, _LOOK_SECONDS, read_committed=committed)
        except NotAuthorisedError:
            return {}  # who may only look at offsets is told less, not nothing

    def retention(self, topics: Collection[str]) -> Mapping[str, Retention]:
        try:
            configs = TopicAdmin(self._flow.source).configs(topics)
        except NotAuthorisedError:
            return {}
        return {topic: retention_of(entries) for topic, entries in configs.items()}

    def checkpointed_groups(self) -> int:
        for record in self._checkpoints.follow(self._flow.checkpoints_topic, self._groups.clear):
            found = decode_checkpoint(record.key, record.value)
            if isinstance(found, Checkpoint):
                self._groups.add(found.group)
        self._checkpoints.taken()
        return len(self._groups)

    def mirror_maker(self) -> MirrorMakerProgress:
        positions, syncs = self._mirror_maker.positions(), self._mirror_maker.syncs()
        if not positions and not syncs:
            return MirrorMakerProgress()
        there = self._target_groups.describe_each(workers_groups(self._flow)).values()
        workers = sum(len(group.members) for group in there)
        has_left = not workers and any(group.state == _EMPTY for group in there)
        return MirrorMakerProgress.told(positions, syncs, workers=workers, has_left=has_left)

    @cached_property
    def _mirror_maker(self) -> FollowedMirrorMaker:
        return FollowedMirrorMaker(self._flow)

    @cached_property
    def _target_groups(self) -> KafkaGroups:
        return KafkaGroups(self._flow.target, self._seconds)


def retention_of(entries: Mapping[str, ConfigEntry]) -> Retention:
    """A topic's retention from its configs; None for limits of -1, and for topics that are only compacted."""
    if "delete" not in cleanup_policies(entries):
        return Retention()
    values = (
        entries[name].value if name in entries else None for name in ("retention.ms", "retention.bytes")
    )
    return Retention(*(int(value) if value and int(value) >= 0 else None for value in values))
