"""``--out`` and ``--plan`` as a script sees them, on clusters in memory."""

import io
import json
import time

import pytest

from kit.one_name import AT_HOME as ONE_NAME_AT_HOME
from kit.one_name import OneName
from kit.processes import error_of, row_of
from kit.scene import Scene
from kit.there_and_back import AT_HOME, ThereAndBack
from mmtool.errors import GateError, OwnedElsewhereError
from mmtool.plan.groups.facts import Commit, Member
from mmtool.plan.records.journal import Entry
from mmtool.translation.types import ClusterId, TopicPartition

REMOTE = TopicPartition("east.orders", 0)


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """One partition of 100 records, mirrored to 60; app has read 50."""
    made = Scene(tmp_path)
    made.has("orders", 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60, source_end=60)
    made.commits("app", "orders", 50)
    made.told("app", "orders", (50, 50), at_ms=int(time.time() * 1000))
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda flow, timeout, **_: made.clusters)
    monkeypatch.setattr("mmtool.failover.service.connections.engine_drain", lambda: made)
    monkeypatch.setattr("mmtool.failover.service.connections.target_side", lambda flow, timeout: made.side)
    monkeypatch.setattr("mmtool.failover.service.connections.written_at", lambda *_: made.target)
    monkeypatch.setattr("mmtool.failover.service.connections.tools", made.tools)
    monkeypatch.setattr("mmtool.failover.service.connections.journal", lambda *_, **__: made.journal)
    monkeypatch.setattr(
        "mmtool.failover.service.connections.operation_lock_of", lambda flow, timeout: made.lock
    )
    return made


@pytest.fixture
def path(tmp_path):
    return tmp_path / "plan.json"


@pytest.fixture(params=["planned", "emergency"])
def saved(request, failover, path):
    """A plan is in the file; which command it is for, and what it was shown as."""
    ended = failover(request.param, "-g", "app", "--out", path)
    assert ended.code == 0
    return request.param, row_of(ended)


EXECUTE = ("--execute", "--yes")


def test_a_saved_plan_says_whether_it_still_holds_and_changes_nothing(failover, saved, path, scene):
    mode, _ = saved
    ended = failover(mode, "--plan", path)
    assert (ended.code, scene.target.groups.committed, scene.journal.stored) == (0, {}, {})
    assert "is still valid" in ended.stderr


def test_what_is_executed_is_what_was_saved_under_the_same_name(failover, saved, path, scene):
    mode, before = saved
    ended = failover(mode, "--plan", path, *EXECUTE)
    row = row_of(ended)
    assert (ended.code, row["state"], row["operation_id"]) == (0, "completed", before["operation_id"])
    assert [step["sentence"] for step in row["steps"]] == [step["sentence"] for step in before["steps"]]
    assert scene.target.groups.committed["app"] == {REMOTE: Commit(50)}


def test_a_plan_is_executed_once(failover, saved, path, scene):
    mode, _ = saved
    failover(mode, "--plan", path, *EXECUTE)
    words = dict(scene.journal.stored)
    again = failover(mode, "--plan", path, *EXECUTE)
    assert (again.code, row_of(again)["state"], scene.journal.stored) == (0, "completed", words)
    assert "has already executed this plan" in again.stderr


def test_a_plan_whose_execution_has_not_ended_is_to_be_resumed(failover, saved, path, scene):
    mode, before = saved
    scene.target.groups.denied = {REMOTE}
    failover(mode, "--plan", path, *EXECUTE)
    scene.target.groups.denied = set()
    again = failover(mode, "--plan", path, *EXECUTE)
    assert (again.code, error_of(again)["remedy"]) == (
        3,
        f"`mmtool failover resume {before['operation_id']} -c {scene.config} --execute` completes it",
    )


def test_a_plan_that_was_rolled_back_is_not_executed_again(failover, saved, path):
    mode, before = saved
    failover(mode, "--plan", path, *EXECUTE)
    failover("rollback", before["operation_id"], *EXECUTE)
    again = failover(mode, "--plan", path, *EXECUTE)
    assert (again.code, error_of(again)["code"]) == (3, "wrong_state")


def test_a_mistyped_plan_gets_the_nearest_file(failover, saved, path):
    mode, _ = saved
    ended = failover(mode, "--plan", path.with_name(f"{path.name}x"))
    assert ended.code == 2
    assert error_of(ended)["message"].endswith(f"; did you mean {path}?")


