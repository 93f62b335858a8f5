"""``--fence`` and the ways back from it as a script sees them, on clusters in memory."""

import json
import re
import shlex

import pytest

from kit.operations import KilledError
from kit.processes import row_of
from kit.scene import Scene
from mmtool.errors import GateError
from mmtool.plan.failover.acl_rules import Binding
from mmtool.translation.types import TopicPartition

MAY = Binding("orders", "LITERAL", "User:alice", "*", "WRITE", "ALLOW")
FENCE = MAY._replace(permission="DENY")
PLACE = TopicPartition("orders", 0)
EXECUTE = ("--execute", "--yes")


@pytest.fixture
def scene(tmp_path, monkeypatch):
    """One partition of 100 records that alice may write, mirrored to 60; app has read 80."""
    made = Scene(tmp_path)
    made.has("orders", 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60)
    made.commits("app", "orders", 80)
    made.may_write("alice", "orders")
    monkeypatch.setattr("mmtool.insight.flow_now.connect", lambda flow, timeout, **_: made.clusters)
    monkeypatch.setattr("mmtool.failover.service.connections.engine_drain", lambda: made)
    monkeypatch.setattr(
        "mmtool.failover.service.connections.fenced_cluster", lambda *_: (made.source, made.fences)
    )
    monkeypatch.setattr("mmtool.failover.service.connections.tools", made.tools)
    monkeypatch.setattr(
        "mmtool.failover.service.connections.operation_lock_of", lambda flow, timeout: made.lock
    )
    monkeypatch.setattr("mmtool.failover.service.connections.journal", lambda *_, **__: made.journal)
    monkeypatch.setattr("mmtool.failover.service.connections.target_side", lambda flow, timeout: made.side)
    monkeypatch.setattr("mmtool.failover.service.connections.written_at", lambda *_: made.target)
    return made


@pytest.fixture
def fenced(failover):
    return lambda *more: failover("planned", "-g", "app", "--fence", "acl", "--fence-watch", "250ms", *more)


def test_a_rehearsal_is_zero_and_shows_the_fence_and_what_it_leaves_open(fenced, scene):
    ended = fenced()
    steps = {step["name"]: step["sentence"] for step in row_of(ended)["steps"]}
    assert (ended.code, list(steps)[1:4]) == (0, ["fence", "await_transactions", "watch_ends"])
    assert "deny WRITE to User:alice on orders" in steps["fence"]
    assert "do not move for 0.25 s" in steps["watch_ends"]
    assert (scene.fences.rules, scene.journal.stored) == ({MAY}, {})


def test_executed_the_fence_stands_and_what_is_next_is_said(fenced, scene):
    ended = fenced(*EXECUTE)
    assert (ended.code, row_of(ended)["state"], scene.fences.rules) == (0, "completed", {MAY, FENCE})
    assert "start the producers of orders with bootstrap.servers=west-1:9092" in ended.stderr
    assert (
        "\nwest->east.enabled = true\nwest->east.topics = orders\nwest->east.groups = app\n" in ended.stderr
    )


def test_without_a_fence_nothing_is_said_of_producers_or_of_the_reverse_flow(failover):
    ended = failover("planned", "-g", "app", *EXECUTE)
    assert "west->east" not in ended.stderr
    assert "fence" not in [step["name"] for step in row_of(ended)["steps"]]


def test_a_fence_that_cannot_be_raised_is_three_with_every_reason(fenced, scene):
    scene.fences.may_alter = False
    scene.may_write("*", "orders")
    ended = fenced(*EXECUTE)
    errors = json.loads(ended.stdout)["errors"]
    assert (ended.code, len(errors), scene.fences.rules - {MAY}) == (
        3,
        2,
        {MAY._replace(principal="User:*")},
    )
    assert any(error["code"] == "everybody_may_write" for error in errors)


def test_what_a_fence_leaves_open_is_a_warning(fenced, scene):
    scene.may_write("mm", "orders")
    warnings = json.loads(fenced().stdout)["warnings"]
    assert any(
        "User:mm is mmtool's own principal and keeps WRITE on orders" in sentence for sentence in warnings
    )


@pytest.mark.long
def test_a_stray_producer_is_four_and_the_fence_is_gone(fenced, scene, monkeypatch):
    ends = scene.source.bounds

    def growing(places, **how):
        """Behind the fence somebody writes whenever we look."""
        if scene.fences.rules != {MAY}:
            scene.fences.produce("User:boss", PLACE, 7)
        return ends(places, **how)

    monkeypatch.setattr(scene.source, "bounds", growing)
    ended = fenced(*EXECUTE, "--fence-watch", "2s")
    assert (ended.code, scene.fences.rules) == (4, {MAY})
    assert {step["name"]: step["state"] for step in row_of(ended)["steps"]}["fence"] == "undone"
    assert "by producer id 7" in ended.stderr
    assert "fence: undone" in ended.stderr


