"""Read the facts of a comparison from both clusters before any log is read.

The order of the requests matters, because logs move meanwhile:

1. the offsets up to which the mirror should be complete, first: what is mirrored meanwhile is more than that
2. the source's logs, the offset runs or MM2's syncs, the target's logs, in the order of `partition_facts`
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from mmtool.errors import MmtoolError, with_remedy
from mmtool.insight.applications import steps_to_mirror_again, unread
from mmtool.insight.partitions import partition_facts
from mmtool.insight.translation import look
from mmtool.insight.verify.job import ComparedFlow
from mmtool.insight.verify.points import VerifiedPoints
from mmtool.insight.verify.ranges import ComparedPartition, Joint, began_at
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.mirror_maker import latest_positions
from mmtool.kafka.state.state_log import read_producers
from mmtool.plan.groups.offsets import Direction
from mmtool.plan.records.documents import State
from mmtool.plan.topics.configs import cleanup_policies
from mmtool.replication.flow_state.flow_moves import ask_starts
from mmtool.runtime.threads import run_loop
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from mmtool.config import FlowSettings
    from mmtool.insight.flow_now import FlowClusters, FlowNow
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.plan.groups.offsets import PartitionFacts
    from mmtool.plan.records.identity import FlowIdentity
    from mmtool.translation.types import TopicPartition

Since = Literal["last"] | datetime


class Uncompared(NamedTuple):
    """Why a partition was not compared, and what to do about it."""

    why: str
    remedy: str = ""


NEVER_RAN = "never_ran: this partition was never mirrored"


@dataclass(frozen=True, slots=True)
class PreparedFlow:
    """A flow with the facts about its partitions.

    Attributes:
        identity: The ids of its clusters.
        compared: What workers need.
        partitions: By the partition on the source.
        problems: Why others cannot be compared, likewise.
        stopped: Why the flow will mirror no more records of some of those that are compared, likewise.
        targets: Each partition on the target.
        points: How far each partition was verified.
        warnings: Sentences.
    """

    clusters: FlowClusters
    identity: FlowIdentity
    compared: ComparedFlow
    partitions: Mapping[TopicPartition, ComparedPartition]
    problems: Mapping[TopicPartition, Uncompared]
    stopped: Mapping[TopicPartition, Uncompared]
    targets: Mapping[TopicPartition, TopicPartition]
    points: VerifiedPoints
    warnings: tuple[str, ...]

    def lag(self, place: TopicPartition) -> int | None:
        """Offsets of the source behind what was mirrored; None where nobody can tell."""
        part = self.partitions.get(place)
        if part is None or part.facts.source_log is UNKNOWN:
            return None
        if part.frontier is None:
            return 0
        return max(part.facts.source_log.log_end - part.frontier, 0)


def prepare(clusters: FlowClusters, topics: Collection[str] = (), since: Since | None = None) -> PreparedFlow:
    """What is to be compared of a flow.

    Args:
        clusters: The flow.
        topics: ``--topic``: only these.
        since: ``--since``: where to begin; None: as far back as both logs go.

    Raises:
        UnreachableError, NotAuthorisedError: A cluster does not answer, or not us.
        RefusedError: Stored state that cannot be read.
        UsageError: No topic is matched.
    """
    flow = look(clusters, topics)
    settings = clusters.settings
    warnings: list[str] = []
    positions = _positions(settings, warnings)
    facts = partition_facts(flow, Direction.FORWARD, warnings)
    compacted = _compacted(flow, facts, warnings)
    control = clusters.state.control(flow.identity)
    points = VerifiedPoints(flow, control)
    begin = _beginnings(flow, facts, since, points)
    stopped = _stopped(flow, facts, control)
    partitions, problems = {}, {}
    for place, one in facts.items():
        problem = _problem(one, settings)
        if problem is not None:
            problems[place] = problem
            continue
        frontier = positions.get(place) if one.map is None else int(one.map.upstream_frontier)
        partitions[place] = ComparedPartition(
            one,
            flow.topics[place.topic].topic_id,
            flow.target_topics[one.target.topic].topic_id,
            frontier,
            compacted=bool({place.topic, one.target.topic} & compacted),
            since=begin.get(place),
            is_stopped=place in stopped,
        )
    return PreparedFlow(
        clusters,
        flow.identity,
        _compared_flow(flow),
        partitions,
        problems,
        stopped,
        {place: one.target for place, one in facts.items()},
        points,
        tuple(warnings),
    )


def _beginnings(
    flow: FlowNow, facts: Mapping[TopicPartition, PartitionFacts], since: Since | None, points: VerifiedPoints
) -> dict[TopicPartition, int | Joint]:
    if since is None:
        return {}
    if since == "last":
        found: dict[TopicPartition, int | Joint] = {}
        for place, one in facts.items():
            point, began = points.point(place), None if one.map is None else began_at(one.map)
            # records before a point may have been mirrored again later, after a seek or forget
            if point is not None and not (
                began is not None and point.upstream > began.upstream and point.downstream <= began.downstream
            ):
                found[place] = point
        return found
    return dict(run_loop(ask_starts(flow, facts, since)))


def _stopped(
    flow: FlowNow, places: Collection[TopicPartition], control: ControlView
) -> dict[TopicPartition, Uncompared]:
    """Why the flow mirrors no more records of a partition until an operator acts."""
    found = {}
    positions = control.positions
    for place in places:
        topic_id = flow.topics[place.topic].topic_id
        hold = control.holds.of(topic_id, place.topic)
        position = positions.get((topic_id, place.partition))
        if hold is not None and hold.state is State.FAILED_OVER:
            found[place] = Uncompared(hold.reason, hold.remedy)
        elif position is not None and position.state == State.HALTED:
            found[place] = Uncompared(f"halted: {position.reason}")
    return found


def _problem(facts: PartitionFacts, flow: FlowSettings) -> Uncompared | None:
    here, there, topic = flow.source.alias, flow.target.alias, facts.source.topic
    if facts.problem:
        return Uncompared(facts.problem, unread(facts, facts.problem).remedy)
    if facts.map is None and facts.synced is None:
        why = f"`mmtool status -c FILE --topic {topic}` shows why the partition is not mirrored"
        return Uncompared(NEVER_RAN, f"mirror it with `mmtool replicate`; {why}")
    if facts.source_log is UNKNOWN:
        missing = f"partition_missing: {here} has no {facts.source}"
        return Uncompared(
            missing, f"check that {topic} still exists on {here} (a deleted topic cannot be compared)"
        )
    if facts.target_log is UNKNOWN:
        is_shared = flow.keeps_names and flow.way_back is not None  # it holds records of the target itself
        steps = steps_to_mirror_again(facts, flow, deletes=not is_shared)
        gone = "does not exist" if facts.map is None else "was deleted, or its topic was recreated"
        missing = f"partition_missing: {facts.target} on {there} {gone}"
        return Uncompared(missing, f"mirror {topic} again: {steps}")
    return None


def _compared_flow(flow: FlowNow) -> ComparedFlow:
    settings = flow.clusters.settings
    ours = {
        number
        for number, producer in read_producers(settings.target).items()
        if producer.flow == flow.identity.flow and producer.source_cluster_id == flow.identity.source_id
    }
    left_out: set[int] = set()
    if settings.tells_origins:  # records on the source that the target brought there are not carried
        local = settings.origins == "local"
        left_out = {
            number
            for number, producer in read_producers(settings.source).items()
            if producer.is_left_out(flow.identity.target_id, local_only=local)
        }
    shared = settings.keeps_names and settings.way_back is not None
    return ComparedFlow(settings, frozenset(ours), shared, frozenset(left_out))


def _positions(settings: FlowSettings, warnings: list[str]) -> dict[TopicPartition, int]:
    """The source offset behind the last one that MM2 says it has copied."""
    try:
        found = latest_positions(settings)
    except MmtoolError as error:
        warnings.append(
            "MirrorMaker 2's source offsets cannot be read, so records that MirrorMaker 2 has not copied yet count as"
            f" missing: {with_remedy(error)}"
        )
        return {}
    return {place: int(last) + 1 for place, last in found.items()}


def _compacted(
    flow: FlowNow, facts: Mapping[TopicPartition, PartitionFacts], warnings: list[str]
) -> set[str]:
    """Topics of either side that a cleaner compacts; one whose configs are not told counts as not compacted."""
    settings = flow.clusters.settings
    sides = (
        (settings.source, {place.topic for place in facts}),
        (settings.target, {one.target.topic for one in facts.values()} & flow.target_topics.keys()),
    )
    compacted: set[str] = set()
    for cluster, topics in sides:
        try:
            configs = TopicAdmin(cluster).configs(topics)
        except MmtoolError as error:
            warnings.append(
                f"topic configs of {cluster.alias} cannot be read, so records that compaction removed may count as"
                f" missing: {with_remedy(error)}"
            )
            continue
        compacted |= {topic for topic, entries in configs.items() if "compact" in cleanup_policies(entries)}
    return compacted
