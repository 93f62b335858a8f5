"""The text that Prometheus reads, family by family."""

from mmtool.metrics import families
from mmtool.metrics.exposition import format_of, render
from mmtool.metrics.samples import Sample

FLOW = {"source": "a", "target": "b"}


def text(*samples, accept=""):
    return render(samples, format_of(accept)).decode().splitlines()


def test_a_counter_has_its_suffix_once_in_both_formats():
    sample = Sample(families.RECORDS, {**FLOW, "topic": "x", "partition": "0"}, 7)
    line = 'mmtool_records_total{partition="0",source="a",target="b",topic="x"} 7'
    plain, open_metrics = text(sample), text(sample, accept="application/openmetrics-text")
    assert "# TYPE mmtool_records_total counter" in plain
    assert "# TYPE mmtool_records counter" in open_metrics
    for lines in (plain, open_metrics):
        assert [one.removesuffix(".0") for one in lines if not one.startswith("#")] == [line]


def test_a_histogram_has_buckets_a_count_and_a_sum():
    lines = text(Sample(families.LATENCY, {**FLOW, "topic": "x"}, 12.5, (1, 2, *[0] * 10, 1)))
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    labels = 'source="a",target="b",topic="x"'
    assert values[f"mmtool_replication_latency_seconds_sum{{{labels}}}"] == "12.5"
    assert float(values[f"mmtool_replication_latency_seconds_count{{{labels}}}"]) == 4
    assert float(values[f'mmtool_replication_latency_seconds_bucket{{le="+Inf",{labels}}}']) == 4
    assert float(values[f'mmtool_replication_latency_seconds_bucket{{le="0.1",{labels}}}']) == 3
    assert len(values) == 15


def test_names_are_escaped():
    (line,) = [one for one in text(Sample(families.CLUSTER_UP, {"cluster": 'a"\\\n'}, 1)) if one[0] != "#"]
    assert line == r'mmtool_cluster_up{cluster="a\"\\\n"} 1.0'
