"""Read the facts of a comparison from both clusters before any log is read, and how far each partition was verified.

The order of the requests matters, because logs move meanwhile:

1. the offsets up to which the mirror should be complete, first: what is mirrored meanwhile is more than that
2. the source's logs, the offset runs or MM2's syncs, the target's logs, in the order of `partition_facts`
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from mmtool.config import FlowSettings
from mmtool.errors import MmtoolError, with_remedy
from mmtool.insight.applications import steps_to_mirror_again, unread
from mmtool.insight.flow_now import FlowClusters, FlowNow
from mmtool.insight.partitions import partition_facts
from mmtool.insight.translation import look
from mmtool.insight.verify.job import Compared, ComparedFlow
from mmtool.insight.verify.ranges import ComparedPartition, Joint, began_at
from mmtool.kafka.admin.topics import TopicAdmin
from mmtool.kafka.mirror_maker import latest_positions
from mmtool.kafka.state.control_view import ControlView
from mmtool.kafka.state.state_log import read_producers
from mmtool.plan.groups.offsets import Direction, PartitionFacts
from mmtool.plan.records.documents import State
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.records.marks import VerifiedRecord
from mmtool.plan.records.shapes import made_of
from mmtool.plan.topics.configs import cleanup_policies
from mmtool.replication.flow_state.flow_moves import ask_starts
from mmtool.runtime.files import state_root, write_whole
from mmtool.runtime.process import operator
from mmtool.runtime.threads import run_loop
from mmtool.transforms.shipment import Shipment
from mmtool.translation.connect_offsets import parse_json
from mmtool.translation.types import UNKNOWN, TopicPartition

_Key = tuple[str, int]


def passed(start: Joint | None, compared: Iterable[Compared]) -> Joint | None:
    """The point behind ranges that follow each other and are the same on both sides (A); None without any.

    Args:
        start: The point before; None where there is none.
        compared: Of one partition, in any order.
    """
    point = start
    for result in sorted(compared, key=lambda result: result.part.start):
        if result.problem or result.findings.counts or (point is not None and result.part.start > point):
            break
        point = result.part.stop
    return point


class VerifiedPoints:
    """How far each partition of one flow was verified: in its control topic, or in a file without write access.

    A  a point moves only past ranges that were compared and found equal: the next run finds a difference again
    B  a point counts only for the two topics that it was made for, by their ids

    Args:
        flow: Whose clusters have answered.
        control: Its control topic; of two points, one there and one in a file, the later one counts.

    Attributes:
        warnings: Why they are stored in a file instead, each sentence once.
    """

    def __init__(self, flow: FlowNow, control: ControlView) -> None:
        self._flow = flow
        self._records: dict[_Key, VerifiedRecord] = {}
        self._in_topic = control.flow is not None
        self.warnings: list[str] = []
        for record in [*control.verified.values(), *self._from_file()]:
            before = self._records.get((record.topic_id, record.partition))
            if before is None or before.at_ms < record.at_ms:
                self._records[record.topic_id, record.partition] = record

    def _record(self, place: TopicPartition) -> VerifiedRecord | None:
        topic = self._flow.topics.get(place.topic)
        record = None if topic is None else self._records.get((topic.topic_id, place.partition))
        there = self._flow.target_topics.get(self._flow.remote(place.topic))
        return None if record is None or there is None or record.target_topic_id != there.topic_id else record

    def point(self, place: TopicPartition) -> Joint | None:
        """How far a partition was verified last (B); None where it never was."""
        record = self._record(place)
        return None if record is None else Joint(record.upstream, record.downstream)

    def _start(self, place: TopicPartition, start: int) -> int:
        """Where all that is verified begins: an earlier comparison may reach up to the one that begins at ``start``."""
        record = self._record(place)
        before = None if record is None or record.upstream < start else record.start
        return start if before is None else min(before, start)

    def save(self, points: Mapping[TopicPartition, Joint], starts: Mapping[TopicPartition, int]) -> None:
        """Keep these, compared from their ``starts`` on; a control topic that may not be written is no failure."""
        now_ms, by = int(time.time() * 1000), operator()
        records = [
            VerifiedRecord(
                place.topic,
                self._flow.topics[place.topic].topic_id,
                self._flow.target_topics[self._flow.remote(place.topic)].topic_id,
                place.partition,
                *point,
                by,
                now_ms,
                start,
            )
            for place, point in sorted(points.items())
            for start in [self._start(place, starts[place])]
            if (known := self._record(place)) is None or (self.point(place), known.start) != (point, start)
        ]
        self._records |= {(record.topic_id, record.partition): record for record in records}
        if records and not (self._in_topic and self._to_topic(records)):
            file = self._file
            try:
                write_whole(file, json.dumps([asdict(record) for record in self._records.values()]).encode())
            except OSError as error:
                self.warnings.append(
                    f"{file} cannot be written: {error.strerror}; the next --since last compares these records again"
                )

    def _to_topic(self, records: list[VerifiedRecord]) -> bool:
        from mmtool.replication.driver.context import connect
        from mmtool.replication.ownership.internal_topics import write_documents
        from mmtool.runtime.threads import run_loop

        async def write() -> None:
            async with await connect(self._flow.clusters.settings) as context:
                await write_documents(context, self._flow.identity.control_topic, records)

        try:
            run_loop(write())
        except MmtoolError as error:
            self._in_topic = False
            self.warnings.append(
                f"mmtool stores the verified offsets, for --since last, in {self._file} on this host only, because the"
                f" flow's control topic cannot be written: {with_remedy(error)}"
            )
        return self._in_topic

    @property
    def _file(self) -> Path:
        identity = self._flow.identity
        return state_root() / "verified" / f"{identity.source_id}-{identity.target_id}.json"

    def _from_file(self) -> list[VerifiedRecord]:
        try:
            return points_in(self._file.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            self.warnings.append(
                f"{self._file} cannot be read ({error}): --since last uses only what the flow's control topic holds"
            )
            return []


def points_in(content: bytes) -> list[VerifiedRecord]:
    """The points that a file on this host holds.

    Raises:
        ValueError: The content is not what mmtool writes.
    """
    try:
        return [made_of(VerifiedRecord, record) for record in parse_json(content)]
    except (TypeError, AttributeError) as error:
        raise ValueError(str(error)) from error


Since = Literal["last"] | datetime


class Uncompared(NamedTuple):
    """Why a partition was not compared, what to do about it, and the version of the transform that compares it."""

    why: str
    remedy: str = ""
    version: str = ""


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
    theirs = Shipment(flow.clusters.settings.as_mm2_copies)
    by_mm2 = {topic: "" if (spec := theirs.of(topic)) is None else spec.version for topic in flow.topics}
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
            by_mm2=by_mm2[place.topic],
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
        do = "run `mmtool replicate`" if flow.is_external else "mirror it with `mmtool replicate`"
        return Uncompared(NEVER_RAN, f"{do}; {why}")
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
    shipment = Shipment(settings)
    transforms = {topic: spec for topic in flow.topics if (spec := shipment.of(topic)) is not None}
    return ComparedFlow(settings, frozenset(ours), shared, frozenset(left_out), transforms)


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
