"""Retention and compaction, judged: thresholds, and what is no problem."""

import pytest

from mmtool.doctor.finding import Severity
from mmtool.doctor.retention import (
    HOUR_MS,
    PartitionLag,
    TopicPair,
    judge_lag,
    judge_offsets_retention,
    judge_policies,
    judge_target_retention,
    judge_tombstones,
    severity_of,
    span_words,
)
from mmtool.plan.topics.configs import ConfigEntry, ConfigOrigin
from mmtool.plan.topics.retention import Deadline, Retention, deadline
from mmtool.translation.types import TopicPartition

NOW_MS = 1_800_000_000_000
DAY_MS = 24 * HOUR_MS
PLACE = TopicPartition("orders", 3)


def lag(position=10, start=0, end=100, **more):
    return PartitionLag(PLACE, position, start, end, **more)


@pytest.mark.parametrize(
    ("left_hours", "span_hours", "expected"),
    [
        (1.0, 168, Severity.PROBLEM),
        (16.8, 168, Severity.PROBLEM),
        (17.0, 168, Severity.WARNING),
        (84.0, 168, Severity.WARNING),
        (84.1, 168, Severity.OK),
        (1.0, 4, Severity.PROBLEM),
        (1.1, 4, Severity.WARNING),
        (0.5, 1, Severity.PROBLEM),
        (0.6, 1, Severity.OK),
        (-1.0, 168, Severity.PROBLEM),
    ],
)
def test_time_left_is_a_problem_within_an_hour_or_a_tenth(left_hours, span_hours, expected):
    due = Deadline("retention.ms", int(NOW_MS + left_hours * HOUR_MS), span_hours * HOUR_MS)
    assert severity_of(due, NOW_MS) is expected


@pytest.mark.parametrize(
    ("lines", "by_mm2", "said"),
    [
        ([], False, "set A->B.mmtool.on.data.loss = continue: with halt, the default"),
        (["mmtool.on.data.loss = continue"], False, "cannot be mirrored; `mmtool replicate` mirrors the"),
        ([], True, "the deleted records cannot be mirrored; to prevent another gap"),
    ],
)
def test_what_is_to_be_done_for_the_records_after_deleted_ones(flow, lines, by_mm2, said):
    found = judge_lag(flow(*lines), "orders", [lag(10, 15, by_mm2=by_mm2)], Retention(), NOW_MS)
    assert said in found.remedy


OLD = lag(oldest_ms=NOW_MS - 6 * DAY_MS - 23 * HOUR_MS)
FULL = lag(start=5, oldest_ms=NOW_MS - 9 * HOUR_MS, first_ms=NOW_MS - 10 * HOUR_MS)
WEEK = Retention(ms=7 * DAY_MS)


@pytest.mark.parametrize(
    ("lags", "keeps", "expected", "said"),
    [
        # a marker behind the last record is not lost
        ([lag(10, 11, 11, by_mm2=True)], Retention(), None, ""),
        ([lag(10, 12, 12, by_mm2=True)], Retention(), Severity.PROBLEM, "deleted offset"),
        ([lag(100, gaps=7)], Retention(), Severity.WARNING, "deleted 7 offsets"),
        ([lag(oldest_ms=NOW_MS - 3 * DAY_MS)], WEEK, None, ""),
        ([lag(oldest_ms=NOW_MS), OLD], WEEK, Severity.PROBLEM, "retention.ms keeps them for 7 days; 90"),
        ([lag(oldest_ms=NOW_MS), OLD], WEEK, Severity.PROBLEM, "in 60 minutes"),
        ([FULL], Retention(bytes=1_000), Severity.PROBLEM, "retention.bytes keeps them for 10 hours"),
    ],
)
def test_the_worst_of_a_topic_s_partitions_is_told(flow, lags, keeps, expected, said):
    found = judge_lag(flow(), "orders", lags, keeps, NOW_MS)
    assert (None if found is None else found.severity) is expected
    assert found is None or said in found.message, found


def test_a_deadline_is_the_earliest_one_and_none_where_all_is_kept():
    assert deadline(0, 10, Retention(), 0) is None
    assert deadline(0, 10, Retention(bytes=5), None) is None
    assert deadline(100, 200, Retention(ms=50, bytes=5), 180) == Deadline("retention.bytes", 120, 20)


