"""The planned failover on clusters in memory: what it does, in which order, and when it does not."""

import signal
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kit.operations import lines_of
from kit.scene import Scene, half_read
from mmtool.errors import GateError, RefusedError, UnreachableError
from mmtool.failover.modes.planned_mode import execute, rehearse
from mmtool.failover.operation.journal import Both
from mmtool.failover.operation.records import recorded
from mmtool.failover.operation.recovery import as_it_stands
from mmtool.failover.report.report import (
    ended_row,
    error_of,
    next_steps,
    recorded_row,
    rehearsed_row,
    ways_on,
)
from mmtool.plan.failover.steps import ORDER, Mode
from mmtool.plan.groups.facts import Commit, GroupSelection, Member
from mmtool.translation.types import TopicPartition

APP = GroupSelection(("app",))
STEPS = ORDER[Mode.PLANNED]
SOURCE = [TopicPartition("orders", n) for n in range(2)]
REMOTE = [TopicPartition("east.orders", n) for n in range(2)]


class Log(list):
    """Remembers what it was told of steps."""

    def began(self, operation):
        pass

    def undone(self, operation, step):
        self.append(("undone", step.name))

    def ended(self, operation):
        pass

    def intended(self, operation, step):
        self.append(("intended", step.name))

    def done(self, operation, step):
        self.append(("done", step.name))

    def failed(self, operation, step, error):
        self.append(("failed", step.name))


@pytest.fixture
def ran(scene):
    """Rehearse and execute, with another drain where the test gives one."""

    def run(drain=None, selection=APP, log=None, clock=None, **patience):
        port = SimpleNamespace(drain=drain) if drain else scene
        rehearsal = rehearse(scene.look(), selection)
        context, journalist = scene.context(rehearsal)
        context = replace(context, clock=replace(context.clock, seconds=clock)) if clock else context
        return execute(
            rehearsal, port, context, Both(journalist, log if log is not None else Log()), **patience
        )

    return run


def partitions(row):
    return row["groups"][0]["partitions"]


def test_a_rehearsal_tells_what_can_be_told_and_what_the_drain_will_tell(scene):
    scene.commits("app", "orders", 50, 100)
    scene.commits("late", "orders", 80)
    row = rehearsed_row(rehearse(scene.look(), GroupSelection(("app", "late"))))
    late = next(group for group in row["groups"] if group["group"] == "late")["partitions"][0]
    assert row["state"] == "planned"
    assert [p["downstream_offset"] for p in partitions(row)] == [50, 100]
    assert (late["downstream_offset"], late["reason"]) == (None, "known after drain")


def test_a_rehearsal_of_a_flow_that_never_ran_is_executable(scene):
    scene.state.stored.clear()
    rehearsal = rehearse(scene.look(), APP)
    row = rehearsed_row(rehearsal)
    assert (rehearsal.refusal, {p["reason"] for p in partitions(row)}) == (None, {"known after drain"})


def test_a_rehearsal_changes_nothing(scene):
    rehearse(scene.look(), APP)
    assert (scene.drained, scene.target.groups.committed) == ([], {})


def test_the_drain_goes_past_every_commit_and_to_the_source_end(scene, ran):
    scene.commits("app", "orders", 50, 120)  # the last record was deleted, or its topic compacted
    scene.source.add_topic("orders", "id-orders", 100, 120)
    ran()
    assert scene.drained == [{SOURCE[0]: 100, SOURCE[1]: 120}]


def test_an_empty_partition_that_nobody_committed_for_is_not_waited_for(scene, ran):
    scene.source.add_topic("orders", "id-orders", 100, 100, 0)
    ran()
    assert scene.drained[0].keys() == set(SOURCE)


