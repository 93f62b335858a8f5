"""The clusters of an operation: the one place where `mmtool failover` connects to the real ones."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from mmtool.config import FlowSettings
    from mmtool.failover.modes.cutover import MarksPort, OperatorSeat
    from mmtool.failover.operation.journal import JournalPort
    from mmtool.failover.operation.records import Recorded
    from mmtool.insight.target_only import TargetSide
    from mmtool.kafka.ports import ClusterPort
    from mmtool.kafka.state.journal import KafkaJournal
    from mmtool.plan.records.identity import FlowIdentity


@dataclass(frozen=True, slots=True)
class Tools:
    """What an operation is kept by, on the target."""

    journal: JournalPort
    marks: MarksPort
    seat: OperatorSeat


def tools(settings: FlowSettings, identity: FlowIdentity, timeout: timedelta) -> Tools:
    """The target's own; nothing is asked yet."""
    from mmtool.kafka.state.marks import KafkaMarks

    seconds, factor = timeout.total_seconds(), settings.offset_syncs_replication_factor
    marks = KafkaMarks(settings.target, identity, factor, seconds)
    kept = journal(settings, timeout)
    return Tools(kept, marks, _seat(settings, kept.prepare))


def operator_seat(settings: FlowSettings, timeout: timedelta) -> OperatorSeat:
    """Of one operation on a flow at a time; nothing is asked yet, and what writes to the journal is not loaded."""

    @cache
    def prepare() -> None:
        journal(settings, timeout).prepare()

    return _seat(settings, prepare)


def _seat(settings: FlowSettings, prepare: Callable[[], None]) -> OperatorSeat:
    from mmtool.kafka.groups.operation_lock import OperationLock

    return OperationLock(settings.target, settings.source.alias, prepare)


@contextmanager
def seat_begun(
    settings: FlowSettings, timeout: timedelta, *, execute: bool, yes: bool
) -> Iterator[OperatorSeat]:
    """The operator's seat, asked for while the plan is made, if that is going to be executed without a question.

    A group that nobody is in waits ``group.initial.rebalance.delay.ms`` for others: 3 s, longer than the rest takes.
    """
    seat = operator_seat(settings, timeout)
    if execute and yes:
        seat.begin()
    try:
        yield seat
    finally:
        seat.leave()


def journal(settings: FlowSettings, timeout: timedelta, *, at_source: bool = False) -> KafkaJournal:
    """The journal of a flow's target, or of its source, for reading."""
    from mmtool.kafka.state.journal import KafkaJournal

    cluster = settings.source if at_source else settings.target
    return KafkaJournal(cluster, settings.offset_syncs_replication_factor, timeout.total_seconds())


def identity_of(found: Recorded) -> FlowIdentity:
    """The flow of an operation, as far as its topics' names go."""
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.translation.known import UNKNOWN
    from mmtool.translation.types import ClusterId

    alias = found.names.source
    source_id = ClusterId(alias) if found.source_id is UNKNOWN else found.source_id
    return FlowIdentity(source_id, found.target_id, alias, found.names.target)


def written_at(found: Recorded, flow: FlowSettings, timeout: timedelta) -> ClusterPort:
    """The cluster where an operation's groups are going to be: for a failback the flow's source."""
    from mmtool.kafka.admin.cluster_facts import KafkaCluster
    from mmtool.plan.failover.steps import Mode

    cluster = flow.source if found.mode is Mode.FAILBACK else flow.target
    return KafkaCluster(cluster, timeout.total_seconds())


def target_side(flow: FlowSettings, timeout: timedelta) -> TargetSide:
    """The ways to a flow's target alone; nothing is asked yet."""
    from mmtool.insight.target_only import TargetSide
    from mmtool.kafka.admin.cluster_facts import KafkaCluster
    from mmtool.kafka.mm2.topics import Mm2Topics
    from mmtool.kafka.state.flow_state import KafkaFlowState

    return TargetSide(
        flow,
        KafkaCluster(flow.target, timeout.total_seconds()),
        KafkaFlowState(flow.target),
        Mm2Topics(flow, target_only=True),
    )
