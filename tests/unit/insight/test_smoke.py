"""A smoke test on clusters in memory: each step, what fails it, and what it says then."""

import pytest

from kit.smoke import SmokeScene
from mmtool.errors import RefusedError, UnreachableError
from mmtool.insight.smoke import difference, smoke
from mmtool.insight.smoke_flow import CANARY_GROUP
from mmtool.kafka.ports import Bounds, CanaryRecord
from mmtool.plan.flow.status import FlowMember
from mmtool.plan.groups.facts import Commit, GroupSelection, select_groups
from mmtool.plan.records.documents import WHOLE_FLOW, PauseRecord, State
from mmtool.translation.types import UNKNOWN, TopicPartition

CANARY_STEPS = ["clusters", "owner", "topic", "produce", "mirrored", "commit", "translated", "read"]
NEWEST_STEPS = ["clusters", "owner", "newest", "mirrored", "translated", "read"]
CANARY = TopicPartition("mmtool-canary", 0)
REPEAT = "remedy: remove this cause, then run `mmtool smoke` again"


@pytest.fixture
def scene(tmp_path):
    """mmtool runs east->west; the canary topic is there, and mirrored."""
    made = SmokeScene(tmp_path)
    made.carries_canary()
    return made


def with_orders(scene, contents="abc"):
    scene.has("orders", len(contents))
    scene.mirrored("orders", 0, [(0, 0, len(contents))], len(contents))
    scene.holds(scene.source, "orders", enumerate(contents))
    scene.holds(scene.target, "east.orders", enumerate(contents))
    scene.watch.times["orders", 0, len(contents) - 1] = 2_000
    scene.stands("orders")
    return scene


def run(scene, *, seconds=60.0, read_only=False):
    return smoke(scene.smoke_flow(seconds), read_only=read_only)


def steps(smoked):
    return [result.step.value for result in smoked.results]


def failed(smoked):
    """The step that failed, and its message."""
    result = next(result for result in smoked.results if not result.passed)
    return result.step.value, result.message


def test_a_running_flow_passes_each_step_in_order(scene):
    smoked = run(scene)
    assert (steps(smoked), smoked.error) == (CANARY_STEPS, None)
    rows = {result.step: result.row() for result in smoked.results}
    assert rows["owner"]["message"] == "mmtool runs east->west: host-1, pid 4711"
    assert rows["translated"]["message"] == "offset 1 on east is 1 on west, exact"
    assert list(rows["read"]) == ["step", "result", "seconds", "message"]


def test_the_canary_group_is_gone_afterwards_and_no_selector_matches_it(scene):
    seen = []
    alter = scene.source.groups.alter
    scene.source.groups.alter = lambda group, offsets, kind=None: (
        seen.append(group) or alter(group, offsets, kind)
    )
    assert run(scene).error is None
    assert (seen, scene.source.groups.committed) == ([CANARY_GROUP], {})
    assert select_groups(GroupSelection(everything=True), [*seen, "app"], lambda _: True).known == ("app",)


def test_a_group_that_another_test_moved_is_put_back(scene):
    groups = scene.source.groups
    commits, looks = groups.commits, iter(range(100))

    def moved(names, **stable):
        if next(looks) == 2:  # after our commit was made and read back
            groups.committed[CANARY_GROUP] = {CANARY: Commit(99)}
        return commits(names, **stable)

    groups.commits = moved
    assert run(scene).error is None


# --- nobody, or not now ---------------------------------------------------------------------------------------


def test_a_flow_that_nobody_runs_fails_at_once_with_the_command_that_starts_it(scene):
    scene.watch.present = ()
    smoked = run(scene)
    step, message = failed(smoked)
    assert (step, scene.waited, scene.canary.here) == ("owner", 0, [])
    assert message.endswith("remedy: start it: mmtool replicate -c mm2.properties")
    assert smoked.error.exit_code == 4
    assert steps(smoked) == CANARY_STEPS
    assert [result.message for result in smoked.results[2:]] == ["not tried, because step owner failed"] * 6


def test_a_replicate_that_waits_for_a_flow_does_not_run_it(scene):
    scene.watch.present = (FlowMember("mmtool/0.1-owner-host-2-pid-1", "/10.0.0.2", holds=False),)
    step, message = failed(run(scene))
    assert (step, scene.waited >= 60) == ("owner", True)
    assert message.startswith("`mmtool replicate` waits for the ownership lease of east->west")


