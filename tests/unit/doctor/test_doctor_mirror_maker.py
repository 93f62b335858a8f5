"""An existing MirrorMaker 2, judged by what it has stored and by its file."""

import pytest

from mmtool.config.load import read_file
from mmtool.doctor.examination import Mm2Traces
from mmtool.doctor.finding import Severity
from mmtool.doctor.mirror_maker import (
    CheckpointPace,
    StaleGroup,
    SyncedPartition,
    concerns,
    judge_excluded_groups,
    judge_offset_lag,
    judge_scope,
    judge_stale,
    judge_switches,
    judge_translated_topics,
    judge_unreached,
    late_groups,
)
from mmtool.kafka.ports import Mm2State, StoredCheckpoint, StoredCheckpoints
from mmtool.plan.groups.facts import Commit
from mmtool.translation.sync_map import OffsetPair, SyncMap
from mmtool.translation.types import TopicPartition

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
PLACE = TopicPartition("orders", 0)
LARGE = "offset.lag.max = 10000"


def pair(upstream, downstream, ago_ms=HOUR_MS):
    return OffsetPair(upstream, downstream, NOW_MS - ago_ms)


def told(upstream, downstream, ago_ms=HOUR_MS, *, is_ours=False):
    return StoredCheckpoint(pair(upstream, downstream, ago_ms), "", is_ours)


def traces(*syncs, **checkpoints):
    maps = {PLACE: known} if (known := SyncMap.of(syncs)) is not None else {}
    newest = {PLACE: syncs[-1]} if syncs else {}
    held = {group: {PLACE: one} for group, one in checkpoints.items()}
    return Mm2Traces(Mm2State(maps, {}, newest), StoredCheckpoints(held, {}), {})


def severities(found):
    return [one.severity for one in found]


@pytest.mark.parametrize(
    ("partition", "lines", "expected"),
    [
        (SyncedPartition(PLACE, 57, 56, pair(56, 56)), [], []),
        (SyncedPartition(PLACE, 57, 56, pair(0, 0)), [], [Severity.PROBLEM]),
        (SyncedPartition(PLACE, 57, 56, None), [], [Severity.PROBLEM]),
        (SyncedPartition(PLACE, 57, 56, pair(0, 0, ago_ms=1000)), [], []),  # the next flush tells of it
        (SyncedPartition(PLACE, 57, 56, pair(0, 0), unsynced_ms=1000), [], []),
        (SyncedPartition(PLACE, 57, None, pair(0, 0)), [], []),  # it has stored no position yet
        (SyncedPartition(PLACE, 57, 56, pair(56, 56)), [LARGE], [Severity.WARNING]),
        (SyncedPartition(PLACE, 20_000, 19_999, pair(19_999, 5)), [LARGE], []),
        (SyncedPartition(PLACE, 0, None, None), [LARGE], []),
    ],
)
def test_a_tail_without_a_sync_is_a_problem_and_a_topic_below_the_offset_lag_a_warning(
    flow, partition, lines, expected
):
    assert severities(judge_offset_lag(flow(*lines), [partition], NOW_MS)) == expected


def test_checkpoints_of_topics_outside_the_flow_are_a_warning_while_the_topic_is_there(flow):
    settings = flow("topics = orders")
    (found,) = judge_translated_topics(settings, {"orders": {"app"}, "audit": {"app"}}, ["orders", "audit"])
    assert (found.subject, found.severity) == ("audit", Severity.WARNING)
    assert list(judge_translated_topics(settings, {"audit": {"app"}}, ["orders"])) == []


def test_groups_are_left_out_only_where_mirror_maker_2_s_default_would_not_leave_them_out(flow):
    commits = {name: {PLACE: Commit(1)} for name in ("app", "other", "console-consumer-1", "connect-x")}
    commits["elsewhere"] = {TopicPartition("private", 0): Commit(1)}
    settings = flow("groups = app")
    (found,) = judge_excluded_groups(settings, commits, ["orders"])
    assert found.subject == "other"
    assert list(judge_excluded_groups(flow(), commits, ["orders"])) == []


def test_switches_that_are_off_are_told(flow):
    on = "sync.group.offsets.enabled = true"
    assert severities(judge_switches(flow(on))) == []
    assert severities(judge_switches(flow())) == [Severity.WARNING]
    assert severities(judge_switches(flow(on, "emit.checkpoints.enabled = false"))) == [Severity.PROBLEM]


