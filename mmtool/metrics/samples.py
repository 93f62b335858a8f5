"""Samples of a cluster's and a flow's state, and their lines in Prometheus' text format or OpenMetrics.

A  an unknown value has no sample
B  no two samples of a family have the same labels
C  a coarser level has one sample where a finer one has several: their sum, or for times the largest
D  a topic that was deleted on the source without missing records has no series; its counts stay in the flow's
   counters, which would seem to restart otherwise
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from mmtool.metrics import families
from mmtool.metrics.families import FAMILIES, Kind
from mmtool.plain_text import printable
from mmtool.plan.records.documents import State
from mmtool.runtime.latency import Latency, cumulative, summed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from mmtool.failover.operation.records import Recorded
    from mmtool.insight.status import FlowStatus
    from mmtool.metrics.families import Family, Level
    from mmtool.plan.flow.partition_rows import PartitionRow
    from mmtool.plan.flow.status import FlowFacts
    from mmtool.plan.groups.status import GroupSummary
    from mmtool.plan.records.documents import PositionRecord

    Aggregate = Callable[[Iterable[float]], float]
    Lines = Mapping[str, Sequence[str]]
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


class PlaceFigures(NamedTuple):
    """The figures of one partition; None where unknown.

    Attributes:
        topic, partition: On the source; empty for a row about a whole topic, or the whole flow.
        lost: Offsets that the source deleted before they were mirrored.
        is_gone: Its topic was deleted on the source, and no record of it is missing.
    """

    topic: str
    partition: str
    records: int | None = None
    bytes: int | None = None
    lag_records: int | None = None
    lag_seconds: float | None = None
    lost: int | None = None
    state: str | None = None
    is_gone: bool = False


_AGGREGATES: tuple[tuple[Family, str, Aggregate], ...] = (
    (families.RECORDS, "records", sum),
    (families.BYTES, "bytes", sum),
    (families.LAG_RECORDS, "lag_records", sum),
    (families.LAG_SECONDS, "lag_seconds", max),
    (families.DATA_LOSS, "lost", sum),
)


def samples_of_flow(found: FlowStatus, level: Level) -> list[Sample]:
    """All samples of a flow's status.

    Args:
        found: The flow's status.
        level: How far samples are split by topic and partition.
    """
    flow = {"source": found.facts.source, "target": found.facts.target}
    samples = samples_of_places(flow, _figures(found), level)
    samples += _of_latency(flow, found, level)
    samples += _of_owner(flow, found.facts)
    last = last_success_ms(found.facts.positions.values())
    if last is not None:
        samples.append(Sample(families.LAST_SUCCESS, flow, last / 1000))
    return samples


def samples_of_places(flow: Mapping[str, str], places: Sequence[PlaceFigures], level: Level) -> list[Sample]:
    """Samples of the families that are split by topic and partition, as far as the level goes.

    Args:
        flow: The labels of the flow.
        places: The figures of each partition.
        level: How far samples are split by topic and partition.
    """
    names, split = level.place_labels, defaultdict(list)
    for place in places:
        if place.is_gone and names:
            continue
        split[(place.topic, place.partition)[: len(names)]].append(place)
    samples = []
    for values, some in split.items():
        labels = {**flow, **dict(zip(names, values, strict=True))}
        samples += _of_some(labels, some)
    return samples


def _of_some(labels: Mapping[str, str], places: Sequence[PlaceFigures]) -> list[Sample]:
    samples = []
    undated = any(place.lag_records and place.lag_seconds is None for place in places)
    for family, name, aggregate in _AGGREGATES:
        known = [value for place in places if (value := getattr(place, name)) is not None]
        if known and not (undated and family is families.LAG_SECONDS):  # the longest one is unknown then
            samples.append(Sample(family, labels, aggregate(known)))
    states = Counter(place.state for place in places if place.state is not None and not place.is_gone)
    samples += [
        Sample(families.PARTITION_STATE, {**labels, "state": state}, number)
        for state, number in sorted(states.items())
    ]
    return samples


def _figures(found: FlowStatus) -> list[PlaceFigures]:
    lost = _lost(found.facts.positions.values())
    return [
        _figures_of(row, found, lost.get((row.topic or "", row.partition)))._replace(
            is_gone=_is_gone(row, found)
        )
        for row in found.rows
    ]


def _is_gone(row: PartitionRow, found: FlowStatus) -> bool:
    return row.state in (State.WAITING, State.IDLE) and row.topic in found.facts.deleted


def _figures_of(row: PartitionRow, found: FlowStatus, lost: int | None) -> PlaceFigures:
    """The figures of a status row: only the state of a whole topic or flow, only the lag of what MM2 mirrors."""
    if row.topic is None or row.partition is None:
        return PlaceFigures(row.topic or "", "", state=str(row.state))
    topic = found.facts.topics.get(row.topic)
    is_mm2s = topic is not None and found.facts.is_by_mirror_maker(topic, row.partition)
    if is_mm2s and row.state != State.NEVER_RAN:
        lag = (row.lag_records, row.lag_seconds)
        return PlaceFigures(row.topic, str(row.partition), None, None, *lag)
    return PlaceFigures(
        row.topic,
        str(row.partition),
        row.records,
        row.bytes,
        row.lag_records,
        row.lag_seconds,
        lost,
        str(row.state),
    )


def _lost(positions: Iterable[PositionRecord]) -> dict[tuple[str, int | None], int]:
    """Lost records by topic and partition; where a topic was recreated, summed over all topics of that name."""
    found: Counter[tuple[str, int | None]] = Counter()
    for position in positions:
        found[position.topic, position.partition] += position.gaps
    return dict(found)


def last_success_ms(positions: Iterable[PositionRecord]) -> int | None:
    """When a partition was last mirrored, or at the source's end, in ms since 1970; None where none ever was."""
    told = [p.observed_ms if p.state in _MIRRORED else p.at_end_ms for p in positions]
    return max(told, default=0) or None