def test_a_cluster_that_is_away_is_a_step_that_failed(scene):
    scene.target.go_away(UnreachableError("west does not answer", remedy="start it"))
    smoked = run(scene)
    assert failed(smoked) == ("clusters", "west does not answer; remedy: start it")
    assert smoked.error.exit_code == 4


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        ("refresh.topics.interval.seconds = 600\n", "looks for new topics every 600 s"),
        ("refresh.topics.enabled = false\n", "looks for new topics only at its start"),
    ],
    ids=["seldom", "never"],
)
def test_a_new_canary_that_would_be_mirrored_too_late_gives_way_to_the_newest_record(tmp_path, extra, why):
    scene = with_orders(SmokeScene(tmp_path, extra))
    smoked = run(scene)
    assert (smoked.error, steps(smoked)) == (None, [*CANARY_STEPS[:3], *NEWEST_STEPS[2:]])
    assert why in smoked.results[2].message
    assert why in smoked.warnings[0]
    assert (scene.canary.created, scene.canary.here, scene.waited) == (1, [], 0)


def test_an_owner_whose_pumps_have_told_of_nothing_yet_is_waited_for_however_seldom_it_looks(tmp_path):
    scene = SmokeScene(tmp_path, "refresh.topics.interval.seconds = 600\n")
    step, message = failed(run(scene))
    assert (step, scene.waited >= 60) == ("topic", True)
    assert "mmtool-canary of east was not mirrored within 60 s" in message


def halted(scene):
    scene.carries_canary(State.HALTED, "the target topic was deleted")


def paused(scene):
    mark = PauseRecord("id-mmtool-canary", "mmtool-canary", True, "ann@host-1", 1_000, "disk full")
    scene.watch.marked(mark)


def halted_while_records_are_waited_for(scene):
    scene.canary.mirrors = lambda _: halted(scene) or ()


def comes_twice(scene):
    scene.canary.mirrors = lambda records: [records[0], *records]


def takes_no_record(scene):
    scene.canary.refuses = RefusedError("east denies WRITE on mmtool-canary", remedy="grant it")


def takes_no_commit(scene):
    scene.source.groups.denied.add(CANARY)


@pytest.mark.parametrize(
    ("arrange", "step", "said"),
    [
        (halted, "topic", f"mmtool-canary-0 is halted: the target topic was deleted; {REPEAT}"),
        (paused, "topic", "disk full"),
        (halted_while_records_are_waited_for, "mirrored", f"the target topic was deleted; {REPEAT}"),
        (comes_twice, "mirrored", "expected this test's records 1, 2; found records 1, 1, 2"),
        (takes_no_record, "produce", "east denies WRITE on mmtool-canary; remedy: grant it"),
        (takes_no_commit, "commit", "refuses the commit of group mmtool.canary: Broker: Topic authorization"),
    ],
)
def test_what_keeps_the_canary_from_passing_fails_its_step_at_once_with_the_reason(
    scene, arrange, step, said
):
    arrange(scene)
    found, message = failed(run(scene))
    assert (found, said in message, scene.waited) == (step, True, 0)


# --- records --------------------------------------------------------------------------------------------------


def test_records_that_do_not_come_in_time_are_counted(scene):
    scene.canary.mirrors = lambda records: records[:1]
    step, message = failed(run(scene, seconds=7))
    assert (step, 7 <= scene.waited < 8) == ("mirrored", True)
    assert message.startswith(
        "1 of 2 records arrived in east.mmtool-canary-0 of west within 7 s; remedy: raise"
    )


SENT = CanaryRecord(b"run", b'{"number": 1}', (("mmtool-canary", b"1"),), 1_000, 5)


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (SENT._replace(offset=9), ""),
        (SENT._replace(value=b'{"number": 1 }'), "record 1 differs from the source in its value"),
        (SENT._replace(headers=()), "record 1 differs from the source in its headers"),
        (SENT._replace(timestamp_ms=1_001), "record 1 differs from the source in its timestamp"),
        (SENT._replace(value=b"spoiled"), "expected this test's record 1; found record ?"),
    ],
    ids=["offset", "value", "headers", "timestamp", "unreadable"],
)
def test_a_record_is_the_same_down_to_its_timestamp_wherever_it_stands(other, what):
    assert difference([SENT], [other]) == what


def test_an_offset_that_leads_elsewhere_is_found_by_reading_on_from_it(scene):
    """The map says one thing, the log holds another."""
    scene.canary.there = [SENT._replace(key=b"another run", offset=0)]
    scene.canary.mirrors = lambda records: records
    step, message = failed(run(scene))
    assert step == "read"
    assert "expected this test's record 2; found records 1, 2" in message


