"""A flow in memory for smoke tests: who runs it, its canary topic, and a clock that only pauses move."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kit.clusters import FakeFlowWatch
from kit.maps import position_of
from kit.scene import Scene
from mmtool.insight.smoke_flow import SmokeDeadline, SmokeFlow
from mmtool.plan.flow.status import FlowMember
from mmtool.plan.records.documents import FlowRecord, OwnerRecord, State
from mmtool.plan.records.identity import CANARY_TOPIC
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from mmtool.errors import MmtoolError
    from mmtool.kafka.ports import CanaryRecord

_OWNER = OwnerRecord("me", "host-1", 4711, since_ms=1_000)
_HOLDER = FlowMember("mmtool/0.1-owner-host-1-pid-4711", "/10.0.0.1", holds=True)


@dataclass
class FakeCanary:
    """A `CanaryPort` whose records are mirrored as soon as they are written.

    Attributes:
        scene: The clusters.
        mirrors: What the target gets of the records of one call.
        refuses: Raised when records are written.
        created: How often the topic was made.
    """

    scene: Scene
    mirrors: Callable[[Sequence[CanaryRecord]], Sequence[CanaryRecord]] = lambda records: records
    refuses: MmtoolError | None = None
    created: int = 0
    here: list[CanaryRecord] = field(default_factory=list)
    there: list[CanaryRecord] = field(default_factory=list)

    def create(self) -> None:
        self.created += 1
        self.scene.has(CANARY_TOPIC, 0)

    def produce(self, records: Sequence[CanaryRecord]) -> list[CanaryRecord]:
        if self.refuses is not None:
            raise self.refuses
        placed = [record._replace(offset=len(self.here) + n) for n, record in enumerate(records)]
        self.here += placed
        came = self.mirrors(placed)
        self.there += [record._replace(offset=len(self.there) + n) for n, record in enumerate(came)]
        end, copied = len(self.here), len(self.there)
        log = self.scene.source.logs[TopicPartition(CANARY_TOPIC, 0)]
        self.scene.source.logs[TopicPartition(CANARY_TOPIC, 0)] = replace(log, log_end=end)
        whole = min(end, copied)
        self.scene.mirrored(CANARY_TOPIC, 0, [(0, 0, whole)] if whole else [], whole)
        return placed

    def read(self, topic: str, start: int) -> list[CanaryRecord]:
        assert topic == self.scene.settings.remote_topic(CANARY_TOPIC)
        return [record for record in self.there if (record.offset or 0) >= start]


class SmokeScene(Scene):
    """`Scene` with a flow that mmtool runs, until a test says otherwise.

    Attributes:
        sign: What shows that MirrorMaker 2 runs it.
        waited: For how long the test has waited, in seconds.
    """

    def __init__(self, directory: Path, extra: str = "") -> None:
        """Write the properties file into ``directory``."""
        super().__init__(directory, extra)
        self.watch = FakeFlowWatch()
        self.watch.stored = self.state.stored
        self.watch.view.flow = FlowRecord(self.source.cluster_id, self.target.cluster_id, "east", "west", 32)
        self.watch.marked(_OWNER)
        self.watch.present = (_HOLDER,)
        self.canary = FakeCanary(self)
        self.sign = ""
        self.waited = 0.0

    def carries_canary(self, state: State = State.CAUGHT_UP, reason: str = "") -> None:
        """The topic is there, and the owner's pumps have told of it."""
        if CANARY_TOPIC not in self.source.ids:
            self.has(CANARY_TOPIC, 0)
        self.stands(CANARY_TOPIC, state, reason)

    def stands(self, topic: str, state: State = State.CAUGHT_UP, reason: str = "") -> None:
        """The owner's pumps have told of the topic's first partition."""
        position = replace(
            position_of(TopicPartition(topic, 0), self.source.ids[topic], 0, 0, state),
            target_topic=self.settings.remote_topic(topic),
            owner="me",
            reason=reason,
            observed_ms=1_000,
        )
        self.watch.view.apply(position.key, position.encode(), 0)

    def smoke_flow(
        self, seconds: float = 60.0, start_command: str = "mmtool replicate -c mm2.properties"
    ) -> SmokeFlow:
        """The flow, for a test that may take so long."""

        def pause(length: float) -> None:
            self.waited += length

        return SmokeFlow(
            replace(self.clusters, state=self.watch),
            self.watch,
            self.canary,
            lambda: self.sign,
            start_command,
            SmokeDeadline(seconds, lambda: self.waited, pause),
        )