@pytest.mark.parametrize("how", [(), EXECUTE])
def test_a_stale_plan_is_five_and_names_what_differs(failover, saved, path, scene, how):
    mode, _ = saved
    scene.commits("app", "orders", 49)
    scene.told("app", "orders", (49, 49))
    ended = failover(mode, "--plan", path, *how)
    assert (ended.code, error_of(ended)["code"]) == (5, "stale_plan")
    assert "orders-0 on east: the committed offset was 50 and is now 49" in error_of(ended)["message"]
    assert (scene.target.groups.committed, scene.journal.stored, scene.marks.failed_over) == ({}, {}, set())


def test_members_make_it_stale_before_they_are_refused(failover, saved, path, scene):
    mode, _ = saved
    scene.target.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    assert failover(mode, "--plan", path, *EXECUTE).code == 5


def test_another_cluster_behind_the_alias_is_five(failover, saved, path, scene):
    mode, _ = saved
    scene.target.cluster_id = ClusterId("somebody-else")
    ended = failover(mode, "--plan", path, *EXECUTE)
    said = "west was cluster west-id when the plan was made, and is now cluster somebody-else"
    assert (ended.code, said in error_of(ended)["message"]) == (5, True)


def test_a_longer_log_does_not_make_it_stale(failover, saved, path, scene):
    mode, _ = saved
    scene.source.add_topic("orders", "id-orders", 5_000)
    assert failover(mode, "--plan", path).code == 0


@pytest.mark.parametrize(
    "beside", [("-g", "app"), ("--groups", "a.*"), ("--all-groups",), ("--out", "other.json")]
)
def test_groups_and_options_beside_a_plan_are_two(failover, saved, path, beside):
    mode, _ = saved
    ended = failover(mode, "--plan", path, *beside)
    assert (ended.code, beside[0].strip("-") in error_of(ended)["message"]) == (2, True)


def test_an_option_that_the_plan_holds_is_two_even_with_its_default(failover, path):
    failover("emergency", "-g", "app", "--unknown", "earliest", "--out", path)
    assert failover("emergency", "--plan", path, "--unknown", "leave").code == 2


def test_options_are_the_plans_own(failover, path, scene):
    scene.has("orders", 100, 10)
    scene.mirrored("orders", 0, [(0, 0, 60)], 60, source_end=60)
    scene.mirrored("orders", 1, [(0, 0, 10)], 10, source_end=10)
    failover("emergency", "-g", "app", "--unknown", "earliest", "--out", path)
    failover("emergency", "--plan", path, *EXECUTE)
    assert scene.target.groups.committed["app"] == {
        REMOTE: Commit(50),
        TopicPartition("east.orders", 1): Commit(0),
    }


def test_another_flow_beside_a_plan_is_two(failover, saved, path):
    mode, _ = saved
    assert failover(mode, "--plan", path, "-s", "west", "-t", "east").code == 2
    assert failover(mode, "--plan", path, "-s", "east", "-t", "west").code == 0


def test_the_plan_of_another_mode_is_two(failover, saved, path, scene):
    other = {"planned": "emergency", "emergency": "planned"}[saved[0]]
    ended = failover(other, "--plan", path)
    assert (ended.code, error_of(ended)["remedy"]) == (
        2,
        f"run `mmtool failover {saved[0]} -c {scene.config} --plan {path}`",
    )


def test_a_damaged_file_is_two(failover, saved, path):
    path.write_bytes(path.read_bytes().replace(b"50", b"51", 1))
    ended = failover(saved[0], "--plan", path, *EXECUTE)
    assert (ended.code, error_of(ended)["code"]) == (2, "unreadable_plan")


def test_a_file_that_cannot_be_written_is_two(failover, tmp_path):
    assert failover("planned", "-g", "app", "--out", tmp_path / "no" / "plan.json").code == 2


