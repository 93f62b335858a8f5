"""What a look at a flow becomes: pure, so every case is a table of facts."""

from dataclasses import replace

import pytest

from kit.maps import position_of
from mmtool.failover.operation.records import in_journal_order
from mmtool.failover.operation.states import OperationState
from mmtool.insight.status import FlowStatus
from mmtool.metrics import families
from mmtool.metrics.families import Level
from mmtool.metrics.samples import samples_of_flow, samples_of_groups, samples_of_operations
from mmtool.plan.flow.mirror_maker import MirrorMakerProgress
from mmtool.plan.flow.positions import PartitionRow
from mmtool.plan.flow.slots import SlotsRecord
from mmtool.plan.flow.status import FlowFacts, FlowMember
from mmtool.plan.groups.status import GroupSummary
from mmtool.plan.records.documents import OwnerRecord, State
from mmtool.plan.records.journal import EntryKind, JournalEntry
from mmtool.plan.topics.facts import TopicFacts
from mmtool.translation.types import TopicPartition

OWNER = OwnerRecord("owner-2", "host-1", 4711, since_ms=1_000)
HOLDER = FlowMember("mmtool/0.1-owner-host-1-pid-4711", "/10.0.0.1", holds=True)


def row(topic, partition, **others):
    known = {"records": 10, "bytes": 100, "lag_records": 3, "lag_seconds": 1.5, "state": State.RUNNING}
    return PartitionRow("a", "b", topic, partition, **(known | others))


def position(topic, partition, **others):
    place = TopicPartition(topic, partition)
    known = position_of(place, f"id-{topic}", 10, 10, State.CAUGHT_UP, owner="owner-2", observed_ms=5_000)
    return replace(known, **others)


def facts(*positions, **others):
    known = FlowFacts(
        source="a",
        target="b",
        ran=True,
        topics={},
        remote={},
        ends={},
        owner=OWNER,
        members=(HOLDER,),
        positions={(p.topic_id, p.partition): p for p in positions},
        target_ids={},
        now_ms=10_000,
    )
    return replace(known, **others)


def found(*rows, level=Level.PARTITION, known=None):
    samples = samples_of_flow(FlowStatus(known or facts(), rows, None, ()), level)
    return {(s.family.name, *list(s.labels.values())[2:]): s.value for s in samples}


THREE = (row("x", 0), row("x", 1, lag_records=0, lag_seconds=0.0, state=State.CAUGHT_UP), row("y", 0))


@pytest.mark.parametrize(
    ("level", "lags"),
    [
        (Level.FLOW, {(): 6}),
        (Level.TOPIC, {("x",): 3, ("y",): 3}),
        (Level.PARTITION, {("x", "0"): 3, ("x", "1"): 0, ("y", "0"): 3}),
        (Level.GROUP, {("x", "0"): 3, ("x", "1"): 0, ("y", "0"): 3}),
    ],
)
def test_a_level_splits_the_lag_so_far_and_sums_what_is_below(level, lags):
    samples = found(*THREE, level=level)
    assert {key[1:]: value for key, value in samples.items() if key[0] == "mmtool_lag_records"} == lags


def test_lag_in_seconds_is_the_largest_where_several_partitions_share_a_sample():
    rows = [row("x", n, lag_seconds=seconds) for n, seconds in enumerate((2.0, 9.0))]
    halted = row("x", 2, lag_records=None, lag_seconds=None)
    assert found(*rows, halted, level=Level.FLOW)["mmtool_lag_seconds",] == 9.0


def test_the_largest_lag_is_unknown_where_a_partition_is_behind_for_an_unknown_time():
    rows = row("x", 0, lag_records=0, lag_seconds=0.0), row("x", 1, lag_seconds=None)
    assert ("mmtool_lag_seconds",) not in found(*rows, level=Level.FLOW)
    assert found(*rows, level=Level.FLOW)["mmtool_lag_records",] == 3


