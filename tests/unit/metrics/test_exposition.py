"""The text that Prometheus reads, family by family."""

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain

from mmtool.metrics import families
from mmtool.metrics.samples import Sample, format_of, lines_of, render

FLOW = {"source": "a", "target": "b"}


def text(*samples, accept=""):
    return render([lines_of(samples)], format_of(accept)).decode().splitlines()


def test_a_counter_has_its_suffix_once_in_both_formats():
    sample = Sample(families.RECORDS, {**FLOW, "topic": "x", "partition": "0"}, 7)
    line = 'mmtool_records_total{source="a",target="b",topic="x",partition="0"} 7'
    plain, open_metrics = text(sample), text(sample, accept="application/openmetrics-text")
    assert "# TYPE mmtool_records_total counter" in plain
    assert "# TYPE mmtool_records counter" in open_metrics
    for lines in (plain, open_metrics):
        assert [one for one in lines if not one.startswith("#")] == [line]


def test_both_formats_are_read_by_prometheus_own_parsers():
    samples = [
        Sample(families.RECORDS, {**FLOW, "topic": "x", "partition": "0"}, 7),
        Sample(families.LAG_SECONDS, {**FLOW, "topic": "x", "partition": "0"}, 1.25),
        Sample(families.LATENCY, {**FLOW, "topic": "x"}, 12.5, (1, 2, *[0] * 10, 1)),
        Sample(families.LAST_SUCCESS, FLOW, 1_790_000_000.123),
        Sample(families.CLUSTER_UP, {"cluster": 'a"\\\n'}, 1),
    ]
    for accept, parse in (("", plain), ("application/openmetrics-text", open_metrics)):
        read = list(parse("\n".join(text(*samples, accept=accept)) + "\n"))
        found = {(s.name, *s.labels.items()): s.value for family in read for s in family.samples}
        assert len(found) == 4 + 15
        assert found["mmtool_cluster_up", ("cluster", 'a"\\\n')] == 1
        latency, of_topic = "mmtool_replication_latency_seconds", (*FLOW.items(), ("topic", "x"))
        assert (found[f"{latency}_sum", *of_topic], found[f"{latency}_count", *of_topic]) == (12.5, 4)
        buckets = [found[f"{latency}_bucket", *of_topic, ("le", le)] for le in ("0.1", "+Inf")]
        assert buckets == [3, 4]
        assert {family.type for family in read} == {"counter", "gauge", "histogram"}
