"""Try a flow's transforms on the newest records of a topic; nothing is written."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict

from mmtool.config import FlowSettings
from mmtool.errors import UsageError
from mmtool.kafka.batches import BatchView, Record, decode
from mmtool.kafka.clients import blocking_wire
from mmtool.kafka.wire.cluster import WireCluster
from mmtool.kafka.wire.scan import AtMost, log_bounds, read_range
from mmtool.plan.flow.transforms import TransformSpec
from mmtool.plan.words import counted
from mmtool.runtime.threads import run_loop
from mmtool.transforms.process import Transformed, TransformProcess
from mmtool.transforms.shipment import Shipment
from mmtool.translation.types import TopicPartition


class TrialRow(TypedDict):
    """One record.

    Attributes:
        topic, partition, offset: Its place on the source.
        action: kept (unchanged), changed or dropped.
        before: The record on the source: its parts, or only their sizes in bytes.
        after: What would be mirrored of it; null where it is dropped.
    """

    topic: str
    partition: int
    offset: int
    action: str
    before: str
    after: str | None


@dataclass(frozen=True, slots=True)
class Trial:
    """The records that were tried.

    Attributes:
        rows: One for each.
        failed: Why the trial ended before all of them; None where it did not.
        warnings: What an operator may have overlooked.
    """

    rows: list[TrialRow]
    failed: UsageError | None
    warnings: list[str]

    @property
    def summary(self) -> str:
        """How many records were kept, changed and dropped, as a sentence."""
        actions = Counter(row["action"] for row in self.rows)
        parts = ", ".join(f"{actions[name]} {name}" for name in ("kept", "changed", "dropped"))
        return f"{counted(len(self.rows), 'record')}: {parts}"


def try_transform(
    flow: FlowSettings, topic: str, records: int, timeout: timedelta, *, show_values: bool
) -> Trial:
    """Try what a flow does to the newest records of a source topic.

    Raises:
        UsageError: The source has no such topic, or no transform of the flow applies to it.
        UnreachableError, NotAuthorisedError: The source does not answer, or denies the topic.
    """
    spec = Shipment(flow).of(topic)
    seconds = timeout.total_seconds()
    wire = blocking_wire(flow.source, "try", "consumer", seconds)

    async def read(cluster: WireCluster) -> dict[TopicPartition, list[BatchView]]:
        most = 0 if spec is None else records  # of a topic that is not there, this is said first
        return await _newest(cluster, topic, most, read_committed=flow.reads_committed)

    found = wire.ask(read, f"reading topic {topic}")
    if spec is None:
        raise UsageError(
            f"{flow.name} copies the records of topic {topic} as they are: no transform applies to it",
            remedy="check mmtool.transform and mmtool.transform.topics, or transforms and their predicates",
        )
    newest = sorted(
        (
            (record.timestamp, place, record.offset)
            for place, views in found.items()
            for record in _all(views)
        ),
        reverse=True,
    )[:records]
    wanted = {(place, offset) for _, place, offset in newest}
    results = run_loop(_applied(spec, found))
    rows = [row for place, views in found.items() for row in _rows(place, views, results[place], show_values)]
    failed = next((one.failed for one in results.values() if one.failed is not None), None)
    rows = [row for row in rows if (TopicPartition(row["topic"], row["partition"]), row["offset"]) in wanted]
    warnings = (
        [f"{flow.name} does not mirror topic {topic}: {why}"] if (why := flow.unmirrored(topic)) else []
    )
    if failed is None and rows and all(row["action"] == "kept" for row in rows):
        warnings.append(
            f"{spec.name} changed none of these records: check its settings, as the paths of mask_json, or take more"
            " records with --records"
        )
    error = UsageError(failed.cause, remedy="correct the function or its settings") if failed else None
    return Trial(rows, error, warnings)


async def _newest(
    cluster: WireCluster, topic: str, records: int, *, read_committed: bool
) -> dict[TopicPartition, list[BatchView]]:
    """The last batches of each partition, with at least so many offsets."""
    facts = (await cluster.refresh([topic])).get(topic)
    topic_id = cluster.topic_id(topic)
    if facts is None or topic_id is None:
        raise UsageError(f"{cluster.alias} has no topic {topic}", remedy="check the name after --topic")
    places = [TopicPartition(topic, number) for number in range(len(facts.partitions))]
    bounds = await log_bounds(cluster, places, read_committed=read_committed)
    found: dict[TopicPartition, list[BatchView]] = {}
    for place, (start, end) in bounds.items():
        begin = max(start, end - records)
        views = read_range(
            cluster, topic, topic_id, place.partition, begin, AtMost(end), read_committed=read_committed
        )
        found[place] = [view async for view in views if not view.header.is_control]
    return found


async def _applied(
    spec: TransformSpec, found: Mapping[TopicPartition, Sequence[BatchView]]
) -> dict[TopicPartition, Transformed]:
    process = TransformProcess()
    try:
        return {place: await process.apply(spec, place, views) for place, views in found.items()}
    finally:
        await asyncio.shield(process.close())


def _all(views: Sequence[BatchView]) -> list[Record]:
    return [record for view in views for record in decode(view)]


def _rows(
    place: TopicPartition, views: Sequence[BatchView], made: Transformed, show_values: bool
) -> list[TrialRow]:
    after = {record.offset: record for record in _all(made.views)}
    stop = made.views[-1].header.next_offset if made.views else 0
    rows: list[TrialRow] = []
    for record in _all(views):
        if made.failed is not None and record.offset >= stop:
            break
        now = after.get(record.offset)
        action = "dropped" if now is None else "kept" if now == record else "changed"
        shown = None if now is None else _shown(now, show_values)
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "offset": record.offset,
                "action": action,
                "before": _shown(record, show_values),
                "after": shown,
            }
        )
    return rows


def _shown(record: Record, show_values: bool) -> str:
    """A record's parts as text, or only their sizes."""
    parts = {"key": record.key, "value": record.value}
    parts |= {f"header {name.decode(errors='replace')}": content for name, content in record.headers}
    return " ".join(
        f"{name}={_text(content) if show_values else _size(content)}" for name, content in parts.items()
    )


def _size(content: bytes | None) -> str:
    return "null" if content is None else f"{len(content)}B"


def _text(content: bytes | None) -> str:
    return "null" if content is None else content.decode(errors="backslashreplace")
