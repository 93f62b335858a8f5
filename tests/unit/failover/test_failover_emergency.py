"""The emergency failover on clusters in memory: by what the target knows, and nothing of the source."""

import time
from dataclasses import replace

import pytest

from kit.scene import Scene
from mmtool.errors import UnreachableError
from mmtool.failover.modes.emergency import execute, rehearse
from mmtool.failover.operation.records import recorded
from mmtool.failover.report.operation_row import ended_row, recorded_row, rehearsed_row
from mmtool.failover.report.report import summary
from mmtool.plan.groups.facts import Commit, GroupSelection
from mmtool.plan.records.documents import CommitRatesRecord
from mmtool.plan.records.marks import FailedOverRecord, LookRecord
from mmtool.translation.types import TopicPartition

APP = GroupSelection(("app",))
REMOTE = [TopicPartition("east.orders", n) for n in range(3)]


@pytest.fixture
def scene(tmp_path):
    """``orders`` is mirrored to 60 of 100 and to 100 of 100; ``app`` was last seen at 50 and at 100."""
    made = Scene(tmp_path)
    made.has("orders", 100, 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60, source_end=100)
    made.mirrored("orders", 1, [(0, 0, 100)], 100, source_end=100)
    made.told("app", "orders", (50, 50), (100, 100), at_ms=int(time.time() * 1000) - 3_000)
    made.source.go_away(UnreachableError("the region is gone"))
    return made


@pytest.fixture
def ran(scene):
    def run():
        rehearsal = rehearse(scene.side, APP)
        return execute(rehearsal, scene.context(rehearsal, "INC-7"))

    return run


def partitions(row):
    return row["groups"][0]["partitions"]


def commits_at(scene, *rates):
    """What `replicate` has measured of ``app``: offsets per second in each partition from 0."""
    record = CommitRatesRecord("app", {"orders": {str(n): rate * 1000 for n, rate in enumerate(rates)}})
    scene.state.view.apply(record.key, record.encode(), 0)


@pytest.mark.parametrize(
    ("rates", "expected", "says"),
    [
        ((7, 50), (21, 39), "estimated from how fast"),
        ((1_000, 1_000), (40, 40), "and probably about 40"),
        ((0, 0), (0, 0), "and probably none"),
        ((), None, "the expected number is unknown"),
    ],
    ids=["rate times age", "never more than is possible", "idle", "not measured"],
)
@pytest.mark.parametrize("by_mm2", [False, True])
def test_what_is_expected_to_be_read_again_is_the_commit_rate_times_the_age(
    scene, rates, expected, says, by_mm2
):
    """What was measured before MirrorMaker 2 took over tells nothing of now."""
    scene.told("app", "orders", (20, 20), (100, 100), at_ms=int(time.time() * 1000) - 3_000, by_mm2=by_mm2)
    if rates:
        commits_at(scene, *rates)
    rehearsal = rehearse(scene.side, APP)
    row = rehearsed_row(rehearsal)
    found = [partition["reread_expected"] for partition in partitions(row)]
    assert (found[0], found[1]) == (row["reread_expected"], 0)
    if expected is None or by_mm2:
        assert found[0] is None
    else:
        assert expected[0] <= found[0] <= expected[1]
    assert by_mm2 or any(says in told for told in rehearsal.warnings)


def test_what_was_expected_is_in_the_summary_and_stays_in_the_journal(scene, ran):
    scene.told("app", "orders", (20, 20), (100, 100), at_ms=int(time.time() * 1000) - 3_000)
    commits_at(scene, 2, 0)
    ended = ran()
    total = ended_row(ended)["reread_expected"]
    assert 6 <= total < 40
    assert f"at most 40 read again ({total} expected)" in summary(ended)
    (found,) = recorded(scene.journal.entries())
    assert recorded_row(found)["reread_expected"] == total


def test_where_another_emergency_left_the_mirror_behind_nobody_saw_how_far_the_source_went_on(scene):
    """It has marked the topic a while ago; its source lived on, and is heard of until now."""
    now = int(time.time() * 1000)
    scene.mirrored("orders", 0, [(0, 0, 60)], 60, source_end=100, seen_ms=now - 60_000)
    mark = FailedOverRecord("orders", True, "20260101T000000Z-abcdef", "bob@host-2", 1)
    scene.state.marked(mark, LookRecord(now))
    rehearsal = rehearse(scene.side, APP)
    assert (rehearsal.at_risk, partitions(rehearsed_row(rehearsal))[0]["lost_max"]) == (True, None)


def test_the_mark_that_an_emergency_has_just_set_leaves_its_loss_known(scene, ran):
    scene.state.marked(LookRecord(int(time.time() * 1000)))
    assert ended_row(ran())["rpo_records"] == 40


def test_knowledge_is_as_young_as_the_last_look_of_the_flows_owner(scene):
    scene.state.marked(LookRecord(int(time.time() * 1000) - 1_000))
    assert partitions(rehearsed_row(rehearse(scene.side, APP)))[0]["knowledge_age_seconds"] < 2


def test_a_group_that_could_not_be_asked_is_known_as_of_its_own_last_look_and_no_other_one_is(scene):
    """`app` was asked 30 s ago, `never` not since its checkpoint of 3 s ago was written."""
    now = int(time.time() * 1000)
    for group, ago in {"app": 63, "never": 3, "other": 63}.items():
        scene.told(group, "orders", (50, 50), at_ms=now - ago * 1000)
    scene.state.marked(LookRecord(now, {"app": now - 30_000, "never": None}))
    row = rehearsed_row(rehearse(scene.side, GroupSelection(("app", "never", "other"))))
    ages = {of["group"]: of["partitions"][0]["knowledge_age_seconds"] for of in row["groups"]}
    assert {group: int(age) // 3 for group, age in ages.items()} == {"app": 10, "never": 1, "other": 0}


def test_of_mirror_makers_checkpoints_their_own_time_counts(scene):
    scene.state.marked(LookRecord(int(time.time() * 1000)))
    scene.told("app", "orders", (50, 50), at_ms=int(time.time() * 1000) - 60_000, by_mm2=True)
    assert partitions(rehearsed_row(rehearse(scene.side, APP)))[0]["knowledge_age_seconds"] >= 60


def test_before_the_first_commit_all_that_will_be_written_is_on_record(scene, ran):
    scene.commits("app", "east.orders", 7, cluster=scene.target)
    seen = []

    def alter(group, offsets, kind=None):
        (found,) = recorded(scene.journal.entries())
        seen.append([(plan.to_write(), plan.before()) for plan in found.operation.plan.groups])
        return {}

    scene.target.groups.alter = alter
    ran()
    assert seen == [[({REMOTE[0]: Commit(50), REMOTE[1]: Commit(100)}, {REMOTE[0]: Commit(7)})]]


@pytest.mark.parametrize("accepts", [False, True])
def test_a_loss_that_became_unknown_while_the_operator_was_asked_needs_consent_again(scene, accepts):
    scene.mirrored("orders", 0, [(0, 0, 100)], 100, source_end=100)
    rehearsal = rehearse(scene.side, APP, accepts_loss=accepts)
    context = scene.context(rehearsal, "INC-7")
    later = replace(context.clock, now=lambda: time.time() + 60)
    ended = execute(rehearsal, replace(context, clock=later))
    assert not rehearsal.at_risk
    assert (ended.operation.error is None, bool(scene.target.groups.committed)) == (accepts, accepts)
    if not accepts:
        assert ended.operation.error.code == "data_loss"
        assert "last seen 6" in ended.operation.error.message
        assert ended.operation.error.message.endswith("no offset was committed")
