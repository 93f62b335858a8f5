"""How far each partition was verified: stored in the flow's control topic, or in a file without write access.

A  a point moves only past ranges that were compared and found equal: the next run finds a difference again
B  a point counts only for the two topics that it was made for, by their ids
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from mmtool.errors import MmtoolError, with_remedy
from mmtool.insight.verify.ranges import Joint
from mmtool.plan.records.marks import VerifiedRecord
from mmtool.plan.records.shapes import made_of
from mmtool.runtime.files import state_root, write_whole
from mmtool.runtime.process import operator
from mmtool.translation.connect_offsets import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from mmtool.insight.flow_now import FlowNow
    from mmtool.insight.verify.job import Compared
    from mmtool.kafka.state.control_view import ControlView
    from mmtool.translation.types import TopicPartition

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
    """The points of one flow.

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

    def point(self, place: TopicPartition) -> Joint | None:
        """How far a partition was verified last (B); None where it never was."""
        topic = self._flow.topics.get(place.topic)
        record = None if topic is None else self._records.get((topic.topic_id, place.partition))
        there = self._flow.target_topics.get(self._flow.remote(place.topic))
        if record is None or there is None or record.target_topic_id != there.topic_id:
            return None
        return Joint(record.upstream, record.downstream)

    def save(self, points: Mapping[TopicPartition, Joint]) -> None:
        """Keep these; a control topic that may not be written is no failure."""
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
            )
            for place, point in sorted(points.items())
            if self.point(place) != point
        ]
        self._records |= {(record.topic_id, record.partition): record for record in records}
        if records and not (self._in_topic and self._to_topic(records)):
            self._to_file()

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

    def _to_file(self) -> None:
        file = self._file
        try:
            write_whole(file, json.dumps([asdict(record) for record in self._records.values()]).encode())
        except OSError as error:
            self.warnings.append(
                f"{file} cannot be written: {error.strerror}; the next --since last compares these records again"
            )

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
