"""Samples of a cluster's and a flow's state, and their lines in Prometheus' text format or OpenMetrics.

A  an unknown value has no sample
B  no two samples of a family have the same labels
C  a coarser level has one sample where a finer one has several: their sum, or for times the largest
D  a topic that was deleted on the source without missing records has no series; its counts stay in the flow's
   counters, which would seem to restart otherwise
"""

from __future__ import annotations

from collections import Counter, defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mmtool.metrics import families
from mmtool.metrics.families import FAMILIES, MetricType
from mmtool.plain_text import printable
from mmtool.plan.records.documents import State
from mmtool.runtime.latency import Latency, cumulative, summed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from mmtool.failover.operation.records import Recorded
    from mmtool.insight.status import FlowStatus
    from mmtool.metrics.families import Family, Level
    from mmtool.plan.flow.positions import PartitionRow
    from mmtool.plan.groups.status import GroupSummary

    Aggregate = Callable[[Iterable[float]], float]

Lines: TypeAlias = "Mapping[str, Sequence[str]]"
"""Lines of the exposition format, by family name."""

_MIRRORED = (State.RUNNING, State.CAUGHT_UP)


class Sample(NamedTuple):
    """One value.

    Attributes:
        labels: By name, in the order of the family.
        value: Of a histogram the sum.
        counts: Of a histogram, bucket by bucket as `mmtool.runtime.latency.Latency`.
    """

    family: Family
    labels: Mapping[str, str]
    value: float
    counts: tuple[int, ...] = ()


_AGGREGATES: Mapping[Family, Aggregate] = MappingProxyType(
    {
        families.RECORDS: sum,
        families.BYTES: sum,
        families.LAG_RECORDS: sum,
        families.LAG_SECONDS: max,
        families.DATA_LOSS: sum,
        families.UNREADABLE: sum,
    }
)


def samples_of_flow(found: FlowStatus, level: Level) -> list[Sample]:
    """All samples of a flow's status.

    Args:
        found: The flow's status.
        level: How far samples are split by topic and partition.
    """
    flow = {"source": found.facts.source, "target": found.facts.target}
    samples = _of_places(flow, found, level)
    samples += _of_latency(flow, found, level)
    if found.facts.holder is not None:
        process = found.facts.holder.process
        owner = found.facts.holder.client_id if process is None else "/".join(process)
        samples.append(Sample(families.OWNER_INFO, {**flow, "owner": owner}, 1))
    if found.facts.announced and (slots := found.facts.slots) is not None:
        samples.append(Sample(families.SPARK_SLOTS, {**flow, "kind": "wanted"}, slots.wanted))
        samples.append(Sample(families.SPARK_SLOTS, {**flow, "kind": "held"}, slots.held))
    # when each partition was last mirrored, or at the source's end
    told = (p.observed_ms if p.state in _MIRRORED else p.at_end_ms for p in found.facts.positions.values())
    if last_ms := max(told, default=0):
        samples.append(Sample(families.LAST_SUCCESS, flow, last_ms / 1000))
    return samples


def _of_places(flow: Mapping[str, str], found: FlowStatus, level: Level) -> list[Sample]:
    """Samples of the families that are split by topic and partition, as far as the level goes."""
    names, split = level.place_labels, defaultdict(list)
    for row in found.rows:
        if not (names and _is_gone(row, found)):
            where = (row.topic or "", "" if row.partition is None else str(row.partition))
            split[where[: len(names)]].append(row)
    # of a recreated topic: all topics of that name
    lost: Counter[tuple[str, int | None]] = Counter()
    unreadable: Counter[tuple[str, int | None]] = Counter()
    for position in found.facts.positions.values():
        lost[position.topic, position.partition] += position.gaps
        unreadable[position.topic, position.partition] += position.unreadable
    samples = []
    for values, rows in split.items():
        labels = {**flow, **dict(zip(names, values, strict=True))}
        figures = [_figures(row, found, lost, unreadable) for row in rows]
        undated = any(row.lag_records and row.lag_seconds is None for row in rows)
        for family, aggregate in _AGGREGATES.items():
            known = [value for of in figures if (value := of.get(family)) is not None]
            if known and not (undated and family is families.LAG_SECONDS):  # the longest one is unknown then
                samples.append(Sample(family, labels, aggregate(known)))
        states = Counter(str(row.state) for row in rows if not (_is_mm2s(row, found) or _is_gone(row, found)))
        samples += [
            Sample(families.PARTITION_STATE, {**labels, "state": state}, number)
            for state, number in sorted(states.items())
        ]
    return samples


def _figures(
    row: PartitionRow,
    found: FlowStatus,
    lost: Mapping[tuple[str, int | None], int],
    unreadable: Mapping[tuple[str, int | None], int],
) -> dict[Family, float | None]:
    """The figures of a status row: none of a whole topic or flow, only the lag of what MM2 mirrors."""
    if row.topic is None or row.partition is None:
        return {}
    lag = {families.LAG_RECORDS: row.lag_records, families.LAG_SECONDS: row.lag_seconds}
    if _is_mm2s(row, found):
        return lag
    place = row.topic, row.partition
    counted = {families.DATA_LOSS: lost.get(place), families.UNREADABLE: unreadable.get(place)}
    return {families.RECORDS: row.records, families.BYTES: row.bytes, **lag, **counted}