def test_states_are_counted_where_several_partitions_share_a_sample():
    samples = found(*THREE, level=Level.FLOW)
    states = {key[1]: value for key, value in samples.items() if key[0] == "mmtool_partition_state"}
    assert states == {"running": 2, "caught_up": 1}


def test_what_is_not_known_has_no_sample():
    samples = found(row("x", 0, lag_records=None, lag_seconds=None), known=facts(owner=None, members=()))
    assert {key[0] for key in samples} == {
        "mmtool_records_total",
        "mmtool_bytes_total",
        "mmtool_partition_state",
    }


def test_a_row_about_a_whole_flow_or_topic_tells_its_state_alone():
    never = PartitionRow("a", "b", None, state=State.NEVER_RAN)
    assert found(never, known=facts(owner=None, members=())) == {
        ("mmtool_partition_state", "", "", "never_ran"): 1
    }


@pytest.mark.parametrize(
    ("level", "records", "states"),
    [
        (Level.FLOW, {(): 20}, {("running",): 1}),
        (Level.TOPIC, {("x",): 10}, {("x", "running"): 1}),
        (Level.PARTITION, {("x", "0"): 10}, {("x", "0", "running"): 1}),
    ],
)
@pytest.mark.parametrize("state", [State.WAITING, State.IDLE])
def test_a_deleted_topic_of_which_nothing_is_missing_has_no_series_and_stays_in_the_flow_s_sums(
    level, records, states, state
):
    gone = row("y", 0, state=state, lag_records=None, lag_seconds=None)
    samples = found(row("x", 0), gone, level=level, known=facts(deleted=frozenset({"y"})))
    assert {key[1:]: v for key, v in samples.items() if key[0] == "mmtool_records_total"} == records
    assert {key[1:]: v for key, v in samples.items() if key[0] == "mmtool_partition_state"} == states


def test_a_deleted_topic_of_which_records_are_missing_stays():
    lost = row("y", 0, state=State.HALTED)
    assert (
        found(lost, known=facts(deleted=frozenset({"y"})))["mmtool_partition_state", "y", "0", "halted"] == 1
    )


NEVER = {"state": State.NEVER_RAN, "records": 0, "bytes": 0, "lag_records": None, "lag_seconds": None}
MM2 = {
    "mirror_maker": MirrorMakerProgress({TopicPartition("y", n): 1 for n in range(2)}),
    "topics": {name: TopicFacts(name, f"{name}-id", 2) for name in "yz"},
}


def by_mm2(number):
    return row("y", number, state=State.RUNNING, records=0, bytes=0, lag_records=17 + number, lag_seconds=2.5)


def test_what_mmtool_never_mirrored_is_told_by_what_mm2_tells():
    samples = found(row("x", 0), by_mm2(0), row("z", 0, **NEVER), known=facts(**MM2))
    assert {key[1:]: v for key, v in samples.items() if key[0] == "mmtool_lag_records"} == {
        ("x", "0"): 3,
        ("y", "0"): 17,
    }
    states = {key[1:] for key in samples if key[0] == "mmtool_partition_state"}
    assert states == {("x", "0", "running"), ("z", "0", "never_ran")}


def test_a_flow_that_only_mm2_runs_has_its_partitions_and_no_state():
    by_mm2_alone = FlowStatus(
        facts(owner=None, members=(), ran=False, **MM2), (by_mm2(0), by_mm2(1)), None, ()
    )
    samples = samples_of_flow(by_mm2_alone, Level.FLOW)
    assert {s.family.name: s.value for s in samples} == {"mmtool_lag_records": 35, "mmtool_lag_seconds": 2.5}


def test_offsets_that_the_source_deleted_are_counted_by_place():
    known = facts(position("x", 0, gaps=7), position("x", 1))
    samples = found(*THREE, known=known)
    assert samples["mmtool_data_loss_records_total", "x", "0"] == 7
    assert samples["mmtool_data_loss_records_total", "x", "1"] == 0
    assert ("mmtool_data_loss_records_total", "y", "0") not in samples


