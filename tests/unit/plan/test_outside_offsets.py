"""Sinks that keep Kafka offsets outside Kafka, by the names of their groups."""

import pytest

from mmtool.plan.groups.outside_offsets import sink_warnings


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ("cg-control-orders-sink", "control group of an Iceberg sink connector"),
        ("cg-control-orders-sink-coord", "control group of an Iceberg sink connector"),
        ("connect-snowflake_orders", "such a name is usual for a sink"),
        ("orders-Iceberg-v2", "such a name is usual for a sink"),
        ("kafka_delta_ingest", "such a name is usual for a sink"),
        ("flink-enrich", "such a name is usual for a sink"),
        ("connect-jdbc", "such a group is that of a sink connector"),
    ],
)
def test_a_sink_is_warned_of_with_both_clusters(group, said):
    (warning,) = sink_warnings(["app", group], "east", "west")
    assert warning.startswith(
        f"{group}: {said}" if said.startswith("such") else f"{group}: such a group is the {said}"
    )
    assert "on west" in warning
    assert "Next: " in warning


@pytest.mark.parametrize("group", ["app", "deltas", "reconnect-app", "snowflakes"])
def test_other_groups_are_no_sinks(group):
    assert list(sink_warnings([group], "east", "west")) == []


def test_one_warning_of_each_kind_names_its_groups():
    groups = ["connect-a", "connect-b", "cg-control-{x}", "connect-c", "connect-d"]
    control, sinks = sink_warnings(groups, "east", "west")
    assert control.startswith("cg-control-{x}: ")
    assert sinks.startswith("connect-a, connect-b, connect-c and 1 more: ")
