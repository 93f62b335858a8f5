"""Samples as Prometheus reads them: the text format, or OpenMetrics for a scraper that asks for it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from mmtool.metrics.families import FAMILIES, Kind
from mmtool.plan.latency import cumulative

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric

    from mmtool.metrics.samples import Sample


class Format(NamedTuple):
    """A format of ``/metrics``."""

    content_type: str
    encode: Callable[[_Rendered], bytes]


def format_of(accept: str) -> Format:
    """The format that an ``Accept`` header asks for; the plain text format without one."""
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return Format(content_type, encode)


def render(samples: Iterable[Sample], wanted: Format) -> bytes:
    """The samples, in any order, in one format."""
    return wanted.encode(_Rendered(metrics_of(samples)))


class _Rendered:
    """What prometheus_client takes for a registry."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def metrics_of(samples: Iterable[Sample]) -> Iterator[Metric]:
    """One metric for each family that has a sample, in the order of the table."""
    from prometheus_client.core import Metric

    by_family = defaultdict(list)
    for sample in samples:
        by_family[sample.family.name].append(sample)
    for family in FAMILIES:
        if of_family := by_family.get(family.name):
            metric = Metric(family.base_name, family.meaning, family.kind.value)
            for sample in of_family:
                _add(metric, sample)
            yield metric


def _add(metric: Metric, sample: Sample) -> None:
    if sample.family.kind is Kind.HISTOGRAM:
        _add_histogram(metric, sample)
        return
    name = sample.family.name if sample.family.kind is Kind.COUNTER else metric.name
    metric.add_sample(name, dict(sample.labels), sample.value)


def _add_histogram(metric: Metric, sample: Sample) -> None:
    labels = dict(sample.labels)
    for bound, records in cumulative(sample.counts):
        metric.add_sample(f"{metric.name}_bucket", {**labels, "le": bound}, records)
    metric.add_sample(f"{metric.name}_count", labels, sum(sample.counts))
    metric.add_sample(f"{metric.name}_sum", labels, sample.value)
