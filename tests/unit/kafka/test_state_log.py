"""The runs and the control topic's records, and records that are not to be trusted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit.maps import blocks_of
from kit.runs import ORDERS
from mmtool.config import ClusterSettings
from mmtool.errors import RefusedError
from mmtool.kafka.state import flow_state, state_log
from mmtool.kafka.state.control_view import ControlView
from mmtool.kafka.state.flow_state import FollowedFlowState
from mmtool.kafka.state.log_reader import LogRecord
from mmtool.kafka.state.state_log import maps_of, read_control
from mmtool.plan.records.identity import FlowIdentity
from mmtool.plan.records.marks import FailedOverRecord
from mmtool.translation.block_codec import encode_block, encode_key
from mmtool.translation.blocks import MAX_RUNS
from mmtool.translation.partition_map import join_blocks
from mmtool.translation.types import ClusterId

FLOW = FlowIdentity(ORDERS.source_cluster_id, ORDERS.target_cluster_id, "east", "west")
OTHER = replace(ORDERS, partition=8)


def blocks(about=ORDERS, runs=MAX_RUNS + 1):
    return blocks_of(about, [(11 * i, 10 * i, 10) for i in range(runs)], 11 * runs)


def record(offset, block, *, key=None, value=None):
    return LogRecord(0, offset, key or encode_key(block.key), value or encode_block(block), 0)


def records(*blocks):
    return [record(offset, block) for offset, block in enumerate(blocks)]


def why(*stored):
    with pytest.raises(RefusedError) as refused:
        maps_of(stored, FLOW)
    assert refused.value.code == "unreadable_state"
    return refused.value.message


def test_each_partition_has_the_map_of_its_blocks():
    ours, theirs = blocks(), blocks(OTHER, 2)
    found = maps_of(records(*theirs, *ours), FLOW)
    assert found == {
        (about.topic_id, about.partition): join_blocks(of) for about, of in ((ORDERS, ours), (OTHER, theirs))
    }


def test_the_last_record_of_a_key_counts_and_a_tombstone_takes_it_away():
    first, second = blocks()
    struck_out = LogRecord(0, 3, encode_key(second.key), None, 0)
    (known,) = maps_of([*records(first, second), record(2, first), struck_out], FLOW).values()
    assert known == join_blocks([first])


def test_no_record_is_no_map():
    assert maps_of([], FLOW) == {}


def at(offset):
    """How the error of the record at an offset begins."""
    topic = "mmtool-offset-runs.east.internal on west"
    return f"the record at offset {offset} in partition 0 of {topic} cannot be read:"


def test_of_many_blocks_the_one_that_cannot_be_read_is_named():
    first, second = blocks()
    assert f"{at(1)} checksum" in why(
        record(0, first), record(1, second, value=encode_block(second)[:-1] + b"\x00")
    )


def test_a_block_under_another_block_s_key_is_refused():
    first, second = blocks()
    assert f"{at(1)} the key of the record does not fit its value" in why(
        record(0, first), record(1, first, key=encode_key(second.key))
    )


def test_a_block_of_other_clusters_is_refused():
    (block,) = blocks(replace(ORDERS, source_cluster_id=ClusterId("elsewhere")), 1)
    assert f"{at(0)} it was written for other clusters than" in why(record(0, block))


def test_a_missing_block_is_refused():
    first, _, third = blocks(runs=2 * MAX_RUNS + 1)
    assert "a block is missing" in why(*records(first, third))


def test_who_reads_on_is_refused_again_and_again_by_what_cannot_be_read(monkeypatch):
    """``status --watch``: the second look must not pass over what the first one refused."""
    marks = [FailedOverRecord(topic, True, "operation", "ann@host-1", 1) for topic in ("a", "b", "c")]
    log = [LogRecord(0, at, mark.key, mark.encode(), 0) for at, mark in enumerate(marks)]
    damaged = log[1]._replace(value=marks[1].encode()[:-9])
    stored = [log[0], damaged, log[2]]
    monkeypatch.setattr(state_log, "read_log", lambda *_, start: stored[start.get(0, 0) :])
    west, view = ClusterSettings(alias="west", bootstrap_servers="nowhere:1"), ControlView()
    for _ in range(3):
        with pytest.raises(
            RefusedError, match=r"the record at offset 1 in partition 0 of .*internal on west cannot"
        ):
            read_control(west, FLOW, view)
    stored.append(log[1]._replace(offset=3))
    assert read_control(west, FLOW, view).failed_over.keys() == {"a", "b", "c"}


@pytest.fixture
def runs(monkeypatch):
    """The runs topic, as a list; who begins behind its end begins at its beginning, as the library does."""
    log = []

    def read_log(_, __, start=None):
        begins = (start or {}).get(0, 0)
        return log[begins:] if begins <= len(log) else log[:]

    monkeypatch.setattr(flow_state, "read_log", read_log)
    return log


def test_who_follows_the_runs_reads_what_is_new(runs):
    first, second = blocks()
    followed = FollowedFlowState(ClusterSettings(alias="west", bootstrap_servers="nowhere:1"))
    for stored in ([first], [first, second]):
        runs[:] = records(*stored)
        assert list(followed.maps(FLOW).values()) == [join_blocks(stored)]


def test_who_follows_the_runs_forgets_those_of_a_topic_that_was_made_again(runs):
    """Deleted and derived again (``flow rebuild``) under a process that goes on: old and new blocks are not one map."""
    followed = FollowedFlowState(ClusterSettings(alias="west", bootstrap_servers="nowhere:1"))
    runs[:] = records(*blocks())
    followed.maps(FLOW)
    (anew,) = blocks(runs=7)
    runs[:] = records(anew)
    assert list(followed.maps(FLOW).values()) == [join_blocks([anew])]
