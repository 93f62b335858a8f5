"""Format samples for Prometheus: as the text format, or as OpenMetrics for a scraper that accepts it.

A sample is the same line in both formats. Lines are made once, by the poll that found the samples: a scrape only joins
them, as a large cluster has a hundred thousand.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from mmtool.metrics.families import FAMILIES, Kind
from mmtool.plain_text import printable
from mmtool.plan.flow.latency import cumulative

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from mmtool.metrics.families import Family
    from mmtool.metrics.samples import Sample

    Lines = Mapping[str, Sequence[str]]
    """Lines of the exposition format, by family name."""

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
            texts += [*_head(family, wanted), *lines]
    if wanted.is_open_metrics:
        texts.append("# EOF")
    return "".join(f"{text}\n" for text in texts).encode()


def _head(family: Family, wanted: Format) -> Iterator[str]:
    name = family.base_name if wanted.is_open_metrics else family.name
    yield f"# HELP {name} {family.meaning}"
    yield f"# TYPE {name} {family.kind}"


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
