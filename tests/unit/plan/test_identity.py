"""What a flow is called on the clusters does not change: other processes, and later versions, must agree."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.records.identity import (
    PRODUCERS_TOPIC,
    RUNS_PARTITIONS,
    FlowIdentity,
    runs_partition_of,
    shard_of,
)
from mmtool.translation.types import ClusterId, TopicId

FLOW = FlowIdentity(ClusterId("srcId"), ClusterId("tgtId"), "east", "west")
ONE, OTHER = TopicId("AAAAAAAAAAAAAAAAAAAAAQ"), TopicId("hC6SJ9-QTGqYcnsSyB_Zrw")


def test_the_names_of_a_flow_are_pinned():
    names = (
        FLOW.flow,
        FLOW.name,
        FLOW.runs_topic,
        FLOW.control_topic,
        FLOW.ownership_group,
        FLOW.transactional_id(7),
        PRODUCERS_TOPIC,
    )
    assert names == (
        "srcId-tgtId",
        "east->west",
        "mmtool-offset-runs.east.internal",
        "mmtool-control.east.internal",
        "mmtool.srcId-tgtId",
        "mmtool.srcId-tgtId.7",
        "mmtool-producers.internal",
    )


@pytest.mark.parametrize(
    ("topic_id", "partition", "shards", "shard"),
    [(ONE, 0, 32, 17), (ONE, 1, 32, 7), (ONE, 0, 8, 1), (OTHER, 0, 32, 14), (OTHER, 5000, 32, 3)],
)
def test_a_partition_stays_in_its_shard_over_all_versions(topic_id, partition, shards, shard):
    assert shard_of(topic_id, partition, shards) == shard


@given(st.text(max_size=22), st.integers(0, 100_000), st.integers(1, 1000))
def test_a_shard_is_one_of_those_that_there_are(topic_id, partition, shards):
    assert 0 <= shard_of(TopicId(topic_id), partition, shards) < shards


def test_partitions_of_one_topic_spread_over_the_shards():
    counts = Counter(shard_of(ONE, partition, 32) for partition in range(3200))
    assert (len(counts), max(counts.values()) < 200) == (32, True)


def test_a_shard_writes_its_runs_to_one_partition():
    assert [runs_partition_of(shard) for shard in range(10)] == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]
    assert RUNS_PARTITIONS == 8
