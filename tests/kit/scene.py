"""A flow between two clusters in memory, with as much of a mirror as a test wants."""

from __future__ import annotations

import base64
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from kit.clusters import FakeCluster, FakeFlowState, FakeSynced
from kit.fences import FakeFences
from kit.maps import about_of, map_of
from kit.operations import FakeJournal, FakeLock, FakeMarks
from mmtool.config import load_settings
from mmtool.errors import RefusedError
from mmtool.failover.fence.promotion import PromotionAsked
from mmtool.failover.fence.steps import FenceAsked
from mmtool.failover.modes.cutover import Clock, OperationContext
from mmtool.failover.operation.hooks import hooks_of
from mmtool.failover.operation.journal import About, Journalist
from mmtool.failover.operation.records import fences_standing, in_journal_order, recorded
from mmtool.failover.operation.recovery import rehearse_taking_back
from mmtool.insight.flow_now import FlowClusters, FlowNow
from mmtool.insight.target_only import TargetSide
from mmtool.insight.translation import look
from mmtool.kafka.ports import Bounds, StoredCheckpoint
from mmtool.plan.failover.acl_rules import ANY_HOST, LITERAL, Binding
from mmtool.plan.failover.choices import FenceKind
from mmtool.plan.groups.facts import Commit
from mmtool.plan.records.documents import FlowRecord
from mmtool.plan.records.identity import FlowIdentity
from mmtool.translation.lockstep import Seen
from mmtool.translation.sync_map import OffsetPair
from mmtool.translation.types import ClusterId, DownstreamOffset, TopicId, TopicPartition, UpstreamOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from mmtool.config import FlowSettings
    from mmtool.errors import MmtoolError
    from mmtool.failover.modes.rehearsal import Rehearsal
    from mmtool.failover.operation.records import Recorded
    from mmtool.failover.operation.recovery import RollbackPlan
    from mmtool.failover.operation.states import Trigger
    from mmtool.plan.failover.acl_promotion import Promotion

PROPERTIES = """\
clusters = east, west
east.bootstrap.servers = east-1:9092
west.bootstrap.servers = west-1:9092
east->west.enabled = true
east->west.topics = orders.*
"""


def promotion_of(since: Recorded | None) -> Promotion | None:
    """The change of producers' ACLs that a journal says may be in force."""
    return since.operation.plan.promotion if since is not None and since.promotion_stands else None