def test_a_rollback_lowers_the_fence(fenced, failover, scene):
    name = row_of(fenced(*EXECUTE))["operation_id"]
    rehearsed = failover("rollback", name)
    assert "and lift the fence on east\n" in rehearsed.stderr
    assert scene.fences.rules == {MAY, FENCE}
    assert (failover("rollback", name, *EXECUTE).code, scene.fences.rules) == (0, {MAY})


def test_show_says_how_the_fence_comes_down(fenced, failover):
    name = row_of(fenced(*EXECUTE))["operation_id"]
    assert "kafka-acls.sh --bootstrap-server east-1:9092 --remove" in failover("show", name).stderr


@pytest.fixture
def killed(fenced, scene, monkeypatch):
    """While it drains."""

    def drain(*_):
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(scene, "drain", drain)
        with pytest.raises(KilledError):
            fenced(*EXECUTE)
    (name,) = {entry.operation_id for entry in scene.journal.entries()}
    return name


def test_resumed_the_same_fence_is_raised_again(killed, failover, scene):
    assert scene.fences.rules == {MAY, FENCE}
    ended = failover("resume", killed, *EXECUTE)
    assert (ended.code, row_of(ended)["state"], scene.fences.rules) == (0, "completed", {MAY, FENCE})
    assert "do not move for 0.25 s" in ended.stdout


def out_of_time(scene, monkeypatch, waited):
    """A drain that never comes to an end by itself, as of a mirror that stands still."""

    def drain(flow, until, timeout_seconds):
        del flow, until
        waited.append(timeout_seconds)
        raise GateError(f"not within {timeout_seconds} s")

    monkeypatch.setattr(scene, "drain", drain)


def test_resumed_the_drain_ends_when_its_time_is_up_as_that_of_the_first_try(
    killed, failover, scene, monkeypatch
):
    waited = []
    out_of_time(scene, monkeypatch, waited)
    ended = failover("resume", killed, *EXECUTE, "--timeout", "3s")
    row = row_of(ended)
    assert (ended.code, waited, row["state"], row["point_of_no_return_passed"]) == (4, [3.0], "failed", False)
    assert scene.target.groups.committed == {}
    assert scene.fences.rules == {MAY}


def test_resumed_without_a_time_the_drain_takes_as_long_as_it_takes(killed, failover, scene, monkeypatch):
    waited = []
    out_of_time(scene, monkeypatch, waited)
    failover("resume", killed, *EXECUTE)
    assert waited == [None]


def test_cancelled_the_fence_is_gone(killed, failover, scene):
    assert (failover("cancel", killed, *EXECUTE).code, scene.fences.rules) == (0, {MAY})


def test_a_hook_that_is_not_configured_is_two(failover):
    ended = failover("planned", "-g", "app", "--fence", "hook")
    assert (ended.code, "mmtool.hook.fence is not set" in ended.stderr) == (2, True)


def test_a_saved_plan_is_executed_with_its_fence(fenced, failover, scene, tmp_path):
    assert fenced("--out", tmp_path / "plan.json").code == 0
    ended = failover("planned", "--plan", tmp_path / "plan.json", *EXECUTE)
    assert (ended.code, row_of(ended)["state"], scene.fences.rules) == (0, "completed", {MAY, FENCE})
    assert "do not move for 0.25 s" in ended.stdout


def test_a_saved_plan_is_stale_when_somebody_else_may_write_by_now(fenced, failover, scene, tmp_path):
    fenced("--out", tmp_path / "plan.json")
    scene.may_write("bob", "orders")
    ended = failover("planned", "--plan", tmp_path / "plan.json", *EXECUTE)
    assert (ended.code, "User:bob" in ended.stderr, FENCE in scene.fences.rules) == (5, True, False)


def test_the_runbook_executes_with_the_options_that_were_given(fenced, mmtool, scene, tmp_path):
    page = tmp_path / "runbook.md"
    assert fenced("--runbook", page).code == 0
    assert "| `--fence-watch` | 0.25s |" in page.read_text()
    (line,) = re.findall(r"^mmtool (failover planned .* --execute .*)$", page.read_text(), re.MULTILINE)
    ended = mmtool(*shlex.split(line), "--yes")
    assert (ended.code, scene.fences.rules) == (0, {MAY, FENCE}), ended.stderr


def test_the_runbook_has_the_fence_as_kafkas_own_commands(fenced, tmp_path):
    ended = fenced("--runbook", tmp_path / "runbook.md")
    assert ended.code == 0, ended.stderr
    page = (tmp_path / "runbook.md").read_text()
    rule = "--topic orders --deny-principal User:alice --deny-host '*' --operation Write"
    assert f"--add {rule}" in page
    assert (
        f"# kafka-acls.sh --bootstrap-server east-1:9092 --command-config east.properties --remove --force {rule}"
        in page
    )