def test_a_saved_plan_asks_once_as_well(failover, saved, path, scene, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ended = failover(saved[0], "--plan", path, "--execute")
    assert (ended.code, scene.target.groups.committed) == (3, {})


def test_where_nobody_can_be_asked_it_needs_yes(failover, saved, path, scene):
    assert (failover(saved[0], "--plan", path, "--execute").code, scene.journal.stored) == (3, {})


def test_of_two_that_execute_one_plan_at_once_the_second_writes_nothing(failover, saved, path, scene):
    mode, before = saved

    def hold():
        if not scene.journal.stored:  # the other one, while we waited for the lock
            entry = Entry(before["operation_id"], 1, "began", 1, "bob@host-2", "running", False, BEGUN)
            scene.journal.append([entry])

    scene.lock.hold = hold
    ended = failover(mode, "--plan", path, *EXECUTE)
    assert (ended.code, len(scene.journal.stored), scene.target.groups.committed) == (10, 1, {})


BEGUN = {
    "mode": "planned",
    "source": "east",
    "target": "west",
    "source_id": "east-id",
    "target_id": "west-id",
    "groups": ["app"],
    "steps": [],
    "reason": "",
}


def test_another_operation_under_way_is_ten_and_the_plan_stays_good(failover, saved, path, scene):
    mode, _ = saved
    scene.lock.failure = OwnedElsewhereError("another operation on flow east->west is running")
    assert (failover(mode, "--plan", path, *EXECUTE).code, scene.journal.stored) == (10, {})
    scene.lock.failure = None
    assert failover(mode, "--plan", path, *EXECUTE).code == 0


def test_a_plan_that_a_guard_forbids_is_kept_and_stays_forbidden(failover, path, scene):
    scene.target.groups.members["app"] = (Member("app-1", "/10.0.0.7"),)
    ended = failover("planned", "-g", "app", "--out", path)
    assert (ended.code, failover("planned", "--plan", path, *EXECUTE).code) == (3, 3)
    assert f"{path}; it cannot be executed, see the error" in ended.stderr
    assert "execute it with" not in ended.stderr


def test_a_plan_that_can_be_executed_is_kept_with_its_command(failover, path):
    ended = failover("planned", "-g", "app", "--out", path)
    assert f"{path}; execute it with: mmtool failover planned " in ended.stderr


def test_a_topic_beside_a_plan_is_called_as_help_calls_it(mmtool, path):
    ended = mmtool("failover", "failback", "--plan", path, "--diverged", "topic", "aside")
    assert "so --diverged, NAME cannot be added" in ended.stderr


def test_a_runbook_is_written_beside_the_plan_and_names_it(failover, path, tmp_path, scene):
    scene.config.write_text(scene.config.read_text() + "west.sasl.password = hunter2-secret\n")
    page = tmp_path / "sunday.md"
    ended = failover("planned", "-g", "app", "--out", path, "--runbook", page)
    text = page.read_text()
    assert (ended.code, row_of(ended)["operation_id"] in text, "hunter2-secret" in text) == (0, True, False)
    assert f"mmtool failover planned --plan {path} --execute -c {scene.config}" in text


def test_a_runbook_is_written_of_a_saved_plan_as_well(failover, saved, path, tmp_path):
    mode, before = saved
    assert failover(mode, "--plan", path, "--runbook", tmp_path / "page.md").code == 0
    assert before["operation_id"] in (tmp_path / "page.md").read_text()


def test_a_runbook_that_cannot_be_written_is_two(failover, tmp_path):
    assert failover("planned", "-g", "app", "--runbook", tmp_path / "no" / "page.md").code == 2


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Groups went away, and the source is back."""
    made = ThereAndBack(tmp_path)
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda flow, timeout, **_: made.clusters)
    monkeypatch.setattr(
        "mmtool.failover.service.connections.both_ways", lambda flow, back, timeout: made.both
    )
    monkeypatch.setattr("mmtool.failover.service.connections.engine_drain", lambda: made)
    monkeypatch.setattr("mmtool.failover.service.connections.tools", made.tools)
    monkeypatch.setattr("mmtool.failover.service.connections.journal", lambda *_, **__: made.journal)
    return made


@pytest.fixture
def failback(mmtool, home):
    return lambda *arguments: mmtool("failover", "failback", *arguments, "-c", home.config, "-o", "json")


def test_a_failback_can_be_kept_and_executed_as_well(failback, home, path, tmp_path):
    kept = failback("-g", "app", "-g", "late", "--out", path, "--runbook", tmp_path / "home.md")
    assert (kept.code, failback("--plan", path).code) == (0, 0)
    ended = failback("--plan", path, "--diverged-dir", tmp_path, *EXECUTE)
    assert (ended.code, home.source.groups.committed) == (0, AT_HOME)
    assert failback("--plan", path).code == 0


@pytest.fixture
def stopped(monkeypatch, home, failback, tmp_path):
    """A failback whose folder was not there, as `failover resume` finds it."""
    monkeypatch.setattr(
        "mmtool.failover.service.connections.operation_lock_of", lambda flow, timeout: home.lock
    )
    monkeypatch.setattr(
        "mmtool.failover.service.connections.both_ways", lambda flow, back, timeout: home.both
    )
    monkeypatch.setattr("mmtool.failover.service.connections.engine_drain", lambda: home)
    ended = failback("-g", "app", "-g", "late", "--diverged-dir", tmp_path / "away", *EXECUTE)
    assert ended.code != 0
    return row_of(ended)["operation_id"]


def test_a_failback_is_resumed_with_another_folder_for_its_file(mmtool, home, stopped, tmp_path):
    (tmp_path / "here").mkdir()
    resumed = ("failover", "resume", stopped, "--diverged-dir", tmp_path / "here", *EXECUTE)
    ended = mmtool(*resumed, "-c", home.config, "-o", "json")
    assert (ended.code, home.source.groups.committed) == (0, AT_HOME)
    assert [path.parent.name for path in tmp_path.rglob("mmtool-diverged-*")] == ["here"]


def test_a_failback_that_is_resumed_drains_no_longer_than_it_is_told(
    mmtool, home, stopped, tmp_path, monkeypatch
):
    waited = []

    def drain(flow, until, timeout_seconds):
        del flow, until
        waited.append(timeout_seconds)
        raise GateError(f"not within {timeout_seconds} s")

    monkeypatch.setattr(home, "drain", drain)
    (tmp_path / "here").mkdir()
    resumed = ("failover", "resume", stopped, "--diverged-dir", tmp_path / "here", "--timeout", "3s")
    ended = mmtool(*resumed, *EXECUTE, "-c", home.config, "-o", "json")
    assert (ended.code, set(waited)) == (4, {3.0})


@pytest.fixture
def one_name(tmp_path, monkeypatch, home):
    """The same, where topics have one name."""
    made = OneName(tmp_path)
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda flow, timeout, **_: made.clusters)
    monkeypatch.setattr(
        "mmtool.failover.service.connections.both_ways", lambda flow, back, timeout: made.both
    )
    monkeypatch.setattr("mmtool.failover.service.connections.engine_drain", lambda: made)
    monkeypatch.setattr("mmtool.failover.service.connections.tail_appender", lambda *_: made.writer)
    monkeypatch.setattr("mmtool.failover.service.connections.tools", made.tools)
    monkeypatch.setattr("mmtool.failover.service.connections.journal", lambda *_, **__: made.journal)
    return made


def test_what_becomes_of_diverged_records_is_kept_in_the_plan(failback, one_name, path):
    words = ("topic", "salvage")
    kept = failback("-g", "app", "-g", "late", "--diverged", *words, "--out", path)
    assert (kept.code, json.loads(path.read_text())["options"]) == (0, {"diverged": "topic salvage"})
    beside = failback("--plan", path, "--diverged", *words)
    assert (beside.code, "cannot be added" in error_of(beside)["message"]) == (2, True)
    ended = failback("--plan", path, *EXECUTE)
    assert (ended.code, one_name.source.groups.committed) == (0, ONE_NAME_AT_HOME)
    assert sum(map(len, one_name.writer.ours.values())) == 5


def test_a_group_that_reads_on_away_makes_the_plan_of_its_way_home_stale(failback, home, path):
    failback("-g", "app", "--out", path)
    home.commits("app", "orders", 5, cluster=home.target)
    ended = failback("--plan", path, *EXECUTE)
    assert (
        ended.code,
        "orders-0 on west: the committed offset was 4 and is now 5" in error_of(ended)["message"],
    ) == (
        5,
        True,
    )


# --- Kafka Streams applications ---------------------------------------------------------------------------


@pytest.fixture
def application(scene):
    """``app`` is one: its changelog is on the source, and outside ``topics``."""
    scene.source.add_topic("app-counts-changelog", "id-changelog", 9)
    scene.runs_streams("app")
    return scene


def test_an_application_without_its_state_is_three_and_nothing_is_changed(failover, application):
    for arguments in ((), EXECUTE):
        ended = failover("planned", "-g", "app", *arguments)
        assert (ended.code, error_of(ended)["code"]) == (3, "state_not_mirrored")
    assert (application.target.groups.committed, application.journal.stored) == ({}, {})


def test_without_state_belongs_to_a_saved_plan_and_to_its_runbook(failover, application, path, tmp_path):
    kept = failover(
        "planned", "-g", "app", "--without-state", "--out", path, "--runbook", tmp_path / "book.md"
    )
    assert kept.code == 0, kept
    assert "`--without-state`" in (tmp_path / "book.md").read_text()
    beside = failover("planned", "--plan", path, "--without-state")
    assert (beside.code, "--without-state" in error_of(beside)["message"]) == (2, True)
    assert failover("planned", "--plan", path, *EXECUTE).code == 0
    assert application.target.groups.committed["app"][REMOTE].offset == 50


def test_a_resumed_operation_remembers_that_it_goes_without_state(failover, application, monkeypatch):
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda *_, **__: application.clusters)
    monkeypatch.setattr("mmtool.failover.service.connections.engine_drain", lambda: application)
    application.target.groups.rights_missing = ["READ on group app"]
    failed = failover("planned", "-g", "app", "--without-state", *EXECUTE)
    application.target.groups.rights_missing = []
    ended = failover("resume", row_of(failed)["operation_id"], *EXECUTE)
    assert (failed.code, ended.code) == (9, 0), ended
    assert application.target.groups.committed["app"][REMOTE].offset == 50