def test_groups_go_on_exactly_where_they_stopped(scene, ran):
    row = ended_row(ran())
    assert scene.target.groups.committed["app"] == {REMOTE[0]: Commit(50), REMOTE[1]: Commit(100)}
    assert (row["state"], row["point_of_no_return_passed"]) == ("completed", True)
    assert (row["rpo_records"], row["reread_records"], row["diverged_records"]) == (0, 0, 0)
    assert [step["state"] for step in row["steps"]] == ["done"] * len(STEPS)
    assert all(p["written"] for p in partitions(row))


def test_the_time_to_recover_is_measured_to_the_last_offset_read_back(ran):
    ticks = iter([10.0, 13.5])
    assert ended_row(ran(clock=lambda: next(ticks)))["rto_seconds"] == 3.5


def test_records_that_came_after_the_groups_stood_still_are_counted_not_lost(scene, ran):
    def drain(flow, until, timeout_seconds):
        scene.drain(flow, until, timeout_seconds)
        scene.source.add_topic("orders", "id-orders", 107, 100)

    row = ended_row(ran(drain))
    assert (row["rpo_records"], row["diverged_records"]) == (0, 7)


def test_the_log_hears_of_each_step_before_it_is_done(ran):
    log = Log()
    ran(log=log)
    assert log == [(told, name) for name in STEPS for told in ("intended", "done")]


def test_a_group_that_is_active_on_the_source_is_refused_by_name_and_host(scene):
    scene.source.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    refusal = rehearse(scene.look(), APP).refusal
    assert (refusal.exit_code, refusal.code) == (3, "active_on_source")
    assert refusal.message == "group app is active on east (Stable: app-1 on 10.0.0.7)"


def test_a_group_that_is_active_on_the_target_is_refused(scene):
    scene.target.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    assert rehearse(scene.look(), APP).refusal.code == "active_on_target"


def test_an_unknown_group_is_refused(scene):
    assert rehearse(scene.look(), GroupSelection(("typo",))).refusal.code == "unknown_group"


def test_no_group_at_all_is_refused(scene):
    with pytest.raises(RefusedError, match="no group matches") as refused:
        rehearse(scene.look(), GroupSelection(matching="typo".__eq__))
    assert refused.value.remedy.startswith("check --groups or --unit")


def test_groups_that_the_keys_leave_out_are_named(tmp_path):
    scene = Scene(tmp_path, "groups.exclude = app\n")
    scene.has("orders", 10)
    scene.commits("app", "orders", 5)
    with pytest.raises(
        RefusedError, match=r"no group matches, as the keys groups and groups\.exclude leave out app"
    ) as refused:
        rehearse(scene.look(), GroupSelection(matching="app".__eq__))
    assert refused.value.remedy.startswith("name the group with -g")


def test_a_group_that_comes_alive_between_plan_and_execution_is_refused(scene):
    rehearsal = rehearse(scene.look(), APP)
    scene.source.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    context, journalist = scene.context(rehearsal)
    ended = execute(rehearsal, scene, context, journalist)
    assert (ended.operation.error.exit_code, scene.drained, scene.target.groups.committed) == (3, [], {})


def test_a_group_that_commits_without_members_is_found_out(scene, ran):
    def drain(flow, until, timeout_seconds):
        scene.drain(flow, until, timeout_seconds)
        scene.commits("app", "orders", 51)

    ended = ran(drain)
    assert (ended.operation.error.code, scene.target.groups.committed) == ("source_commits_moved", {})


def test_a_drain_that_takes_too_long_leaves_everything_as_it_was(scene, ran):
    def drain(flow, until, timeout_seconds):
        raise GateError(f"not drained in {timeout_seconds} s")

    ended = ran(drain, timeout_seconds=8.0)
    row = ended_row(ended)
    assert (ended.operation.error.exit_code, ended.operation.error.message) == (4, "not drained in 8.0 s")
    assert (row["state"], row["point_of_no_return_passed"]) == ("failed", False)
    assert (row["rpo_records"], scene.target.groups.committed) == (None, {})