@pytest.mark.parametrize(
    ("commit", "known", "is_late"),
    [
        (100, traces(pair(100, 90), app=told(50, 40)), True),
        (101, traces(pair(100, 90), app=told(100, 90)), True),  # one more record is behind the synced one
        (100, traces(pair(100, 90), app=told(100, 90)), False),
        # behind the newest sync: its store may lack others
        (99, traces(pair(100, 90), app=told(50, 40)), False),
        (100, traces(pair(100, 90)), True),
        (100, traces(pair(100, 90, ago_ms=1000), app=told(50, 40)), False),
        (100, traces(pair(100, 90, ago_ms=301_000), app=told(50, 40)), True),
        # a new group: found within refresh.groups.interval
        (100, traces(pair(100, 90, ago_ms=301_000)), False),
        (100, traces(app=told(50, 40)), False),
    ],
)
def test_a_group_is_late_where_its_newest_offset_sync_says_more_than_its_checkpoint(
    flow, commit, known, is_late
):
    found = late_groups(known, {"app": {PLACE: Commit(commit)}}, CheckpointPace(60, 600), NOW_MS)
    assert [one.group for one in found] == (["app"] if is_late else [])


@pytest.mark.parametrize(
    ("silent_ms", "expected"),
    [(299_000, []), (301_000, [Severity.PROBLEM]), (None, [Severity.WARNING])],
)
def test_a_late_group_is_a_problem_once_it_has_been_silent_for_five_intervals(flow, silent_ms, expected):
    stale = StaleGroup("app", PLACE, 100, told(50, 40), silent_ms)
    assert severities(judge_stale(flow(), [stale], CheckpointPace(60, 600), NOW_MS, "")) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], CheckpointPace(60, 600)),  # MirrorMaker 2's defaults, not mmtool's
        (["emit.checkpoints.interval.seconds = 7"], CheckpointPace(7, 600)),
        (["A->B.refresh.groups.interval.seconds = 9"], CheckpointPace(60, 9)),
        (["refresh.groups.enabled = false"], CheckpointPace(60, 0)),
    ],
)
def test_mirror_maker_2_s_own_defaults_tell_how_soon_it_has_to_tell(file, lines, expected):
    settings = file(*lines)
    assert CheckpointPace.of(settings.one("A", "B"), read_file(settings.path, {}).scopes) == expected


def test_a_group_behind_the_oldest_sync_is_told_to_be_refined(flow):
    known = traces(pair(100, 90), pair(200, 190), told_of=told(10, 5))
    commits = {"behind": {PLACE: Commit(99)}, "within": {PLACE: Commit(100)}, "told_of": {PLACE: Commit(10)}}
    (found,) = judge_unreached(flow(), known, commits)
    assert (found.subject, found.severity) == ("behind", Severity.WARNING)
    assert "--refine" in found.remedy


def test_what_mmtool_wrote_is_no_trace_of_mirror_maker_2():
    assert traces().is_empty
    assert traces(app=told(1, 1, is_ours=True)).is_empty
    assert not traces(app=told(1, 1)).is_empty
    assert traces(pair(5, 5, ago_ms=20), app=told(1, 1, ago_ms=10)).last_ms == NOW_MS - 10


# --- scopes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("A.sync.group.offsets.enabled = true", "has no effect under an alias"),
        ("B.replication.policy.class = x.Y", "has no effect under an alias"),
        ("use.defaults.from = source", "has no effect without the prefix of a flow"),
        ("consumer.fetch.min.bytes = 5", "mmtool does not use it at all"),
        ("consumer.isolation.level = read_committed", "has no effect without the prefix of a cluster"),
        ("A.fetch.min.bytes = 5", "without effect, in MirrorMaker 2 as well, because client settings under"),
        ("A->C.topics = x", "names no pair of the clusters"),
        ("mmtool.cluster.id = x", "belongs to one cluster"),
        ("topics = x", ""),
        ("A->B.topics = x", ""),
        ("A.consumer.fetch.min.bytes = 5", ""),
        ("topics.whitelist = x", ""),  # never a key: wrong in any scope
        ("tpics = x", ""),  # misspelt: likewise
    ],
)
def test_keys_of_another_scope_are_rows_and_other_findings_are_none(file, line, words):
    settings = file(line)
    flow = settings.one("A", "B")
    found = [one for one in read_file(settings.path, {}).findings if one.misplaced]
    rows = [judge_scope(flow, one) for one in found if concerns(one, flow, tuple(settings.clusters))]
    assert len(rows) == bool(words)
    assert all(words in row.message and row.severity is Severity.WARNING for row in rows)


def test_keys_of_other_clusters_are_left_to_their_own_flows(file):
    settings = file(
        "clusters = A, B, C",
        "C.bootstrap.servers = localhost:3",
        "C.sync.group.offsets.enabled = true",
        "C.fetch.min.bytes = 5",
    )
    flow = settings.one("A", "B")
    found = [one for one in read_file(settings.path, {}).findings if one.misplaced]
    assert len(found) == 2
    assert not any(concerns(one, flow, tuple(settings.clusters)) for one in found)