# --- configurations ---------------------------------------------------------------------------------------


def entries(**values):
    return {
        name.replace("_", "."): ConfigEntry(value, ConfigOrigin.DEFAULT, on_topic=False)
        for name, value in values.items()
    }


def pair(source, target):
    return TopicPair("orders", "A.orders", source, target, "A", "B")


def kept(policy="delete", ms=str(7 * DAY_MS), size="-1"):
    return entries(cleanup_policy=policy, retention_ms=ms, retention_bytes=size)


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (kept(), kept(), None),
        (kept(), kept(ms=str(8 * DAY_MS)), None),
        (kept(), kept(ms=str(DAY_MS)), "retention.ms = 1 day (A: 7 days)"),
        (kept(ms="-1"), kept(), "retention.ms = 7 days (A: without limit)"),
        (kept(), kept(size="1000"), "retention.bytes = 1,000 bytes (A: without limit)"),
        (kept("compact"), kept("compact", ms="1"), None),
    ],
)
def test_a_mirror_that_keeps_less_is_a_warning(source, target, words):
    found = list(judge_target_retention(pair(source, target)))
    assert [one.severity for one in found] == ([Severity.WARNING] if words else [])
    assert all(words in one.message for one in found)


def test_an_override_that_the_config_sync_removes_is_to_be_set_on_the_source():
    both = pair(kept("compact"), kept("delete", ms=str(DAY_MS)))._replace(
        reset=frozenset({"retention.ms", "cleanup.policy"})
    )
    (policy,) = judge_policies(both)
    assert policy.remedy.startswith(
        "on A, set cleanup.policy of topic orders to compact, its present default: config"
    )
    (shorter,) = judge_target_retention(both._replace(source=kept()))
    assert shorter.remedy.startswith("on A, set retention.ms of topic orders to the value that it has now")


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        ("delete", "delete", None),
        ("compact", "compact", None),
        ("compact,delete", "delete,compact", None),
        ("compact", "delete", Severity.PROBLEM),
        ("compact,delete", "delete", Severity.PROBLEM),
        ("delete", "compact", Severity.PROBLEM),
        ("delete", "compact,delete", Severity.PROBLEM),
        ("compact", "compact,delete", Severity.PROBLEM),
        ("compact,delete", "compact", Severity.WARNING),
    ],
)
def test_cleanup_policies_that_differ_are_told_by_what_is_lost(here, there, expected):
    found = list(judge_policies(pair(kept(here), kept(there))))
    assert [one.severity for one in found] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("behind_hours", "settled_hours", "expected"),
    [
        (1, None, None),
        (13, 13, Severity.WARNING),
        (30, 30, Severity.PROBLEM),
        (30, None, Severity.WARNING),  # a first copy of old records: nothing of theirs is on the target
        (1000, 1, None),  # old timestamps, written since the mirror was at the end
    ],
)
def test_tombstones_are_missed_by_a_mirror_that_was_behind_for_longer_than_they_are_kept(
    behind_hours, settled_hours, expected
):
    settled = 0 if settled_hours is None else NOW_MS - settled_hours * HOUR_MS
    waiting = lag(oldest_ms=NOW_MS - behind_hours * HOUR_MS, settled_ms=settled)
    of_topic = entries(delete_retention_ms=str(DAY_MS))
    found = list(judge_tombstones("A", "orders", of_topic, [lag(), waiting], NOW_MS))
    assert [one.severity for one in found] == ([expected] if expected else [])


def test_positions_that_the_target_forgets_first_are_a_warning():
    (found,) = judge_offsets_retention("A", "B", 7 * 86_400, 86_400)
    assert (found.cluster, found.severity) == ("B", Severity.WARNING)
    assert "after 1 day, and A after 7 days" in found.message
    assert list(judge_offsets_retention("A", "B", 86_400, 7 * 86_400)) == []


def test_a_span_is_told_in_the_largest_unit_that_says_enough():
    spans = {DAY_MS: "1 day", 36 * HOUR_MS: "36 hours", 90_000: "90 seconds", 1000: "1 second", 20: "20 ms"}
    assert {ms: span_words(ms) for ms in spans} == spans