def test_a_drain_that_ended_short_is_not_believed(scene, ran):
    ended = ran(lambda *_: None)
    assert (ended.operation.error.exit_code, ended.cutover.figures.rpo_records) == (4, 40)


def test_no_group_is_moved_back(scene, ran):
    scene.commits("app", "east.orders", 55, cluster=scene.target)
    rehearsal = rehearse(scene.look(), APP)
    assert rehearsal.refusal.code == "would_rewind"


def test_a_write_that_is_refused_whole_changes_nothing_and_says_so(scene, ran):
    scene.target.groups.denied = set(REMOTE)
    ended = ran()
    row = ended_row(ended)
    assert (ended.operation.error.exit_code, row["state"]) == (3, "failed")
    assert (row["point_of_no_return_passed"], scene.target.groups.committed) == (False, {})


def test_a_write_that_is_refused_in_part_is_six(scene, ran):
    """And cannot be put back either."""
    groups = scene.target.groups
    groups.denied = {REMOTE[0]}
    groups.before_reading_back = lambda: groups.denied.update(REMOTE)
    ended = ran()
    row = ended_row(ended)
    assert (ended.operation.error.exit_code, row["point_of_no_return_passed"]) == (6, True)
    assert [p["written"] for p in partitions(row)] == [False, True]


@pytest.fixture
def frozen(scene, ran):
    """The target takes the commit, and answers nothing more about groups."""
    scene.target.groups.freezes = UnreachableError("west does not answer")
    return ran()


def test_of_what_nobody_could_look_at_it_is_not_said_that_it_is_not_written(scene, frozen):
    assert frozen.operation.error.exit_code == 6
    assert [p["written"] for p in partitions(ended_row(frozen))] == [None, None]
    (found,) = recorded(scene.journal.entries())
    assert [p["written"] for p in partitions(recorded_row(found))] == [None, None]


def test_what_nobody_could_look_at_is_looked_at_when_it_is_shown(scene, frozen):
    scene.target.groups.failure = None
    (found,) = recorded(scene.journal.entries())
    assert as_it_stands(found, scene.target.groups).written == {"app": frozenset(REMOTE)}


def test_one_group_refused_and_one_written_is_six(scene, ran):
    scene.has("orders-2", 10)
    scene.mirrored("orders-2", 0, [(0, 0, 10)], 10)
    scene.commits("other", "orders-2", 4)
    scene.target.groups.denied = {TopicPartition("east.orders-2", 0)}
    ended = ran(selection=GroupSelection(("app", "other")))
    assert (ended.operation.error.exit_code, "other" in ended.operation.error.message) == (6, True)
    assert scene.target.groups.committed.keys() == {"app"}


def test_what_reads_back_differently_is_seven(scene, ran):
    groups = scene.target.groups
    groups.before_reading_back = lambda: groups.committed["app"].update({REMOTE[0]: Commit(3)})
    assert ran().operation.error.exit_code == 7


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_anything_is_written_ends_it_and_is_reported(scene, ran, signum, code):
    def drain(flow, until, timeout_seconds):
        signal.raise_signal(signum)

    ended = ran(drain)
    assert (ended.operation.error.exit_code, ended_row(ended)["state"]) == (code, "failed")
    assert scene.target.groups.committed == {}