def test_the_last_success_is_the_newest_word_of_a_pump_that_mirrors():
    halted = position("x", 0, state=State.HALTED, observed_ms=9_000, at_end_ms=7_000)
    samples = found(*THREE, known=facts(halted, position("y", 0, observed_ms=5_000)))
    assert samples["mmtool_last_success_timestamp_seconds",] == 7.0


def test_the_owner_is_named_by_host_and_process_and_tells_its_slots():
    samples = found(*THREE, known=facts(slots=SlotsRecord("owner-2", 4, 3)))
    assert samples["mmtool_owner_info", "host-1/4711"] == 1
    assert (samples["mmtool_spark_slots", "wanted"], samples["mmtool_spark_slots", "held"]) == (4, 3)


def latencies(level, *positions, rows=THREE, **others):
    samples = samples_of_flow(FlowStatus(facts(*positions, **others), rows, None, ()), level)
    return {
        tuple(s.labels.values())[2:]: (s.value, s.counts) for s in samples if s.family is families.LATENCY
    }


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (Level.FLOW, {(): (0.6, (4, 6))}),
        (Level.TOPIC, {("x",): (0.3, (3, 3)), ("y",): (0.3, (1, 3))}),
        (Level.PARTITION, {("x",): (0.3, (3, 3)), ("y",): (0.3, (1, 3))}),
    ],
)
def test_latencies_are_summed_and_never_split_by_partition(level, expected):
    counted = [
        position("x", 0, latency=(1, 2), latency_ms=100),
        position("x", 1, latency=(2, 1), latency_ms=200),
        position("y", 0, latency=(1, 3), latency_ms=300),
        position("z", 0, owner="owner-1", latency=(9, 9), latency_ms=900),
        position("z", 1),
    ]
    assert latencies(level, *counted) == expected


FLOW = {"source": "a", "target": "b"}


def test_a_group_is_told_by_what_is_known_of_it():
    groups = [
        GroupSummary("app", True, 5, None, 2.5),
        GroupSummary("late", False, None, None, None, "never_ran"),
    ]
    samples = {(s.family.name, s.labels["group"]): s.value for s in samples_of_groups(FLOW, groups)}
    assert samples == {
        ("mmtool_group_lag_records", "app"): 5,
        ("mmtool_checkpoint_age_seconds", "app"): 2.5,
        ("mmtool_failover_ready", "app"): 1,
        ("mmtool_failover_ready", "late"): 0,
    }


def operation(name, state, target="b", at=0):
    began = {"source": "a", "target": target, "source_id": None, "target_id": "id", "mode": "planned"}
    about = {"steps": [], "groups": ["app"], "reason": "", "figures": {}, "sentence": "", "problem": ""}
    facts = began | about
    entry = JournalEntry(name, 1, EntryKind.BEGAN, at, "me@host", OperationState.RUNNING, False, facts)
    return [entry, replace(entry, number=2, kind=EntryKind.ENDED, state=state)]


def test_open_operations_and_the_last_one_are_told():
    entries = [
        *operation("one", OperationState.COMPLETED),
        *operation("two", OperationState.FAILED, at=1),
        *operation("three", OperationState.COMPLETED, at=2),
        *operation("four", OperationState.FAILED, target="c", at=3),
    ]
    samples = samples_of_operations(FLOW, in_journal_order(entries))
    assert [tuple(s.labels.values())[2:] for s in samples] == [
        ("two", "planned", "failed"),
        ("three", "planned", "completed"),
    ]


@pytest.mark.parametrize("level", Level)
def test_every_sample_has_the_labels_of_its_family_and_no_two_the_same(level):
    known = facts(position("x", 0), slots=SlotsRecord("owner-2", 4, 3))
    samples = samples_of_flow(FlowStatus(known, THREE, None, ()), level)
    assert all(set(s.labels) <= set(s.family.labels) for s in samples)
    keys = [(s.family.name, tuple(s.labels.items())) for s in samples]
    assert len(keys) == len(set(keys))
