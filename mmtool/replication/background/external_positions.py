"""Note how far mirrors have come that another system keeps, as workers do for mmtool's own: in the control topic."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.kafka.wire.metadata import LATEST
from mmtool.kafka.wire.scan import list_offsets, log_bounds
from mmtool.plan.records.documents import PositionRecord, State
from mmtool.replication.ownership.internal_topics import write_documents
from mmtool.translation.types import TopicPartition

if TYPE_CHECKING:
    from mmtool.replication.driver.flow_run import FlowRun

SECONDS = 2.0
"""How often both clusters are asked for the ends of their logs."""
_KNOWN_MS = 3_000


@dataclass(slots=True)
class ExternalPositions:
    """Writes a position for each partition of the flow: the ends of both logs.

    Failed-over topics are left out, as workers leave them out.
    """

    run: FlowRun

    async def perform(self) -> None:
        """Read the ends of all logs once, and write the positions.

        Raises:
            UnreachableError, NotAuthorisedError: A cluster does not answer, or denies a topic.
        """
        run, flow = self.run, self.run.flow
        places = {
            (topic, n): (TopicPartition(topic.name, n), TopicPartition(topic.target_name, n))
            for topic, n in run.view.places
            if run.watch.holds.of(topic.topic_id, topic.name) is None
        }
        ups, downs = [up for up, _ in places.values()], [down for _, down in places.values()]
        ends, logs = await asyncio.gather(
            list_offsets(flow.target, dict.fromkeys(downs, LATEST), read_committed=False),
            log_bounds(flow.source, ups, read_committed=flow.settings.reads_committed),
        )
        now_ms, records = int(time.time() * 1000), list[PositionRecord]()
        for (topic, number), (up, down) in places.items():
            if up not in logs or down not in ends:
                continue
            start, end = logs[up]
            before = run.watch.positions.get((topic.topic_id, number))
            behind = ends[down] < end
            if before is not None and _is_known(before, ends[down], end, now_ms):
                continue
            since_ms = (before.behind_since_ms if before else 0) or now_ms
            at_end_ms = before.at_end_ms if before else 0
            records.append(
                PositionRecord(
                    owner=run.owner,
                    topic=topic.name,
                    topic_id=topic.topic_id,
                    partition=number,
                    target_topic=topic.target_name,
                    upstream_position=ends[down],
                    downstream_position=ends[down],
                    source_end=end,
                    source_log_start=start,
                    records=0,
                    mirrored_bytes=0,
                    state=State.RUNNING if behind else State.CAUGHT_UP,
                    reason="",
                    observed_ms=now_ms,
                    behind_since_ms=since_ms if behind else 0,
                    at_end_ms=at_end_ms if behind else now_ms,
                    source_seen_ms=now_ms,
                )
            )
        await write_documents(flow, flow.identity.control_topic, records)


def _is_known(last: PositionRecord, mirrored_to: int, source_end: int, now_ms: int) -> bool:
    """Whether a position says the same and is so young that readers take it for the present one."""
    is_young = now_ms - last.observed_ms < _KNOWN_MS
    return is_young and (last.upstream_position, last.source_end) == (mirrored_to, source_end)
