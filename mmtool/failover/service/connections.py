"""Connect to the clusters of an operation; the only module of `mmtool failover` that does."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

from mmtool.output import talk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mmtool.config import ClusterSettings, FlowSettings
    from mmtool.failover.modes.cutover import DrainPort, LockPort, MarksPort
    from mmtool.failover.modes.failback_steps import BothWays
    from mmtool.failover.operation.journal import JournalPort
    from mmtool.failover.operation.records import Recorded
    from mmtool.insight.target_only import TargetSide
    from mmtool.kafka.ports import AppendPort, ClusterPort, FencePort
    from mmtool.kafka.state.journal import KafkaJournal
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.translation.types import TopicPartition, UpstreamOffset


@dataclass(frozen=True, slots=True)
class Tools:
    """The journal, the marks and the operation lock, all on the target."""

    journal: JournalPort
    marks: MarksPort
    lock: LockPort


def tools(settings: FlowSettings, identity: FlowIdentity, timeout: timedelta) -> Tools:
    """Connections to the target's journal, marks and operation lock; no request is sent yet."""
    from mmtool.kafka.state.journal import KafkaMarks

    seconds, factor = timeout.total_seconds(), settings.offset_syncs_replication_factor
    marks = KafkaMarks(settings.target, identity, factor, seconds)
    kept = journal(settings, timeout)
    return Tools(kept, marks, _lock(settings, kept.prepare))


def operation_lock_of(settings: FlowSettings, timeout: timedelta) -> LockPort:
    """The flow's operation lock; the journal is connected only when needed, unlike in `tools`; sends no request."""

    @cache
    def prepare() -> None:
        journal(settings, timeout).prepare()

    return _lock(settings, prepare)


def _lock(settings: FlowSettings, prepare: Callable[[], None]) -> LockPort:
    from mmtool.kafka.groups.lease import OperationLock

    return OperationLock(settings.target, settings.source.alias, prepare)


@contextmanager
def lock_requested(
    settings: FlowSettings, timeout: timedelta, *, execute: bool, yes: bool
) -> Iterator[LockPort]:
    """A context with the operation lock, requested at once if the plan will be executed without a question.

    The lock is a group membership, and an empty group's first rebalance waits ``group.initial.rebalance.delay.ms`` (3
    s) for more members, longer than planning takes. The lock is released at the end.
    """
    lock = operation_lock_of(settings, timeout)
    if execute and yes:
        lock.begin()
    try:
        yield lock
    finally:
        lock.leave()


def journal(settings: FlowSettings, timeout: timedelta, *, at_source: bool = False) -> KafkaJournal:
    """The journal on a flow's target, or on its source (``at_source``), which is only read."""
    from mmtool.kafka.state.journal import KafkaJournal

    cluster = settings.source if at_source else settings.target
    return KafkaJournal(cluster, settings.offset_syncs_replication_factor, timeout.total_seconds())


def written_at(found: Recorded, flow: FlowSettings, timeout: timedelta) -> ClusterPort:
    """Connection to the cluster where an operation writes offsets: the flow's target, or its source for a failback."""
    from mmtool.kafka.admin.cluster_facts import KafkaCluster
    from mmtool.plan.failover.steps import Mode
    from mmtool.plan.groups.names import GroupNames

    is_back = found.mode is Mode.FAILBACK
    names = None if is_back else GroupNames(pairs=found.target_groups)
    return KafkaCluster(flow.source if is_back else flow.target, timeout.total_seconds(), names=names)


def target_side(flow: FlowSettings, timeout: timedelta) -> TargetSide:
    """Connections to a flow's target alone; no request is sent yet."""
    from mmtool.insight.target_only import TargetSide
    from mmtool.kafka.admin.cluster_facts import KafkaCluster
    from mmtool.kafka.mirror_maker import Mm2Topics
    from mmtool.kafka.state.flow_state import KafkaFlowState
    from mmtool.kafka.state.journal import group_names

    names = group_names(flow, timeout.total_seconds())
    return TargetSide(
        flow,
        KafkaCluster(flow.target, timeout.total_seconds(), names=names),
        KafkaFlowState(flow.target, external=flow.is_external),
        Mm2Topics(flow, target_only=True),
        names,
    )


def both_ways(flow: FlowSettings, back: FlowSettings, timeout: timedelta) -> BothWays:
    """Read a flow and its reverse flow from both clusters.

    Raises:
        As `mmtool.insight.translation.look`.
    """
    from mmtool.failover.modes.failback import look_both_ways
    from mmtool.insight.flow_now import connect
    from mmtool.kafka.logs.log_parts import KafkaBatches

    seconds = timeout.total_seconds()
    return look_both_ways(
        clusters := connect(flow, timeout, beside_mm2=True),
        connect(back, timeout, beside_mm2=True, back_of=clusters),
        KafkaBatches(flow.source, seconds),
        KafkaBatches(flow.target, seconds),
    )


def tail_appender(flow: FlowSettings, operation_id: str, timeout: timedelta) -> AppendPort:
    """A writer of diverged records to the flow's source, under the operation's producer id; no request is sent yet."""
    from mmtool.failover.diverged_tail.tail_writer import transactional_id
    from mmtool.kafka.logs.sequence_append import KafkaAppender

    return KafkaAppender(flow.source, transactional_id(operation_id), timeout.total_seconds())


def fenced_cluster(cluster: ClusterSettings, timeout: timedelta) -> tuple[ClusterPort, FencePort]:
    """Connections to a cluster, its ACLs and its producers; no request is sent yet.

    ACL requests wait at least 60 s for their answer, whatever ``--timeout`` says: a hung controller can delay a change
    for a minute.
    """
    from mmtool.kafka.admin.cluster_facts import KafkaCluster

    return KafkaCluster(cluster, timeout.total_seconds()), acls_of(cluster, timeout)


def acls_of(cluster: ClusterSettings, timeout: timedelta) -> FencePort:
    """A cluster's ACLs, to read and to change; no request is sent yet. Requests wait as those of `fenced_cluster`."""
    return acls_to_read(cluster, max(timedelta(minutes=1), timeout))


def acls_to_read(cluster: ClusterSettings, timeout: timedelta) -> FencePort:
    """A cluster's ACLs, to read them within the time of one request: the cluster may be lost."""
    from mmtool.kafka.admin.fences import KafkaFences

    return KafkaFences(cluster, timeout.total_seconds())


def engine_drain() -> DrainPort:
    """A `DrainPort` that runs mmtool's engine; Spark is loaded only when it drains."""
    return _EngineDrain()


class _EngineDrain:
    def drain(
        self,
        flow: FlowSettings,
        until: Mapping[TopicPartition, UpstreamOffset],
        timeout_seconds: float | None,
    ) -> None:
        from mmtool.output.progress import Progress
        from mmtool.replication.driver.drain import drain_flow

        with Progress() as progress:
            drain_flow(flow, until, timeout_seconds, show=progress.show, say=talk)

    def await_mirror_maker(
        self, flow: FlowSettings, missing: Callable[[], int], timeout_seconds: float | None
    ) -> int:
        from mmtool.replication.driver.drain import await_mirror_maker

        return await_mirror_maker(flow, missing, timeout_seconds, say=talk)
