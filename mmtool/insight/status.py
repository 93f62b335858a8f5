"""The status of flows as a service: read from Kafka alone, from any host, with or without an owner.

The order of the requests matters, because logs and positions move meanwhile:

1. the source's ends, and the members of the ownership group
2. the workers' positions, after the ends: an older position would seem to lag behind records that were only just
   produced. A partition of a running flow that still lags is read again after the second in which workers write
3. the stored offset runs, of partitions whose worker is silent
4. the first record that is missing on the target
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from mmtool.errors import MmtoolError
from mmtool.insight.flow_now import FlowFailures, FlowNow, ask_each, connect, outages, worst
from mmtool.insight.flow_progress import mirror_maker_progress
from mmtool.insight.target_only import TargetSide, identity_on_target
from mmtool.insight.translation import look
from mmtool.kafka.ports import FirstMissing
from mmtool.plan.flow.status import FlowFacts, activity_of, flow_row, has_silent, has_unmirrored, standings
from mmtool.plan.topics.disappearance import StoredPartition, last_of_each, seen_last, vanished_rows
from mmtool.plan.topics.facts import TopicFacts
from mmtool.plan.topics.retention import Retention
from mmtool.plan.words import Names, clock_time
from mmtool.runtime.threads import Unawaited
from mmtool.translation.types import TopicId

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from mmtool.config import FlowSettings
    from mmtool.errors import UnreachableError
    from mmtool.insight.flow_now import FlowClusters
    from mmtool.kafka.ports import FlowWatchPort, SyncedPort
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.plan.flow.positions import PartitionRow
    from mmtool.plan.flow.status import Activity, FlowMember
    from mmtool.translation.types import TopicPartition

    Record: TypeAlias = tuple[TopicPartition, int]
    """A record of the source whose timestamp is asked for."""

_PUMPS_WRITE_SECONDS = 1.2


class OwnerRow(TypedDict):
    """The facts about a flow that each of its rows in `mmtool status` has.

    Attributes:
        owner_host: The host of the flow's owner; null without one.
        owner_pid: The process id of the flow's owner; null without one.
        owner_since: When it became the owner; null without one.
        heard_at: When a worker last stored a position; null where none did.
        standbys: Processes that wait for the ownership lease.
        groups: Groups with checkpoints on the target; null where they could not be read.
    """

    owner_host: str | None
    owner_pid: int | None
    owner_since: datetime | None
    heard_at: datetime | None
    standbys: int
    groups: int | None


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """The status of one flow.

    Attributes:
        rows: The contract's rows, by topic and partition.
        groups: How many groups have checkpoints on the target; None where they could not be read.
        activities: Of each row.
        away: Why the source does not answer: the rows are then what the target knows.
    """

    facts: FlowFacts
    rows: tuple[PartitionRow, ...]
    groups: int | None
    activities: tuple[Activity, ...]
    away: UnreachableError | None = None

    @property
    def name(self) -> str:
        return f"{self.facts.source}->{self.facts.target}"

    def documents(self) -> list[dict[str, object]]:
        """The rows for scripts: each with its activity, and with the same facts about the flow's owner."""
        owner, holder = self.facts.owner, self.facts.holder
        runs = owner if holder is not None and self.facts.announced else None
        about: OwnerRow = {
            "owner_host": None if runs is None else runs.host,
            "owner_pid": None if runs is None else runs.pid,
            "owner_since": None if runs is None else clock_time(runs.since_ms),
            "heard_at": None if self.facts.heard_ms is None else clock_time(self.facts.heard_ms),
            "standbys": self.facts.standbys,
            "groups": self.groups,
        }
        return [
            {**row._asdict(), **about, **activity._asdict()}
            for row, activity in zip(self.rows, self.activities, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class WatchedFlow:
    """A flow whose status is read.

    Attributes:
        clusters: The connections to its clusters.
        watch: Its stored state, and its owner.
        topics: ``--topic``: only these.
        on_target: MM2's topics as far as they are on the target, which an emergency failover would use.
    """

    clusters: FlowClusters
    watch: FlowWatchPort
    topics: tuple[str, ...] = ()
    on_target: SyncedPort | None = None

    def status(self) -> FlowStatus:
        """Read the flow's present status.

        Raises:
            UnreachableError, NotAuthorisedError, RefusedError, UsageError: as `look`, and stored state that cannot be
                read.
        """
        flow = look(self.clusters, self.topics, past=True)
        settings = self.clusters.settings
        committed = settings.reads_committed
        with Unawaited() as pool:
            members = pool.submit(self.watch.members, flow.identity)
            groups = pool.submit(self._groups)
            bounds = self.clusters.source.bounds_each(flow.partitions, committed=committed)
            ends = {place: log.log_end for place, log in bounds.items()}
            starts = {place: log.log_start for place, log in bounds.items()}
            problems = {place: error.message for place, error in bounds.failed.items()}
            facts = flow_facts(flow, ends, members.result(), self.watch.control(flow.identity))
            if facts.announced and any(standing.is_behind for standing in standings(facts)):
                time.sleep(_PUMPS_WRITE_SECONDS)
                facts = flow_facts(flow, ends, facts.members, self.watch.control(flow.identity))
            facts = self._unlisted(replace(facts, starts=starts, problems=problems))
            if not facts.ran or has_silent(facts):  # a flow without a record of its own may have lost it
                facts = self._unlisted(replace(facts, blocks=self.watch.newest_blocks(flow.identity)))
            if facts.holder is None and has_unmirrored(facts):
                progress = mirror_maker_progress(flow, self.watch, ends)
                facts = replace(facts, mirror_maker=progress)
            if not (facts.ran or self.clusters.settings.create_topics):
                facts = replace(facts, topic_faults=self.watch.topic_faults(flow.identity))
            if facts.unlisted:
                facts = replace(facts, deleted=self.clusters.source.lacks(facts.unlisted))
            rows = self._rows(facts)
            activities = tuple(activity_of(facts, row) for row in rows)
            return FlowStatus(facts, self._with_offsets(rows), groups.result(), activities)

    @property
    def names(self) -> Names:
        """The aliases of its clusters."""
        return Names(self.clusters.settings.source.alias, self.clusters.settings.target.alias)

    @property
    def target_side(self) -> TargetSide:
        """The flow, with connections to its target only."""
        assert self.on_target is not None
        return TargetSide(
            self.clusters.settings, self.clusters.target, self.watch, self.on_target, self.clusters.names
        )

    def status_on_target(self, away: UnreachableError) -> FlowStatus:
        """What the target knows while the source does not answer: no lag, and no partition that runs.

        Raises:
            UnreachableError, NotAuthorisedError, RefusedError: As `status`; ``away`` where mmtool never ran the flow.
        """
        identity, control = identity_on_target(self.target_side)
        if control.flow is None:
            raise away
        with Unawaited() as pool:
            members = pool.submit(self.watch.members, identity)
            groups = pool.submit(self._groups)
            blocks = self.watch.newest_blocks(identity)
            positions = {(TopicId(at.topic_id), at.partition): at for at in control.positions.values()}
            stored = last_of_each(
                StoredPartition(blocks.get(at), positions.get(at)) for at in blocks.keys() | positions.keys()
            )
            means = self.topics.__contains__ if self.topics else self.clusters.settings.mirrors_topic
            topics = {
                at.topic: TopicFacts(at.topic, of.topic_id, at.partition + 1)
                for at, of in sorted(stored.items())
                if means(at.topic)
            }
            there = self.clusters.target.topics()
            flow = FlowNow(self.clusters, identity, topics, bool(self.topics), there)
            facts = replace(flow_facts(flow, {}, members.result(), control), blocks=blocks)
            rows = tuple(seen_last(one.row, stored.get(one.place)) for one in standings(facts))
            activities = tuple(activity_of(facts, row) for row in rows)
            return FlowStatus(facts, self._with_offsets(rows), groups.result(), activities, away)

    def _with_offsets(self, rows: Iterable[PartitionRow]) -> tuple[PartitionRow, ...]:
        return tuple(row.told_offsets(self.clusters.settings.keeps_offsets) for row in rows)

    def _unlisted(self, facts: FlowFacts) -> FlowFacts:
        means = self.clusters.settings.mirrors_topic
        names = {name for name in facts.on_record - facts.topics.keys() if means(name)}
        return replace(facts, unlisted=frozenset(names & set(self.topics) if self.topics else names))

    def _groups(self) -> int | None:
        try:
            return self.watch.checkpointed_groups()
        except MmtoolError:
            return None

    def _rows(self, facts: FlowFacts) -> tuple[PartitionRow, ...]:
        row = flow_row(facts)
        if row is not None:
            return (row,)
        found, starts = standings(facts), facts.starts
        wanted = {
            one.place: one.row.upstream_position
            for one in found
            if one.is_behind and one.row.upstream_position is not None
        }
        keeps = self.watch.retention({place.topic for place in wanted}) if wanted else {}
        firsts = {
            place: starts[place]
            for place in wanted
            if place.topic in keeps and keeps[place.topic].bytes is not None and starts.get(place, 0) > 0
        }
        oldest, goes_next = (
            {place: ms for (place, _), ms in written_times(self.watch, facts.topics, of, starts).items()}
            for of in (wanted.items(), firsts.items())
        )
        now_ms = int(time.time() * 1000)
        listed = [
            one.with_age(
                oldest.get(one.place),
                now_ms,
                keeps.get(one.place.topic, Retention()),
                goes_next.get(one.place),
            )
            for one in found
        ]
        return tuple(sorted([*listed, *vanished_rows(facts)], key=lambda row: (row.topic, row.partition)))


def watched_flow(
    flow: FlowSettings, timeout: timedelta, topics: Collection[str] = (), *, first: timedelta | None = None
) -> WatchedFlow:
    """A flow to watch, with connections of its own that are not used yet.

    Args:
        flow: The flow.
        timeout: The time limit of one request.
        topics: ``--topic``: only these.
        first: As in `connect`.
    """
    from mmtool.kafka.mirror_maker import Mm2Topics
    from mmtool.kafka.state.flow_state import KafkaFlowWatch

    watch = KafkaFlowWatch(flow, timeout.total_seconds())
    clusters = replace(connect(flow, timeout, beside_mm2=True, first=first), state=watch)
    return WatchedFlow(clusters, watch, tuple(topics), Mm2Topics(flow, target_only=True))


def flow_facts(
    flow: FlowNow,
    ends: Mapping[TopicPartition, int],
    members: tuple[FlowMember, ...],
    control: ControlView,
) -> FlowFacts:
    """The facts for a flow's status, without offset runs.

    Args:
        flow: The flow.
        ends: The source's ends that can be mirrored.
        members: The members of its ownership group.
        control: Its control topic, read after ``ends``.
    """
    settings = flow.clusters.settings
    return FlowFacts(
        source=settings.source.alias,
        target=settings.target.alias,
        ran=control.flow is not None,
        topics=flow.topics,
        remote={name: flow.remote(name) for name in flow.topics},
        ends=ends,
        owner=control.owner,
        members=members,
        positions=dict(control.positions),
        target_ids={name: topic.topic_id for name, topic in flow.target_topics.items()},
        now_ms=int(time.time() * 1000),
        holds=control.holds,
        refused=control.refused_beside(flow.topics),
        slots=control.slots,
        shards=control.flow.shards if control.flow is not None else 0,
        begins_again=settings.begins_again,
        is_external=settings.is_external,
        kept_in={name: there for name in flow.topics if (there := settings.kept_in(name))},
        refreshes=settings.refresh_topics,
        trails=control.trails,
    )


def written_times(
    watch: FlowWatchPort,
    topics: Mapping[str, TopicFacts],
    records: Iterable[Record],
    starts: Mapping[TopicPartition, int],
) -> dict[Record, int]:
    """The timestamps in ms of the source's first records at or after the given offsets.

    Left out are records of other topics, unknown timestamps, and those ahead of the clock: brokers accept up to an
    hour, and such a timestamp does not say when its record was written.

    Args:
        watch: The flow.
        topics: The source's topics.
        records: Partitions of the source, and offsets.
        starts: Where logs start: a fetch before that is answered with nothing.
    """
    asked = {
        (at, offset): FirstMissing(
            at.topic, topics[at.topic].topic_id, at.partition, max(offset, starts.get(at, 0))
        )
        for at, offset in records
        if at.topic in topics
    }
    found = watch.first_missing_times(set(asked.values())) if asked else {}
    now_ms = int(time.time() * 1000)
    return {at: ms for at, first in asked.items() if (ms := found.get(first)) is not None and ms <= now_ms}


@dataclass(frozen=True, slots=True)
class Status:
    """The status of several flows; an unreachable cluster does not hide other flows.

    Attributes:
        flows: The flows with an answer.
        others: The flows without one.
    """

    flows: tuple[FlowStatus, ...]
    others: FlowFailures

    @property
    def rows(self) -> list[PartitionRow]:
        return [row for flow in self.flows for row in flow.rows]

    def documents(self) -> list[dict[str, object]]:
        return [document for flow in self.flows for document in flow.documents()]

    @property
    def errors(self) -> tuple[MmtoolError, ...]:
        """Why flows, or their sources, have not answered."""
        return (*self.others.errors, *(flow.away for flow in self.flows if flow.away is not None))

    @property
    def error(self) -> MmtoolError | None:
        """The error that ends the command; None where there is none."""
        return worst(self.errors)


def look_at_all(flows: Sequence[WatchedFlow]) -> Status:
    """The status of every flow, read at the same time; from the target alone where the source does not answer."""

    def status(flow: WatchedFlow) -> FlowStatus:
        away = outages(flow.clusters)
        if away.target is not None:
            raise away.target
        return flow.status() if away.source is None else flow.status_on_target(away.source)

    return Status(*ask_each(flows, status))