def _is_mm2s(row: PartitionRow, found: FlowStatus) -> bool:
    topic = found.facts.topics.get(row.topic or "")
    return (
        topic is not None
        and row.partition is not None
        and row.state != State.NEVER_RAN
        and found.facts.is_by_mirror_maker(topic, row.partition)
    )


def _is_gone(row: PartitionRow, found: FlowStatus) -> bool:
    """Whether its topic was deleted on the source, and no record of it is missing."""
    return row.state in (State.WAITING, State.IDLE) and row.topic in found.facts.deleted


def _of_latency(flow: Mapping[str, str], found: FlowStatus, level: Level) -> list[Sample]:
    """Latency samples of a flow, by topic at most: a histogram has fifteen series."""
    names, split = level.place_labels[:1], defaultdict(list)
    gone = {row.topic for row in found.rows if _is_gone(row, found)}
    for position in found.facts.positions.values():
        counted = position.latency and found.facts.is_of_owner(position)
        if counted and not (names and position.topic in gone):
            split[(position.topic,)[: len(names)]].append(Latency(position.latency, position.latency_ms))
    samples = []
    for values, some in split.items():
        labels, latency = {**flow, **dict(zip(names, values, strict=True))}, summed(some)
        samples.append(Sample(families.LATENCY, labels, latency.total_ms / 1000, latency.counts))
    return samples


def samples_of_groups(flow: Mapping[str, str], groups: Iterable[GroupSummary]) -> list[Sample]:
    """Samples of each group of a flow: the cost of a failover now, and whether the group is ready for it."""
    samples = []
    for group in groups:
        labels = {**flow, "group": group.group}
        known = {
            families.CHECKPOINT_AGE: group.checkpoint_age_seconds,
            families.GROUP_LAG: group.lag_records,
            families.GROUP_REREAD: group.reread_max,
            families.FAILOVER_READY: None if group.moved else int(group.ready),
        }
        samples += [Sample(family, labels, value) for family, value in known.items() if value is not None]
    return samples


def samples_of_operations(flow: Mapping[str, str], operations: Sequence[Recorded]) -> list[Sample]:
    """Samples of the state of each open operation on a flow, and of the last operation.

    Args:
        flow: The labels of the flow.
        operations: Operations of any flow, in the order in which they began.
    """
    ours = [one for one in operations if (one.names.source, one.names.target) == tuple(flow.values())]
    return [
        Sample(
            families.FAILOVER_STATE,
            {**flow, "operation": one.operation_id, "mode": str(one.mode), "state": str(one.state)},
            1,
        )
        for one in ours
        if one.is_open or one is ours[-1]
    ]


# --- samples as Prometheus' text format, or as OpenMetrics for a scraper that accepts it ----------------
# A sample is the same line in both formats. Lines are made once, by the poll that found the samples: a scrape only
# joins them, as a large cluster has a hundred thousand.

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


_OPEN_METRICS = "application/openmetrics-text"


def format_of(accept: str) -> str:
    """The content type of the format that an ``Accept`` header asks for: plain text where there is none."""
    from prometheus_client.exposition import choose_encoder

    _, content_type = choose_encoder(accept)
    return content_type


def lines_of(samples: Iterable[Sample]) -> dict[str, list[str]]:
    """The samples as lines of the exposition format, by family name."""
    found: dict[str, list[str]] = defaultdict(list)
    for sample in samples:
        lines = found[sample.family.name]
        if sample.family.kind is MetricType.HISTOGRAM:
            lines += _histogram(sample)
        else:
            lines.append(f"{sample.family.name}{_labels(sample.labels)} {sample.value!r}")
    return found


def render(some: Iterable[Lines], content_type: str) -> bytes:
    """The whole exposition: the lines in the order of the table, each family with its help and type."""
    together, is_open_metrics = list(some), content_type.startswith(_OPEN_METRICS)
    texts = []
    for family in FAMILIES:
        lines = [line for of in together for line in of.get(family.name, ())]
        if lines:
            name = family.base_name if is_open_metrics else family.name
            texts += [f"# HELP {name} {family.meaning}", f"# TYPE {name} {family.kind}", *lines]
    if is_open_metrics:
        texts.append("# EOF")
    return "".join(f"{text}\n" for text in texts).encode()


def _histogram(sample: Sample) -> Iterator[str]:
    name, labels = sample.family.name, sample.labels
    for bound, records in cumulative(sample.counts):
        yield f"{name}_bucket{_labels({**labels, 'le': bound})} {records}"
    yield f"{name}_count{_labels(labels)} {sum(sample.counts)}"
    yield f"{name}_sum{_labels(labels)} {sample.value!r}"


def _labels(labels: Mapping[str, str]) -> str:
    """Labels in the format's own escapes; other control characters are printable, for a reader with curl."""
    escaped = {
        name: "\n".join(map(printable, value.split("\n"))).translate(_ESCAPES)
        for name, value in labels.items()
    }
    text = ",".join([f'{name}="{value}"' for name, value in escaped.items()])
    return f"{{{text}}}"