def _of_latency(flow: Mapping[str, str], found: FlowStatus, level: Level) -> list[Sample]:
    """Latency samples of a flow, by topic at most: a histogram has fifteen series."""
    names, split = level.topic_labels, defaultdict(list)
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


def _of_owner(flow: Mapping[str, str], facts: FlowFacts) -> list[Sample]:
    samples = []
    if facts.holder is not None:
        samples.append(Sample(families.OWNER_INFO, {**flow, "owner": owner_name(facts)}, 1))
    if facts.announced and facts.slots is not None:
        kinds = {"wanted": facts.slots.wanted, "held": facts.slots.held}
        samples += [
            Sample(families.SPARK_SLOTS, {**flow, "kind": kind}, value) for kind, value in kinds.items()
        ]
    return samples


def owner_name(facts: FlowFacts) -> str:
    """``host/pid`` of the flow's holder; its client id where that has neither."""
    assert facts.holder is not None
    process = facts.holder.process
    return facts.holder.client_id if process is None else "/".join(process)


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


def sample_of_certificate(alias: str, expires: datetime) -> Sample:
    return Sample(families.CERTIFICATE_EXPIRY, {"cluster": alias}, expires.timestamp())


def sample_of_cluster(alias: str, *, is_up: bool) -> Sample:
    return Sample(families.CLUSTER_UP, {"cluster": alias}, int(is_up))


def sample_of_build(version: str) -> Sample:
    return Sample(families.BUILD_INFO, {"version": version}, 1)


# --- samples as Prometheus' text format, or as OpenMetrics for a scraper that accepts it ----------------
# A sample is the same line in both formats. Lines are made once, by the poll that found the samples: a scrape only
# joins them, as a large cluster has a hundred thousand.

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Format(NamedTuple):
    """A format of ``/metrics``."""

    content_type: str
    is_open_metrics: bool


def format_of(accept: str) -> Format:
    """The format that an ``Accept`` header asks for; plain text where there is none."""
    from prometheus_client.exposition import choose_encoder

    _, content_type = choose_encoder(accept)
    return Format(content_type, content_type.startswith("application/openmetrics-text"))


def lines_of(samples: Iterable[Sample]) -> dict[str, list[str]]:
    """The samples as lines of the exposition format, by family name."""
    found: dict[str, list[str]] = defaultdict(list)
    for sample in samples:
        lines = found[sample.family.name]
        if sample.family.kind is Kind.HISTOGRAM:
            lines += _histogram(sample)
        else:
            lines.append(f"{sample.family.name}{_labels(sample.labels)} {sample.value!r}")
    return found


def render(some: Iterable[Lines], wanted: Format) -> bytes:
    """The whole exposition: the lines in the order of the table, each family with its help and type."""
    together = list(some)
    texts = []
    for family in FAMILIES:
        lines = [line for of in together for line in of.get(family.name, ())]
        if lines:
            name = family.base_name if wanted.is_open_metrics else family.name
            texts += [f"# HELP {name} {family.meaning}", f"# TYPE {name} {family.kind}", *lines]
    if wanted.is_open_metrics:
        texts.append("# EOF")
    return "".join(f"{text}\n" for text in texts).encode()


def _histogram(sample: Sample) -> Iterator[str]:
    name, labels = sample.family.name, sample.labels
    for bound, records in cumulative(sample.counts):
        yield f"{name}_bucket{_labels({**labels, 'le': bound})} {records}"
    yield f"{name}_count{_labels(labels)} {sum(sample.counts)}"
    yield f"{name}_sum{_labels(labels)} {sample.value!r}"


def _labels(labels: Mapping[str, str]) -> str:
    text = ",".join([f'{name}="{_escaped(value)}"' for name, value in labels.items()])
    return f"{{{text}}}"


def _escaped(value: str) -> str:
    """A label's value in the format's own escapes; other control characters are printable, for a reader with curl."""
    return "\n".join(map(printable, value.split("\n"))).translate(_ESCAPES)