# --- MirrorMaker 2 --------------------------------------------------------------------------------------------


def by_mm2(directory, topics):
    scene = SmokeScene(directory, f"east->west.topics = {topics}\n")
    scene.watch.present, scene.sign = (), "its group has members"
    return scene


def test_where_mirror_maker_2_leaves_the_canary_out_the_newest_record_is_followed(tmp_path):
    scene = with_orders(by_mm2(tmp_path, "orders"))
    smoked = run(scene)
    assert (smoked.error, steps(smoked)) == (None, NEWEST_STEPS)
    assert smoked.results[1].message == "MirrorMaker 2 runs east->west: its group has members"
    assert smoked.warnings[0].startswith("MirrorMaker 2 does not mirror mmtool-canary, which `topics`")
    assert scene.canary.created == 0


def test_where_mirror_maker_2_mirrors_the_canary_it_is_followed(tmp_path):
    scene = by_mm2(tmp_path, ".*")
    scene.has("mmtool-canary", 0)
    assert steps(run(scene)) == CANARY_STEPS


# --- read-only ------------------------------------------------------------------------------------------------


def test_of_several_topics_the_one_with_the_newest_record_is_followed_and_heartbeats_last(scene):
    with_orders(scene)
    for topic, written_at, offset in (("orders-new", 3_000, 0), ("heartbeats", 9_000, 0)):
        scene.has(topic, 1)
        scene.mirrored(topic, 0, [(0, 0, 1)], 1)
        scene.holds(scene.source, topic, [(0, "x")])
        scene.holds(scene.target, f"east.{topic}", [(0, "x")])
        scene.watch.times[topic, 0, offset] = written_at
    assert (
        run(scene, read_only=True)
        .results[2]
        .message.startswith("offset 0 of orders-new-0 on east, written at")
    )


def test_the_marker_at_the_end_of_a_log_is_no_record(scene):
    with_orders(scene)
    scene.source.logs[TopicPartition("orders", 0)] = Bounds(0, 4)
    assert (
        run(scene, read_only=True).results[2].message.startswith("offset 2 of orders-0 on east, written at")
    )


def test_a_paused_topic_is_not_followed(scene):
    with_orders(scene)
    scene.watch.marked(PauseRecord("id-orders", "orders", True, "ann@host-1", 1_000, ""))
    step, message = failed(run(scene, read_only=True))
    assert (step, "that is not paused" in message) == ("newest", True)


def test_where_the_whole_flow_is_paused_its_pause_is_named_and_the_command_that_ends_it(scene):
    with_orders(scene)
    scene.watch.marked(PauseRecord(WHOLE_FLOW, "", True, "ann@host-1", 1_000, ""))
    step, message = failed(run(scene, read_only=True))
    assert (step, "(the whole flow: paused by ann@host-1 since" in message) == ("newest", True)
    assert "`mmtool flow resume -c FILE`" in message


def test_another_record_at_the_translated_offset_fails(scene):
    with_orders(scene)
    scene.holds(scene.target, "east.orders", enumerate("abX"))
    step, message = failed(run(scene, read_only=True))
    assert step == "read"
    assert "has another key, value or headers than offset 2 of orders-0 on east" in message


@pytest.mark.parametrize(
    ("kept", "compared"),
    [
        (0, "key, value, headers, timestamp"),
        (
            UNKNOWN,
            "key, value, headers; without the timestamp, which is missing, or set by a broker (LogAppendTime)",
        ),
    ],
    ids=["CreateTime", "LogAppendTime"],
)
def test_the_same_record_is_named_on_both_sides_with_what_was_compared(scene, kept, compared):
    with_orders(scene)
    place = TopicPartition("east.orders", 0)
    scene.target.contents[place] = [one._replace(timestamp_ms=kept) for one in scene.target.contents[place]]
    assert (
        f"is the same record as offset 2 of orders-0 on east ({compared})"
        in run(scene, read_only=True).results[-1].message
    )


def test_a_newest_record_that_is_not_mirrored_in_time_fails(scene):
    with_orders(scene)
    scene.mirrored("orders", 0, [(0, 0, 2)], 2)
    step, message = failed(run(scene, read_only=True, seconds=7))
    assert (step, 7 <= scene.waited < 8) == ("mirrored", True)
    assert message.startswith("offset 2 of orders-0 was not mirrored within 7 s")