class Scene:
    """``east->west`` mirrors ``orders.*``; nothing is there until it is said to be."""

    def __init__(self, directory: Path, extra: str = "") -> None:
        """Write the properties file into ``directory``."""
        self.config = directory / "mm2.properties"
        self.config.write_text(PROPERTIES + extra, encoding="utf-8")
        self.settings: FlowSettings = load_settings(self.config, {}).flows[0]
        self.source = FakeCluster("east", ClusterId("east-id"))
        self.target = FakeCluster("west", ClusterId("west-id"))
        self.state = FakeFlowState()
        self.mm2 = FakeSynced()
        self.drained: list[Mapping[TopicPartition, UpstreamOffset]] = []
        self.draining: MmtoolError | Callable[[float | None], MmtoolError] | None = None
        self.copying: list[Callable[[], None]] = []
        self._shipped: dict[TopicPartition, list[tuple[int, int, int]]] = {}
        self.journal, self.marks, self.lock = FakeJournal(), FakeMarks(self.state), FakeLock()
        self.fences, self.acls = FakeFences(self.source), FakeFences(self.target)

    def configure(self, extra: str) -> None:
        """The operator adds lines to the properties file."""
        self.config.write_text(f"{self.config.read_text(encoding='utf-8')}\n{extra}\n", encoding="utf-8")
        self.settings = load_settings(self.config, {}).flows[0]

    @property
    def clusters(self) -> FlowClusters:
        return FlowClusters(self.settings, self.source, self.target, self.state, synced=self.mm2)

    @property
    def side(self) -> TargetSide:
        """What an emergency has: the target alone."""
        return TargetSide(self.settings, self.target, self.state, self.mm2)

    def tools(self, *_: object) -> Scene:
        """What `mmtool.failover.service` keeps an operation by: this scene's journal, marks and lock."""
        return self

    def context(
        self, rehearsal: Rehearsal, reason: str = "", since: Recorded | None = None, *, home: bool = False
    ) -> OperationContext:
        """What an operation works with; its log is the journal alone.

        Args:
            rehearsal: What is going to be done.
            reason: Why.
            since: What the journal has of it already.
            home: Groups are going to be on the source.
        """
        groups = tuple(plan.group for plan in rehearsal.plan.groups)
        about = About(rehearsal.names, rehearsal.source_id, rehearsal.target_id, groups, reason, "ann@host-1")
        journalist = Journalist(self.journal, about, since.entries if since else 0)
        journalist.operation = since.operation if since else None
        operation_id = rehearsal.plan.operation_id
        return OperationContext(
            self.source if home else self.target,
            journalist,
            self.marks,
            self.lock,
            self,
            journalist,
            operation_id,
            about.by,
            since,
            hooks=hooks_of(self.settings, reason),
            clock=Clock(pause=lambda _: None),
        )

    def fence(self, kind: FenceKind = FenceKind.ACL, since: Recorded | None = None) -> FenceAsked:
        """A fence around the source; ``since`` is what the journal has of one already."""
        standing = since.operation.plan.fence if since is not None and since.fence_stands else None
        return FenceAsked(kind, self.source, self.fences, standing=standing)

    def promotion(self, since: Recorded | None = None, *, lost: bool = False) -> PromotionAsked:
        """A promotion from the source to the target; ``since`` is what the journal has of one already."""
        fences = fences_standing(recorded(self.journal.entries()))
        return PromotionAsked(
            self.fences, self.acls, standing=promotion_of(since), fences=fences, may_be_lost=lost
        )

    def may_write(self, user: str, topic: str) -> None:
        """A rule on the source lets somebody write a topic."""
        assert self.fences.rules is not None
        self.fences.rules.add(Binding(topic, LITERAL, f"User:{user}", ANY_HOST, "WRITE", "ALLOW"))

    def look(self, *topics: str) -> FlowNow:
        return look(self.clusters, topics)

    def has(self, topic: str, *ends: int) -> None:
        """The source has a topic with a partition for each log end; the target has it with empty logs."""
        self.source.add_topic(topic, f"id-{topic}", *ends)
        self.target.add_topic(self.settings.remote_topic(topic), f"id-remote-{topic}", *(0 for _ in ends))

    def mirrored(
        self,
        topic: str,
        partition: int,
        runs: Iterable[tuple[int, int, int]],
        frontier: int,
        *,
        start: tuple[int, int] = (0, 0),
        source_end: int | None = None,
        seen_ms: int | None = None,
    ) -> None:
        """The mirror of a partition stands there, began at ``start``, and saw the source end at ``seen_ms``, or now."""
        place, shipped = TopicPartition(topic, partition), list(runs)
        seen_ms = int(time.time() * 1000) if seen_ms is None else seen_ms
        remote = self.settings.remote_topic(topic)
        identity = FlowIdentity(self.source.cluster_id, self.target.cluster_id, "east", "west")
        about = about_of(identity, self.source.ids[topic], place, remote, self.target.ids[remote])
        self.state.stored[TopicId(about.topic_id), partition] = map_of(
            about, shipped, frontier, start=start, source_end=source_end, seen_ms=seen_ms
        )
        end = max((downstream + count for _, downstream, count in shipped), default=0)
        self.target.logs[TopicPartition(remote, partition)] = Bounds(0, end)
        self._shipped[place] = shipped

    def mirrored_by_mm2(self, topic: str, partition: int, end: int, *syncs: tuple[int, int]) -> None:
        """MM2 has copied a partition: where the target's log ends, and the offset syncs that it wrote."""
        pairs = [OffsetPair(UpstreamOffset(up), DownstreamOffset(down), 0) for up, down in syncs]
        self.mm2.syncs[TopicPartition(topic, partition)] = pairs
        self.target.logs[TopicPartition(self.settings.remote_topic(topic), partition)] = Bounds(0, end)

    def told(
        self,
        group: str,
        topic: str,
        *offsets: tuple[int, int],
        at_ms: int = 0,
        by_mm2: bool = False,
        metadata: str = "",
    ) -> None:
        """The group's last checkpoints: upstream and downstream, one pair for each partition from 0."""
        for n, pair in enumerate(offsets):
            place = TopicPartition(topic, n)
            self.told_of(group, place, pair, at_ms=at_ms, by_mm2=by_mm2, metadata=metadata)

    def told_of(
        self,
        group: str,
        place: TopicPartition,
        offsets: tuple[int, int],
        *,
        at_ms: int = 0,
        by_mm2: bool = False,
        metadata: str = "",
    ) -> None:
        """The group's last checkpoint of one partition: upstream and downstream."""
        pair = OffsetPair(UpstreamOffset(offsets[0]), DownstreamOffset(offsets[1]), at_ms)
        self.mm2.held.setdefault(group, {})[place] = StoredCheckpoint(pair, metadata, not by_mm2)
        if not by_mm2 and self.state.view.flow is None:
            self.state.view.flow = FlowRecord(
                self.source.cluster_id, self.target.cluster_id, "east", "west", 32
            )

    def holds(self, cluster: FakeCluster, topic: str, records: Iterable[tuple[int, str]]) -> None:
        """The records of a topic's first partition: offset and content."""
        seen = [Seen(offset, content.encode(), 0) for offset, content in records]
        cluster.contents[TopicPartition(topic, 0)] = seen

    def commits(
        self, group: str, topic: str, *offsets: int, cluster: FakeCluster | None = None, metadata: str = ""
    ) -> None:
        """A group has committed on the source (or ``cluster``), one offset for each partition from 0."""
        places = {TopicPartition(topic, n): Commit(offset, metadata) for n, offset in enumerate(offsets)}
        (cluster or self.source).groups.committed.setdefault(group, {}).update(places)

    def runs_streams(self, group: str) -> None:
        """The group's commits on both clusters carry a stream time, as those of Kafka Streams do."""
        stream_time = base64.b64encode(b"\x01" + bytes(8)).decode()
        for cluster in (self.source, self.target):
            commits = cluster.groups.committed.get(group, {})
            commits |= {place: Commit(commit.offset, stream_time) for place, commit in commits.items()}

    def drain(
        self,
        flow: FlowSettings,
        until: Mapping[TopicPartition, UpstreamOffset],
        timeout_seconds: float | None,
    ) -> None:
        """A `DrainPort` that mirrors at once what is missing, record for record, but for what is held.

        Raises:
            RefusedError: A topic has failed over, or is paused.
            MmtoolError: ``draining``.
        """
        del flow
        behind = {place: offset for place, offset in until.items() if not self._reached(place, offset)}
        for topic in sorted({place.topic for place in behind}):
            hold = self.state.view.holds.of(self.source.ids[topic], topic)
            if hold is not None:
                why = f"the remaining records of {hold.what} cannot be mirrored: {hold.reason}"
                raise RefusedError(why, remedy=hold.remedy, code=hold.state)
        if self.draining is not None:
            raise self._late(timeout_seconds)
        self.drained.append(dict(until))
        for place, offset in behind.items():
            self._catch_up(place, offset)

    def await_mirror_maker(
        self, flow: FlowSettings, missing: Callable[[], int], timeout_seconds: float | None
    ) -> int:
        """An MM2 that copies at each look what ``copying`` does; without it there is none.

        Raises:
            MmtoolError: ``draining``.
        """
        del flow
        while left := missing():
            if self.draining is not None:
                raise self._late(timeout_seconds)
            if not self.copying:
                break
            self.copying.pop(0)()
        return left

    def taking_back(
        self, one: Recorded, event: Trigger, cluster: FakeCluster | None = None, *, beside_others: bool = True
    ) -> Callable[[], RollbackPlan]:
        """What somebody else looks at who cancels an operation or rolls it back; asked each time.

        Args:
            one: The operation.
            event: Which of both.
            cluster: Where the groups' offsets are put back; the target where nothing is said.
            beside_others: Whether the other operations on record are looked at as well.
        """

        def rehearse() -> RollbackPlan:
            identity = FlowIdentity(self.source.cluster_id, self.target.cluster_id, "east", "west")
            others = in_journal_order(self.journal.entries()) if beside_others else ()
            at = cluster or self.target
            return rehearse_taking_back(one, event, at, self.state, identity, "bob@host-2", 0, others=others)

        return rehearse

    def _late(self, timeout_seconds: float | None) -> MmtoolError:
        assert self.draining is not None
        return self.draining(timeout_seconds) if callable(self.draining) else self.draining

    def _reached(self, place: TopicPartition, goal: int) -> bool:
        known = self.state.stored.get((self.source.ids[place.topic], place.partition))
        return known is not None and known.upstream_frontier >= goal

    def _catch_up(self, place: TopicPartition, goal: int) -> None:
        known = self.state.stored.get((self.source.ids[place.topic], place.partition))
        frontier = 0 if known is None else known.upstream_frontier
        remote = TopicPartition(self.settings.remote_topic(place.topic), place.partition)
        before = self.target.logs[remote]
        missing = [(frontier, before.log_end, goal - frontier)] if goal > frontier else []
        self.mirrored(*place, [*self._shipped.get(place, []), *missing], goal)
        self.target.logs[remote] = replace(self.target.logs[remote], log_start=before.log_start)


def half_read(directory: Path) -> Scene:
    """``orders`` with two partitions, fully mirrored with one hole; ``app`` has read part of both."""
    made = Scene(directory)
    made.has("orders", 21, 10)
    made.mirrored("orders", 0, [(0, 0, 10), (11, 10, 10)], 21)
    made.mirrored("orders", 1, [(0, 0, 10)], 10)
    made.commits("app", "orders", 12, 10)
    return made


def all_mirrored(directory: Path) -> Scene:
    """The 60 records of ``orders`` are mirrored; ``app`` and ``late`` have read 50 of them, as checkpoints tell."""
    made = Scene(directory)
    made.has("orders", 60)
    made.mirrored("orders", 0, [(0, 0, 60)], 60)
    for group in ("app", "late"):
        made.told(group, "orders", (50, 50), at_ms=int(time.time() * 1000))
    return made