@pytest.fixture
def deaf_to_ctrl_c():
    """As a script's shell starts what it puts into the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("deaf_to_ctrl_c")
def test_sigterm_ends_it_in_the_background_of_a_script_as_well(scene, ran):
    ended = ran(lambda *_: signal.raise_signal(signal.SIGTERM))
    assert (ended.operation.error.exit_code, ended_row(ended)["state"]) == (143, "failed")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_offsets_are_written_waits_until_they_are_read_back(scene, ran, signum):
    scene.target.groups.before_reading_back = lambda: signal.raise_signal(signum)
    assert ended_row(ran())["state"] == "completed"


def test_a_signal_while_its_end_is_put_on_record_leaves_no_move_that_seems_to_be_under_way(scene, ran):
    append = scene.journal.append

    def slowly(entries):
        if entries[0].kind == "ended":
            signal.raise_signal(signal.SIGINT)
        append(entries)

    scene.journal.append = slowly
    assert ended_row(ran())["state"] == "completed"
    assert [one.state for one in recorded(scene.journal.entries())] == ["completed"]


def test_the_next_steps_name_what_a_human_needs(ran):
    ended = ran()
    said = lines_of(next_steps(ended))
    assert "bootstrap.servers=west-1:9092; they must subscribe to east.orders instead of orders" in said
    assert f"mmtool failover rollback {ended.operation.plan.operation_id} --execute" in said
    assert "translate-offsets" not in said


def test_metadata_goes_along(scene, ran):
    commits = scene.source.groups.committed["app"]
    commits[SOURCE[0]] = replace(commits[SOURCE[0]], metadata="stream-time")
    ran()
    assert scene.target.groups.committed["app"][REMOTE[0]] == Commit(50, "stream-time")


def test_a_group_that_is_active_on_the_target_is_seen_before_anything_is_mirrored(scene):
    scene.state.stored.clear()
    scene.target.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    refusal = rehearse(scene.look(), APP).refusal
    assert (refusal.code, "app-1 on 10.0.0.7" in refusal.message) == ("active_on_target", True)


def test_a_group_that_has_nothing_in_this_flow_is_pointed_out(scene):
    scene.source.add_topic("logs", "id-logs", 5)
    scene.commits("elsewhere", "logs", 5)
    rehearsal = rehearse(scene.look(), GroupSelection(("elsewhere",)))
    assert (rehearsal.plan.executable, "nothing to move for elsewhere" in rehearsal.warnings[0]) == (
        True,
        True,
    )


def test_a_group_that_cannot_be_asked_is_not_said_to_have_nothing_to_move(tmp_path):
    scene = half_read(tmp_path)
    scene.commits("b", "orders", 5)
    scene.source.groups.hidden["b"] = UnreachableError("coordinator away")
    rehearsal = rehearse(scene.look(), GroupSelection(("app", "b")))
    assert "coordinator away" in rehearsal.refusal.message
    assert not any("nothing to move" in told for told in rehearsal.warnings)


def test_a_source_log_that_metadata_does_not_show_is_not_left_out_of_the_drain(tmp_path):
    scene = half_read(tmp_path)
    rehearsal = rehearse(scene.look(), GroupSelection(("app",)))
    del scene.source.logs[TopicPartition("orders", 1)]
    context, journalist = scene.context(rehearsal)
    ended = execute(rehearsal, scene, context, journalist)
    assert isinstance(ended.operation.error, UnreachableError)
    assert "orders-1" in ended.operation.error.message
    assert scene.target.groups.committed == {}


def test_a_failed_operation_says_once_how_to_go_on_and_that_is_to_resume_it(ran):
    """A second start is refused where the plan was saved; the list of next commands says the same."""

    def unreachable(*_):
        raise UnreachableError(
            "west does not answer", remedy="start the brokers, then run the same command again"
        )

    operation = ran(drain=unreachable).operation
    resume = f"mmtool failover resume {operation.plan.operation_id}"
    assert error_of(operation).remedy == f"start the brokers, then run `{resume} -c FILE --execute`"
    assert lines_of(ways_on(operation)).startswith(
        f"when the cause is removed, complete the operation:\n{resume} --execute\n"
    )


def test_a_remedy_without_a_second_start_stays_as_it_is(ran):
    def refused(*_):
        raise GateError("orders-0 is halted", remedy="add the topic to topics.exclude")

    operation = ran(drain=refused).operation
    assert error_of(operation) is operation.error


def test_a_completed_operation_names_its_rollback_as_an_undo(ran):
    assert lines_of(ways_on(ran().operation)).startswith(
        "to undo the operation, restore the groups' previous"
    )
