"""The row that ``replicate`` and ``status`` share."""

from __future__ import annotations

import pytest

from mmtool.plan.documents import PositionRecord, State
from mmtool.plan.partition_rows import PartitionRow, lag_seconds


def position(*, at=5, end=9, since=0):
    return PositionRecord(
        owner="me",
        topic="orders",
        topic_id="id",
        partition=0,
        target_topic="A.orders",
        upstream_position=at,
        downstream_position=at,
        source_end=end,
        source_log_start=0,
        records=0,
        mirrored_bytes=0,
        state=State.RUNNING,
        reason="",
        observed_ms=1,
        behind_since_ms=since,
    )


@pytest.mark.parametrize(
    ("at", "since", "seconds"),
    [(9, 0, 0.0), (9, 1000, 0.0), (5, 1000, 2.5), (5, 9000, 0.0), (5, 0, None)],
    ids=["caught up", "just caught up", "behind", "a clock ahead of ours", "behind, nobody knows since when"],
)
def test_lag_in_seconds_is_since_when_the_frontier_is_behind(at, since, seconds):
    assert lag_seconds(position(at=at, since=since), now_ms=3500) == seconds


def test_a_row_has_the_contract_s_keys():
    assert list(PartitionRow.of("A", "B", position(), now_ms=1)._asdict()) == [
        "source",
        "target",
        "topic",
        "partition",
        "target_topic",
        "upstream_position",
        "downstream_position",
        "records",
        "bytes",
        "lag_records",
        "lag_seconds",
        "state",
        "reason",
    ]
