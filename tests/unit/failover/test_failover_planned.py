"""The planned failover on clusters in memory: what it does, in which order, and when it does not."""

import signal
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kit.operations import lines_of
from kit.scene import half_read
from mmtool.errors import GateError, UnreachableError
from mmtool.failover.modes.planned_mode import execute, rehearse
from mmtool.failover.operation.records import recorded
from mmtool.failover.report.operation_row import ended_row
from mmtool.failover.report.report import error_of, ways_on
from mmtool.plan.groups.facts import GroupSelection
from mmtool.translation.types import TopicPartition

APP = GroupSelection(("app",))
SOURCE = [TopicPartition("orders", n) for n in range(2)]


@pytest.fixture
def ran(scene):
    """Rehearse and execute, with another drain where the test gives one."""

    def run(drain=None, clock=None):
        port = SimpleNamespace(drain=drain) if drain else scene
        rehearsal = rehearse(scene.look(), APP)
        context = scene.context(rehearsal)
        context = replace(context, clock=replace(context.clock, seconds=clock)) if clock else context
        return execute(rehearsal, replace(context, drain=port))

    return run


def test_the_drain_goes_past_every_commit_and_to_the_source_end(scene, ran):
    scene.commits("app", "orders", 50, 120)  # the last record was deleted, or its topic compacted
    scene.source.add_topic("orders", "id-orders", 100, 120)
    ran()
    assert scene.drained == [{SOURCE[0]: 100, SOURCE[1]: 120}]


def test_an_empty_partition_that_nobody_committed_for_is_not_waited_for(scene, ran):
    scene.source.add_topic("orders", "id-orders", 100, 100, 0)
    ran()
    assert scene.drained[0].keys() == set(SOURCE)


def test_the_time_to_recover_is_measured_to_the_last_offset_read_back(ran):
    ticks = iter([10.0, 13.5])
    assert ended_row(ran(clock=lambda: next(ticks)))["rto_seconds"] == 3.5


def test_a_drain_that_ended_short_is_not_believed(scene, ran):
    ended = ran(lambda *_: None)
    assert (ended.operation.error.exit_code, ended.cutover.figures.rpo_records) == (4, 40)


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


def test_a_source_log_that_metadata_does_not_show_is_not_left_out_of_the_drain(tmp_path):
    scene = half_read(tmp_path)
    rehearsal = rehearse(scene.look(), GroupSelection(("app",)))
    del scene.source.logs[TopicPartition("orders", 1)]
    ended = execute(rehearsal, scene.context(rehearsal))
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
