"""The `FlowWatchPort` of a real flow: its status, read from both clusters repeatedly."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from mmtool.config.mm2_names import workers_groups
from mmtool.errors import NotAuthorisedError
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.groups.groups import KafkaGroups
from mmtool.kafka.groups.lease import members_now
from mmtool.kafka.logs.oldest import first_missing_times
from mmtool.kafka.mm2.mirror_maker import FollowedMirrorMaker
from mmtool.kafka.state.control_view import ControlView
from mmtool.kafka.state.flow_state import FollowedFlowState
from mmtool.kafka.state.log_reader import read_log
from mmtool.kafka.state.state_log import read_control, read_newest_blocks
from mmtool.plan.flow.mirror_maker import MirrorMakerProgress
from mmtool.plan.flow.position_trails import PositionTrails
from mmtool.plan.topics.configs import cleanup_policies
from mmtool.plan.topics.retention import Retention
from mmtool.translation.mm2_records import Checkpoint, decode_checkpoint

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mmtool.config import FlowSettings
    from mmtool.kafka.ports import FirstMissing
    from mmtool.plan.flow.status import FlowMember
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.plan.topics.configs import ConfigEntry
    from mmtool.translation.blocks import Block
    from mmtool.translation.types import TopicId

_EMPTY = "Empty"
_LOOK_SECONDS = 3.0
"""Time limit, in seconds, for all first missing records: `status --watch` refreshes every two seconds."""


class KafkaFlowWatch(FollowedFlowState):
    """A `FlowWatchPort`. Later reads take only new records; `newest_blocks` alone reads the whole offset-runs topic."""

    def __init__(self, flow: FlowSettings, timeout_seconds: float) -> None:
        """Take the flow's settings and the longest time of one request, in seconds."""
        super().__init__(flow.target)
        self._flow = flow
        self._seconds = timeout_seconds
        self._view = ControlView(trails=PositionTrails())
        self._groups: set[str] = set()
        self._read_to: dict[int, int] = {}

    def members(self, identity: FlowIdentity) -> tuple[FlowMember, ...]:
        return members_now(self._flow.target, identity.ownership_group, self._seconds)

    def control(self, identity: FlowIdentity) -> ControlView:
        self._view = read_control(self._flow.target, identity, self._view)
        return self._view

    def newest_blocks(self, identity: FlowIdentity) -> dict[tuple[TopicId, int], Block]:
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
        topic = self._flow.checkpoints_topic
        for record in read_log(self._flow.target, topic, start=self._read_to):
            self._read_to[record.partition] = record.offset + 1
            found = decode_checkpoint(record.key, record.value)
            if isinstance(found, Checkpoint):
                self._groups.add(found.group)
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
    return Retention(*(_limit(entries.get(name)) for name in ("retention.ms", "retention.bytes")))


def _limit(entry: ConfigEntry | None) -> int | None:
    if entry is None or not entry.value or int(entry.value) < 0:
        return None
    return int(entry.value)
